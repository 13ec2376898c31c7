"""The slices of Kubernetes' own kinds that we read. A slice is never written back."""

from datetime import datetime
from typing import Any

import msgspec

from bireme.api.meta import Condition, ObjectMeta


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of what is decoded by the thousand: no cycles, so nothing for the garbage collector."""


class TerminatedState(Slice, frozen=True, gc=False):
    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class WaitingState(Slice, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class RunningState(Slice, frozen=True, gc=False):
    started_at: datetime | None = None


class ContainerState(Slice, frozen=True, gc=False):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class PodContainerStatus(Slice, frozen=True, gc=False):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Slice, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[PodContainerStatus, ...] = ()
    container_statuses: tuple[PodContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(default="", name="podIP")


class PodContainer(Slice, frozen=True, gc=False):
    name: str = ""
    image: str = ""
    resources: dict[str, Any] = {}


class PodSpec(Slice, frozen=True, gc=False):
    node_name: str = ""
    active_deadline_seconds: int | None = None
    scheduler_name: str = ""
    containers: tuple[PodContainer, ...] = ()
    init_containers: tuple[PodContainer, ...] = ()


class Pod(Slice, frozen=True, gc=False):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Service(Slice, frozen=True, gc=False):
    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()


class ConfigMap(Slice, frozen=True, gc=False):
    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class Secret(Slice, frozen=True, gc=False):
    """Without its data: nothing that reads Secrets in bulk needs what is in them."""

    api_version: str = "v1"
    kind: str = "Secret"
    metadata: ObjectMeta = ObjectMeta()


class NodeStatus(Slice, frozen=True, gc=False):
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class Taint(Slice, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Slice, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class Node(Slice, frozen=True, gc=False):
    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
