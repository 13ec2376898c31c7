"""Queue and PodGroup: who may use how much, and which pods start together."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from bireme.api.duration import DURATION_PATTERN
from bireme.api.job import QUEUE_PATTERN
from bireme.api.meta import Condition, ListMeta, ObjectMeta
from bireme.api.model import Model, field

SCHEDULER_GROUP_VERSION = "scheduler.tensorstack.dev/v1beta1"
SCHEDULER_NAME = "t9k-scheduler"
DEFAULT_QUEUE = "default"
GROUP_LABEL = "scheduler.tensorstack.dev/group-name"
QUEUE_LABEL = "scheduler.tensorstack.dev/queue"
ROLE_LABEL = "scheduler.tensorstack.dev/role"
"""Labels of a pod: its PodGroup, or the queue of a pod that stands alone, and its role in the group."""

ResourceList = dict[str, str | int | float]

_RESOURCES = {"maxProperties": 256, "additionalProperties": {"x-bireme-kube": "Quantity"}}
_PRIORITY = {"minimum": 0, "maximum": 100, "format": "int32"}
SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EXPRESSION = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {
        "key": {"type": "string", "minLength": 1},
        "operator": {"type": "string", "enum": list(SELECTOR_OPERATORS)},
        "values": {"type": "array", "items": {"type": "string"}},
    },
    "anyOf": [
        {
            "properties": {"operator": {"enum": ["In", "NotIn"]}, "values": {"minItems": 1}},
            "required": ["values"],
            "maxProperties": 3,
        },
        {"properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}}, "maxProperties": 2},
        {
            "properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}, "values": {"maxItems": 0}},
            "required": ["values"],
            "maxProperties": 3,
        },
    ],
    "x-kubernetes-preserve-unknown-fields": True,
    "x-bireme-closed": "remove it",
}
# A schema without preserve-unknown-fields would let the API server drop a key such as `zone`, and leave `{}`,
# which selects everything. So unknown keys are preserved, and `anyOf` counts them.
_SELECTOR = {
    "type": "object",
    "properties": {
        "matchExpressions": {"type": "array", "items": _EXPRESSION},
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "anyOf": [
        {"maxProperties": 0},
        {"required": ["matchLabels"], "maxProperties": 1},
        {"required": ["matchExpressions"], "maxProperties": 1},
        {"required": ["matchLabels", "matchExpressions"], "maxProperties": 2},
    ],
    "x-kubernetes-preserve-unknown-fields": True,
    "x-kubernetes-map-type": "atomic",
    "x-bireme-closed": "write it below matchLabels",
    "x-bireme-untyped": True,
}
_CONDITIONS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def queue_named_by(job: Mapping[str, Any]) -> str | None:
    """Return the queue that the manifest of a job names; None where the cluster's scheduler places its pods.

    MPIJobs of Kubeflow name it in their schedulingPolicy, or by a label of the job.
    """
    spec = job.get("spec") or {}
    if not str(job.get("apiVersion", "")).startswith("kubeflow.org/"):
        queue = ((spec.get("scheduler") or {}).get("t9kScheduler") or {}).get("queue")
        return str(queue) if queue else None
    policy = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
    labels = (job.get("metadata") or {}).get("labels") or {}
    queue = policy.get("queue") or labels.get(QUEUE_LABEL)
    return str(queue) if queue else None


class QuotaRequirements(Model, frozen=True):
    """The most that the queue's pods may request together."""

    requests: Annotated[
        ResourceList, field("The most of each resource; a resource not named is free.", **_RESOURCES)
    ] = {}


class QueueSpec(Model, frozen=True):
    """Who may use the queue, how much of the cluster, and in which order."""

    quota: Annotated[
        QuotaRequirements | None, field("The most that the queue's pods may request together.")
    ] = None
    priority: Annotated[int, field("Order among queues, 0 to 100; larger goes first.", **_PRIORITY)] = 0
    preemptible: Annotated[
        bool | None,
        field("Whether a queue of higher priority may take this one's resources; true when left out."),
    ] = None
    closed: Annotated[bool, field("A closed queue starts nothing new; what runs goes on.")] = False
    max_duration: Annotated[
        str | None,
        field(
            "The longest that a pod may be bound to a node, such as `3w` or `2h45m`; units y w d h m s ms, "
            "in that order. Waiting does not count. No limit when 0 or left out.",
            minLength=1,
            maxLength=64,
            pattern=DURATION_PATTERN,
        ),
    ] = None
    node_selector: Annotated[
        dict[str, Any] | None, field("The nodes that the queue may use; all when left out.", **_SELECTOR)
    ] = None
    namespace_selector: Annotated[
        dict[str, Any] | None,
        field("The namespaces whose jobs may use the queue; none when left out, all when `{}`.", **_SELECTOR),
    ] = None
    resource_shape_profile: Annotated[
        str,
        field("Key of the ConfigMap `resource-shapes`: the most that one pod may request.", maxLength=253),
    ] = ""

    @property
    def is_preemptible(self) -> bool:
        return self.preemptible is not False


class PodGroupsInQueue(Model, frozen=True, omit_defaults=False):
    """PodGroups of a queue."""

    total: Annotated[int, field("How many there are.")] = 0


class PodCounts(Model, frozen=True, omit_defaults=False):
    """Pods per phase."""

    pending: Annotated[int, field("Pods in phase Pending.")] = 0
    running: Annotated[int, field("Pods in phase Running.")] = 0
    succeeded: Annotated[int, field("Pods in phase Succeeded.")] = 0
    failed: Annotated[int, field("Pods in phase Failed.")] = 0
    unknown: Annotated[int, field("Pods in phase Unknown.")] = 0


class QueueStatus(Model, frozen=True):
    """What is observed of a queue."""

    allocated: Annotated[ResourceList, field("What its pods hold.", **_RESOURCES)] = {}
    conditions: Annotated[tuple[Condition, ...], field("The state of the queue.", **_CONDITIONS)] = ()
    pod_groups: Annotated[PodGroupsInQueue | None, field("Its PodGroups.")] = None
    pods: Annotated[PodCounts | None, field("Its pods, by phase.")] = None


class Queue(Model, frozen=True):
    """A share of the cluster with its own limits, order and users."""

    api_version: str = SCHEDULER_GROUP_VERSION
    kind: str = "Queue"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[QueueSpec, field("Limits, order and users.")] = QueueSpec()
    status: Annotated[QueueStatus | None, field("What is observed; written by the scheduler alone.")] = None


class QueueList(Model, frozen=True):
    api_version: str = SCHEDULER_GROUP_VERSION
    kind: str = "QueueList"
    metadata: ListMeta = ListMeta()
    items: tuple[Queue, ...] = ()


class Role(Model, frozen=True):
    """Pods of one role inside a group."""

    name: Annotated[
        str, field("The role, as its pods' label names it.", required=True, minLength=1, maxLength=63)
    ] = ""
    min_member: Annotated[
        int, field("How many of them must start together.", minimum=0, maximum=2**31 - 1, format="int32")
    ] = 0


class PodGroupSpec(Model, frozen=True):
    """How many pods of the group must start together, and from which queue."""

    min_member: Annotated[
        int, field("How many pods must start together.", minimum=0, maximum=2**31 - 1, format="int32")
    ] = 0
    roles: Annotated[
        tuple[Role, ...],
        field(
            "Minimum per role.",
            maxItems=256,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()
    queue: Annotated[
        str,
        field("The Queue that the pods are charged to.", minLength=1, maxLength=63, pattern=QUEUE_PATTERN),
    ] = DEFAULT_QUEUE
    priority: Annotated[int, field("Order inside the queue, 0 to 100; larger goes first.", **_PRIORITY)] = 0
    topology_policy: Annotated[
        Any,
        field(
            "Accepted for compatibility, and ignored.",
            **{"x-bireme-untyped": True, "x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = None


class PodGroupCondition(Condition, frozen=True, omit_defaults=False):
    """A condition with the id of its transition."""

    transition_id: Annotated[str, field("Identifies the transition.")] = msgspec.field(
        default="", name="transitionID"
    )


class GangBinding(Model, frozen=True):
    """A plan that is being carried out; there only until its last pod is bound."""

    since: Annotated[datetime, field("When the first pod was to be bound.", required=True)]
    nodes: Annotated[
        dict[str, tuple[str, ...]], field("Which pods go to each node.", maxProperties=5000)
    ] = {}


class Waiting(Model, frozen=True):
    """Why a group waits; there only while it does."""

    reason: Annotated[str, field("One word from a closed list.", required=True)]
    message: Annotated[str, field("The numbers behind it.")] = ""
    position: Annotated[int | None, field("Its place among those of its queue that wait, from 1.")] = None
    earliest_start: Annotated[
        datetime | None, field("When it starts at the latest, where the pods' longest durations tell.")
    ] = None


class PodGroupStatus(PodCounts, frozen=True, omit_defaults=False):
    """What is observed of a group."""

    allocated: Annotated[ResourceList, field("What its pods hold.", **_RESOURCES)] = {}
    waiting: Annotated[Waiting | None, field("Why it waits; absent while it does not.")] = None
    binding: Annotated[GangBinding | None, field("The plan that is being carried out.")] = None
    conditions: Annotated[
        tuple[PodGroupCondition, ...], field("SufficientGroupMember and GroupScheduled.", **_CONDITIONS)
    ] = ()


class PodGroup(Model, frozen=True):
    """Pods that start together or not at all."""

    api_version: str = SCHEDULER_GROUP_VERSION
    kind: str = "PodGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodGroupSpec, field("Which pods, and from which queue.", required=True)] = PodGroupSpec()
    status: Annotated[PodGroupStatus | None, field("What is observed; written by the scheduler alone.")] = (
        None
    )


class PodGroupList(Model, frozen=True):
    api_version: str = SCHEDULER_GROUP_VERSION
    kind: str = "PodGroupList"
    metadata: ListMeta = ListMeta()
    items: tuple[PodGroup, ...] = ()
