"""The status of Queues and PodGroups, from what is known."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from bireme.api.meta import Condition
from bireme.api.scheduler import (
    GangBinding,
    PodCounts,
    PodGroupCondition,
    PodGroupsInQueue,
    PodGroupStatus,
    Queue,
    QueueStatus,
    ResourceList,
    Waiting,
)
from bireme.scheduling.requests import PODS, write_amounts
from bireme.scheduling.units import Tracked, Unit, lacking

_PHASES: Final = ("pending", "running", "succeeded", "failed", "unknown")


def group_status(
    unit: Unit, waiting: Waiting | None, binding: GangBinding | None, now: datetime
) -> PodGroupStatus:
    """The status of a unit's PodGroup; a condition's time moves with its status alone."""
    assert unit.group is not None
    old = unit.group.status or PodGroupStatus()
    settled = unit.settled()
    missing, _ = lacking(unit, [*settled, *unit.waiting()])
    ever = _is_true(old.conditions, "GroupScheduled") or (bool(settled) and not lacking(unit, settled)[0])
    conditions = (
        _condition(old, "SufficientGroupMember", not missing, "Sufficient", "TooFewMembers", now),
        _condition(old, "GroupScheduled", ever, "Scheduled", "NotScheduledYet", now),
    )
    return PodGroupStatus(
        **_counts(unit.pods.values()),
        allocated=_allocated(unit.held),
        waiting=waiting,
        binding=binding,
        conditions=conditions,
    )


def queue_status(queue: Queue, units: Iterable[Unit], held: Mapping[str, int], now: datetime) -> QueueStatus:
    """The status of a Queue."""
    units = list(units)
    old = queue.status.conditions if queue.status is not None else ()
    closed = queue.spec.closed
    return QueueStatus(
        allocated=_allocated(held),
        pod_groups=PodGroupsInQueue(total=sum(unit.group is not None for unit in units)),
        pods=PodCounts(**_counts(each for unit in units for each in unit.pods.values())),
        conditions=(_queue_condition(old, not closed, now),),
    )


def _allocated(held: Mapping[str, int]) -> ResourceList:
    return dict(write_amounts({name: n for name, n in held.items() if name != PODS}))


def _counts(pods: Iterable[Tracked]) -> dict[str, int]:
    phases = Counter((each.pod.status.phase or "Pending").lower() for each in pods)
    return {phase: phases[phase] for phase in _PHASES}


def _is_true(conditions: Iterable[Condition], name: str) -> bool:
    return any(each.type == name and each.status == "True" for each in conditions)


def _condition(
    old: PodGroupStatus,
    name: str,
    holds: bool,
    yes: str,
    no: str,
    now: datetime,
) -> PodGroupCondition:
    status = "True" if holds else "False"
    before = next((each for each in old.conditions if each.type == name), None)
    if before is not None and before.status == status:
        return before
    number = int(before.transition_id) + 1 if before is not None and before.transition_id.isdigit() else 1
    return PodGroupCondition(
        type=name,
        status=status,
        reason=yes if holds else no,
        last_transition_time=now,
        transition_id=str(number),
    )


def _queue_condition(old: Iterable[Condition], is_open: bool, now: datetime) -> Condition:
    status = "True" if is_open else "False"
    before = next((each for each in old if each.type == "Open"), None)
    if before is not None and before.status == status:
        return before
    return Condition(
        type="Open", status=status, reason="Open" if is_open else "Closed", last_transition_time=now
    )
