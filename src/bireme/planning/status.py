"""Tasks and aggregate: the replicas as a job's status shows them."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bireme.api.job import Aggregate, ReplicaStatus, Tasks

Records = Mapping[tuple[str, int], ReplicaStatus]
MANY: Final = 1000
FULLY_TOLD: Final = 100


def records_of(tasks: Sequence[Tasks]) -> dict[str, ReplicaStatus]:
    """The records of a status, by the name of the pod."""
    return {record.name: record for task in tasks for record in task.replicas}


def build_tasks(types: Sequence[tuple[str, int]], records: Records) -> tuple[Tasks, ...]:
    """The records by type and index.

    A job of very many replicas tells of the containers of those that failed first only: with all of them
    its status would not fit into an object.
    """
    if len(records) > MANY:
        records = _shortened(records)
    tasks = []
    for type_, count in types:
        replicas = tuple(records[type_, index] for index in range(count))
        tasks.append(Tasks(type=type_, restart_count=sum(r.restarts for r in replicas), replicas=replicas))
    return tuple(tasks)


def _shortened(records: Records) -> Records:
    failed = sorted(
        (record.finished_at, member)
        for member, record in records.items()
        if record.phase == "Failed" and record.finished_at is not None
    )
    kept = {member for _, member in failed[:FULLY_TOLD]}
    return {
        member: record
        if member in kept or not record.containers
        else msgspec.structs.replace(record, containers=())
        for member, record in records.items()
    }


def aggregate(tasks: Sequence[Tasks]) -> Aggregate:
    """How many replicas are in each phase."""
    counts = dict.fromkeys(msgspec.structs.asdict(Aggregate()), 0)
    for task in tasks:
        for record in task.replicas:
            counts[(record.phase or "Unknown").lower()] += 1
    return Aggregate(**counts)
