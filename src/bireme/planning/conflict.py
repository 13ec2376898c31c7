"""Names of children that other objects have: the job creates nothing until they are free.

The objects of an earlier job of the same kind and name are no conflict to warn of: that job is deleted, and
the garbage collector deletes them. Any other owner keeps the name until somebody acts.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from bireme.api.job import condition
from bireme.api.meta import OwnerReference
from bireme.planning import conditions as c
from bireme.planning.actions import EmitEvent
from bireme.planning.children import wanted_names
from bireme.planning.conditions import Say
from bireme.planning.observed import Job, NameConflict, Plan
from bireme.planning.replicas import seen
from bireme.planning.view import View
from bireme.planning.words import some

NAME_CONFLICT: Final = "NameConflict"
RETRY: Final = timedelta(seconds=30)
PREDECESSOR_RETRY: Final = timedelta(seconds=2)
"""Pods that go are watched, and wake the job up; a Secret is not."""


def find_conflicts(view: View) -> list[NameConflict]:
    """Return the objects that have the names of children that the job needs."""
    if not view.observed.taken:
        return []
    wanted = wanted_names(view.job, view.crew.types(), view.children())
    return [conflict for conflict in view.observed.taken if (conflict.kind, conflict.name) in wanted]


class ConflictReport(NamedTuple):
    """What to say of names that are taken, and when to try again."""

    event: EmitEvent
    retry: timedelta

    @property
    def message(self) -> str:
        return self.event.message


def describe_conflicts(job: Job, conflicts: Sequence[NameConflict]) -> ConflictReport:
    """Return which objects are in the way, to whom they belong, and what to do."""
    left = [conflict for conflict in conflicts if _is_predecessor(job, conflict.owner)]
    foreign = [conflict for conflict in conflicts if not _is_predecessor(job, conflict.owner)]
    if foreign:
        message = f"{_list_owners(job, foreign)}; delete what is in the way, or give this job another name"
        return ConflictReport(EmitEvent("Warning", NAME_CONFLICT, message), RETRY)
    names = some([f"{conflict.kind} {conflict.name}" for conflict in left])
    uid = left[0].owner.uid if left[0].owner is not None else ""
    message = (
        f"{names} of the deleted {job.kind} {job.metadata.name} (uid {uid}) {_are(left)} still being deleted;"
        " this job starts when that is done"
    )
    return ConflictReport(EmitEvent("Normal", NAME_CONFLICT, message), PREDECESSOR_RETRY)


def _are(conflicts: Sequence[NameConflict]) -> str:
    return "are" if len(conflicts) > 1 else "is"


def _list_owners(job: Job, conflicts: Sequence[NameConflict]) -> str:
    names_by_owner: dict[str, list[str]] = {}
    for conflict in conflicts:
        names = names_by_owner.setdefault(_describe_owner(job, conflict.owner), [])
        names.append(f"{conflict.kind} {conflict.name}")
    return "; ".join(
        f"{some(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}"
        for owner, names in names_by_owner.items()
    )


def _is_predecessor(job: Job, owner: OwnerReference | None) -> bool:
    """Whether the owner is a job of the same kind and name, which can only have been deleted."""
    return owner is not None and (owner.api_version, owner.kind, owner.name) == (
        job.api_version,
        job.kind,
        job.metadata.name,
    )


def _describe_owner(job: Job, owner: OwnerReference | None) -> str:
    if owner is None:
        return "no job"
    group = f" ({owner.api_version.partition('/')[0]})" if owner.kind == job.kind else ""
    return f"{owner.kind} {owner.name}{group}"


def report_conflicts(view: View, conflicts: Sequence[NameConflict]) -> Plan:
    """Create nothing, say why, and try again: half a job is worse than none."""
    report = describe_conflicts(view.job, conflicts)
    say = Say(False, NAME_CONFLICT, report.message)
    records = {(replica.type, replica.index): seen(replica) for replica in view.replicas(view.records())}
    before = condition(view.status, c.INITIALIZED)
    known = before is not None and (before.reason, before.message) == (NAME_CONFLICT, report.message)
    status = view.next_status(records, "Pending", {c.INITIALIZED: say, c.RUNNING: say})
    return Plan(() if known else (report.event,), status, view.now + report.retry)
