"""The PodGroup by which a queued job's pods start together."""

from collections.abc import Iterable, Sequence

from bireme.api.scheduler import SCHEDULER_GROUP_VERSION
from bireme.planning.actions import Action, Create, DeleteObject, Manifest, UpdatePodGroup
from bireme.planning.engines import has_groups
from bireme.planning.identity import child_metadata, queue_place
from bireme.planning.observed import Child, Job
from bireme.planning.replicas import Replica


def build_pod_group(job: Job, members: int) -> Manifest | None:
    """The PodGroup of a queued job, named after it; None without a queue."""
    place = queue_place(job)
    if place is None:
        return None
    minimum = members if place.minimum is None else min(place.minimum, members)
    return {
        "apiVersion": SCHEDULER_GROUP_VERSION,
        "kind": "PodGroup",
        "metadata": child_metadata(job, job.metadata.name),
        "spec": {"minMember": minimum, "queue": place.queue, "priority": place.priority},
    }


def create_pod_group(
    job: Job, replicas: Sequence[Replica], children: Iterable[Child], engine: str = "bireme"
) -> list[Action]:
    """Create the group unless it is there, or the engine has no such thing."""
    group = build_pod_group(job, _members(replicas)) if has_groups(engine) else None
    if group is None or any(child.kind == "PodGroup" for child in children):
        return []
    return [Create(group)]


def shrink_pod_group(replicas: Sequence[Replica], children: Iterable[Child]) -> list[Action]:
    """Let the group ask for no more members than there can be."""
    members = _members(replicas)
    return [
        UpdatePodGroup(child.metadata.name, child.metadata.uid, members)
        for child in children
        if child.members is not None and child.members > members and child.metadata.deletion_timestamp is None
    ]


def _members(replicas: Sequence[Replica]) -> int:
    """How many pods can be there.

    A finished pod counts. Once it is gone nobody sees it: who must start again would wait for it for ever.
    """
    return sum(not replica.is_final or replica.pod is not None for replica in replicas)


def delete_pod_group(children: Iterable[Child]) -> list[Action]:
    """Delete the group: no pod is left that it could speak for."""
    return [
        DeleteObject("PodGroup", child.metadata.name, child.metadata.uid)
        for child in children
        if child.kind == "PodGroup" and child.metadata.deletion_timestamp is None
    ]
