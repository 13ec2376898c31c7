"""Tasks and aggregate: the replicas as a job's status shows them."""

from collections.abc import Mapping, Sequence

import msgspec

from bireme.api.job import Aggregate, ReplicaStatus, Tasks


def records_of(tasks: Sequence[Tasks]) -> dict[str, ReplicaStatus]:
    """The records of a status, by the name of the pod."""
    return {record.name: record for task in tasks for record in task.replicas}


def build_tasks(
    types: Sequence[tuple[str, int]], records: Mapping[tuple[str, int], ReplicaStatus]
) -> tuple[Tasks, ...]:
    """The records by type and index."""
    tasks = []
    for type_, count in types:
        replicas = tuple(records[type_, index] for index in range(count))
        tasks.append(Tasks(type=type_, restart_count=sum(r.restarts for r in replicas), replicas=replicas))
    return tuple(tasks)


def aggregate(tasks: Sequence[Tasks]) -> Aggregate:
    """How many replicas are in each phase."""
    counts = dict.fromkeys(msgspec.structs.asdict(Aggregate()), 0)
    for task in tasks:
        for record in task.replicas:
            counts[(record.phase or "Unknown").lower()] += 1
    return Aggregate(**counts)
