"""What the scheduler reads of the cluster: slices of Kubernetes' kinds, never written back."""

from datetime import datetime
from typing import Any

import msgspec

from bireme.api.core import Slice
from bireme.api.meta import Condition, ObjectMeta

Json = dict[str, Any]


class PodSpec(Slice, frozen=True, gc=False):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Json, ...] = ()
    init_containers: tuple[Json, ...] = ()
    overhead: dict[str, str] = {}
    resources: Json = {}
    node_selector: dict[str, str] = {}
    affinity: Json = {}
    tolerations: tuple[Json, ...] = ()
    topology_spread_constraints: tuple[Json, ...] = ()
    scheduling_gates: tuple[Json, ...] = ()
    volumes: tuple[Json, ...] = ()
    resource_claims: tuple[Json, ...] = ()


class PodStatus(Slice, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(Slice, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Slice, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[dict[str, str], ...] = ()


class NodeStatus(Slice, frozen=True, gc=False):
    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[Condition, ...] = ()


class Node(Slice, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Slice, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()


class ClaimSpec(Slice, frozen=True, gc=False):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    resources: Json = {}
    selector: Json | None = None
    volume_mode: str = "Filesystem"


class Claim(Slice, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class VolumeSpec(Slice, frozen=True, gc=False):
    capacity: dict[str, str] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    claim_ref: Json | None = None
    node_affinity: Json = {}
    volume_mode: str = "Filesystem"


class VolumeStatus(Slice, frozen=True, gc=False):
    phase: str = ""


class Volume(Slice, frozen=True, gc=False):
    """A PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class StorageClass(Slice, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Json, ...] = ()


class Profiles(msgspec.Struct, frozen=True):
    """Keys of the ConfigMap `resource-shapes`: resource → the most that one pod may request."""

    most: dict[str, dict[str, int]] = {}
    unreadable: frozenset[str] = frozenset()
    """Keys whose value is not a map of quantities."""


def bound_at(pod: Pod) -> datetime | None:
    """When a pod was bound to its node; the API server writes it into PodScheduled with the binding."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time if pod.spec.node_name else None
    return None


def with_binding(pod: Pod, node: str, since: datetime) -> Pod:
    """Return the pod as it is once it is bound."""
    scheduled = Condition(type="PodScheduled", status="True", last_transition_time=since)
    others = (each for each in pod.status.conditions if each.type != "PodScheduled")
    status = msgspec.structs.replace(pod.status, conditions=(*others, scheduled))
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec, status=status)


def created(metadata: ObjectMeta) -> datetime:
    """When an object was made; the API server always says it."""
    assert metadata.creation_timestamp is not None, metadata.name
    return metadata.creation_timestamp
