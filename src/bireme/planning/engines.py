"""Gang engines: how a queued job asks the scheduler that a cluster already has.

A plan speaks Bireme's own language: a PodGroup of ours, and labels on the pods. For another engine the same
plan is put into that engine's words at the very end; nothing else of the plan knows of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from bireme.api.core import Pod
from bireme.api.generic import GenericJob
from bireme.api.job import JobStatus
from bireme.api.kubeflow import WORKER
from bireme.api.kubeflow import MPIJob as KubeflowMPIJob
from bireme.api.scheduler import SCHEDULER_GROUP_VERSION
from bireme.planning.actions import Action, AnnotatePod, Create, CreatePod, DeletePod, Manifest
from bireme.planning.identity import QUEUE_LABELS, queue_place
from bireme.planning.observed import Job, Observed, Plan, Status
from bireme.planning.replicas import FINISHED, is_final

OWN: Final = ("bireme", "t9k")
"""The vendor's scheduler reads the same objects as ours."""


class Words(msgspec.Struct, frozen=True):
    """What a pod carries under an engine."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: dict[str, Any] = {}


class Gang(msgspec.Struct, frozen=True):
    """What a queued job asks for."""

    name: str
    queue: str
    priority: int
    members: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.members.values())

    @property
    def priority_class(self) -> str:
        """One of the PriorityClasses that come with an installation; none for the lowest priority."""
        return f"bireme-{self.priority}" if self.priority else ""

    def with_priority_class(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {**spec, "priorityClassName": self.priority_class} if self.priority_class else spec


class Engine(msgspec.Struct, frozen=True):
    """How an engine is spoken to; without `group` it has no object for a gang.

    `alone` are the words for members that come after others have ended for good, where an engine counts the
    living only: the gang can't be whole again, and they would wait for ever. By `finalizer` an engine holds
    pods until others stand in for them; by the annotations `farewell`, on any pod, it learns that none will.
    """

    words: Callable[[Gang, str], Words]
    group: Callable[[Gang], Manifest] | None = None
    group_version: str = ""
    alone: Callable[[Gang, str], Words] | None = None
    finalizer: str = ""
    farewell: dict[str, str] = {}


def _volcano_words(gang: Gang, role: str) -> Words:
    annotations = {"scheduling.k8s.io/group-name": gang.name, "volcano.sh/task-spec": role}
    return Words(annotations=annotations, spec=gang.with_priority_class({"schedulerName": "volcano"}))


def _volcano_group(gang: Gang) -> Manifest:
    spec: Manifest = {"minMember": gang.total, "minTaskMember": gang.members, "queue": gang.queue}
    return gang.with_priority_class(spec)


def _coscheduling_alone(gang: Gang, _role: str) -> Words:
    return Words(spec=gang.with_priority_class({"schedulerName": "scheduler-plugins-scheduler"}))


def _coscheduling_words(gang: Gang, role: str) -> Words:
    return Words({"scheduling.x-k8s.io/pod-group": gang.name}, spec=_coscheduling_alone(gang, role).spec)


def _coscheduling_group(gang: Gang) -> Manifest:
    return {"minMember": gang.total}


def _native_alone(gang: Gang, _role: str) -> Words:
    return Words(spec=gang.with_priority_class({}))


def _native_words(gang: Gang, _role: str) -> Words:
    group = {"schedulingGroup": {"podGroupName": gang.name}}
    return Words(spec=gang.with_priority_class(group))


def _native_group(gang: Gang) -> Manifest:
    return {"schedulingPolicy": {"gang": {"minCount": gang.total}}}


def _kueue_words(gang: Gang, _role: str) -> Words:
    labels = {"kueue.x-k8s.io/queue-name": gang.queue, "kueue.x-k8s.io/pod-group-name": gang.name}
    if gang.priority_class:
        labels["kueue.x-k8s.io/priority-class"] = gang.priority_class
    return Words(labels, {"kueue.x-k8s.io/pod-group-total-count": str(gang.total)})


ENGINES: Final[dict[str, Engine]] = {
    "volcano": Engine(_volcano_words, _volcano_group, "scheduling.volcano.sh/v1beta1"),
    "coscheduling": Engine(
        _coscheduling_words, _coscheduling_group, "scheduling.x-k8s.io/v1alpha1", _coscheduling_alone
    ),
    "native": Engine(_native_words, _native_group, "scheduling.k8s.io/v1alpha2", _native_alone),
    "kueue": Engine(
        _kueue_words,
        finalizer="kueue.x-k8s.io/managed",
        farewell={"kueue.x-k8s.io/retriable-in-group": "false"},
    ),
}
NAMES: Final = (*OWN, *ENGINES)


def has_groups(name: str) -> bool:
    """Whether the engine has an object for a gang."""
    return name in OWN or ENGINES[name].group is not None


def group_version(name: str) -> str:
    """The API version of the engine's PodGroups."""
    return SCHEDULER_GROUP_VERSION if name in OWN else ENGINES[name].group_version


def finalizer(name: str) -> str:
    """By which the engine holds pods; empty where it does not."""
    return "" if name in OWN else ENGINES[name].finalizer


def in_words_of(name: str, observed: Observed, made: Plan) -> Plan:
    """The plan as the engine understands it; that of a job without a queue is as it was."""
    gang = None if name in OWN else _gang(observed.job)
    if gang is None:
        return made
    engine = ENGINES[name]
    words = engine.alone if engine.alone is not None and _has_lost_members(made.status) else engine.words
    translated = (_translated(action, engine, gang, words) for action in made.actions)
    actions = [action for action in translated if action is not None]
    if engine.farewell and _has_ended(made.status):
        actions += _farewell(engine, gang, observed, actions)
    return msgspec.structs.replace(made, actions=tuple(actions))


def _has_ended(status: Status) -> bool:
    if isinstance(status, JobStatus):
        return status.phase in FINISHED
    return any(each.type in FINISHED and each.status == "True" for each in status.conditions)


def _has_lost_members(status: Status) -> bool:
    return any(is_final(record) for task in status.tasks for record in task.replicas)


def _farewell(engine: Engine, gang: Gang, observed: Observed, actions: Sequence[Action]) -> list[Action]:
    """Tell of the end by a pod that is left; where all have succeeded, the engine sees it by itself."""
    gone = {action.name for action in actions if isinstance(action, DeletePod)}
    left = [pod for pod in observed.pods if _stays(pod) and pod.metadata.name not in gone]
    succeeded = sum(pod.status.phase == "Succeeded" for pod in left)
    told = any(engine.farewell.items() <= pod.metadata.annotations.items() for pod in left)
    if not left or told or succeeded == gang.total:
        return []
    return [AnnotatePod(left[0].metadata.name, left[0].metadata.uid, engine.farewell)]


def _stays(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None


def _gang(job: Job) -> Gang | None:
    place = queue_place(job)
    if place is None:
        return None
    return Gang(job.metadata.name, place.queue, place.priority, members_of(job))


def members_of(job: Job) -> dict[str, int]:
    """Return how many replicas of each type a job has."""
    if isinstance(job, GenericJob):
        return {spec.type: spec.replicas for spec in job.spec.replica_specs}
    if isinstance(job, KubeflowMPIJob):
        return {"launcher": 1, "worker": job.spec.mpi_replica_specs[WORKER].replicas}
    return {"launcher": 1, "worker": job.spec.worker.replicas}


def _translated(
    action: Action, engine: Engine, gang: Gang, words: Callable[[Gang, str], Words]
) -> Action | None:
    match action:
        case CreatePod(name, build, size):
            return CreatePod(name, lambda: _pod(build(), gang, words), size)
        case Create(manifest) if manifest["kind"] == "PodGroup":
            return Create(_group(manifest, engine, gang)) if engine.group is not None else None
    return action


def _pod(manifest: Manifest, gang: Gang, words_of: Callable[[Gang, str], Words]) -> Manifest:
    metadata, spec = manifest["metadata"], manifest["spec"]
    words = words_of(gang, metadata["labels"].get(f"{QUEUE_LABELS}/role", ""))
    ours = f"{QUEUE_LABELS}/"
    labels = {key: value for key, value in metadata["labels"].items() if not key.startswith(ours)}
    own = {key: value for key, value in spec.items() if key != "schedulerName"}
    return {
        **manifest,
        "metadata": {
            **metadata,
            "labels": labels | words.labels,
            "annotations": metadata["annotations"] | words.annotations,
        },
        "spec": own | words.spec,
    }


def _group(manifest: Manifest, engine: Engine, gang: Gang) -> Manifest:
    assert engine.group is not None
    return {**manifest, "apiVersion": engine.group_version, "spec": engine.group(gang)}
