"""Gang engines: how a queued job asks the scheduler that a cluster already has.

A plan speaks Bireme's own language: a PodGroup of ours, and labels on the pods. For another engine the same
plan is put into that engine's words at the very end; nothing else of the plan knows of it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from bireme.api.generic import GenericJob
from bireme.api.scheduler import SCHEDULER_GROUP_VERSION
from bireme.planning.actions import Action, Create, CreatePod, Manifest
from bireme.planning.identity import QUEUE_LABELS
from bireme.planning.observed import BatchJob, Job

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
    """How an engine is spoken to; without `group` it has no object for a gang."""

    words: Callable[[Gang, str], Words]
    group: Callable[[Gang], Manifest] | None = None
    group_version: str = ""


def _volcano_words(gang: Gang, role: str) -> Words:
    annotations = {"scheduling.k8s.io/group-name": gang.name, "volcano.sh/task-spec": role}
    return Words(annotations=annotations, spec=gang.with_priority_class({"schedulerName": "volcano"}))


def _volcano_group(gang: Gang) -> Manifest:
    spec: Manifest = {"minMember": gang.total, "minTaskMember": gang.members, "queue": gang.queue}
    return gang.with_priority_class(spec)


def _coscheduling_words(gang: Gang, _role: str) -> Words:
    spec = gang.with_priority_class({"schedulerName": "scheduler-plugins-scheduler"})
    return Words(labels={"scheduling.x-k8s.io/pod-group": gang.name}, spec=spec)


def _coscheduling_group(gang: Gang) -> Manifest:
    return {"minMember": gang.total}


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
    "coscheduling": Engine(_coscheduling_words, _coscheduling_group, "scheduling.x-k8s.io/v1alpha1"),
    "native": Engine(_native_words, _native_group, "scheduling.k8s.io/v1alpha2"),
    "kueue": Engine(_kueue_words),
}
NAMES: Final = (*OWN, *ENGINES)


def has_groups(name: str) -> bool:
    """Whether the engine has an object for a gang."""
    return name in OWN or ENGINES[name].group is not None


def group_version(name: str) -> str:
    """The API version of the engine's PodGroups."""
    return SCHEDULER_GROUP_VERSION if name in OWN else ENGINES[name].group_version


def in_words_of(name: str, job: Job, actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions as the engine understands them; those of jobs without a queue are as they were."""
    gang = None if name in OWN else _gang(job)
    if gang is None:
        return tuple(actions)
    engine = ENGINES[name]
    translated = (_translated(action, engine, gang) for action in actions)
    return tuple(action for action in translated if action is not None)


def _gang(job: Job) -> Gang | None:
    scheduler = getattr(job.spec, "scheduler", None)
    asked = scheduler.t9k_scheduler if scheduler is not None else None
    if asked is None or not isinstance(job, BatchJob):
        return None
    return Gang(job.metadata.name, asked.queue, asked.priority, _members(job))


def _members(job: BatchJob) -> dict[str, int]:
    if isinstance(job, GenericJob):
        return {spec.type: spec.replicas for spec in job.spec.replica_specs}
    return {"launcher": 1, "worker": job.spec.worker.replicas}


def _translated(action: Action, engine: Engine, gang: Gang) -> Action | None:
    match action:
        case CreatePod(manifest):
            return CreatePod(_pod(manifest, engine, gang))
        case Create(manifest) if manifest["kind"] == "PodGroup":
            return Create(_group(manifest, engine, gang)) if engine.group is not None else None
    return action


def _pod(manifest: Manifest, engine: Engine, gang: Gang) -> Manifest:
    metadata, spec = manifest["metadata"], manifest["spec"]
    role = metadata["labels"].get(f"{QUEUE_LABELS}/role", "")
    words = engine.words(gang, role)
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
