"""Names of children that other objects have: the job creates nothing until they are free."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

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


def find_conflicts(view: View) -> list[NameConflict]:
    """Return the objects that have the names of children that the job needs."""
    if not view.observed.taken:
        return []
    wanted = wanted_names(view.job, view.crew.types(), view.crew.children(view.observed))
    return [conflict for conflict in view.observed.taken if (conflict.kind, conflict.name) in wanted]


def describe_conflicts(job: Job, conflicts: Sequence[NameConflict]) -> str:
    """Return which objects are in the way, to whom they belong, and what to do."""
    names_by_owner: dict[str, list[str]] = {}
    for conflict in conflicts:
        names = names_by_owner.setdefault(_describe_owner(job, conflict.owner), [])
        names.append(f"{conflict.kind} {conflict.name}")
    clauses = [
        f"{some(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}"
        for owner, names in names_by_owner.items()
    ]
    return f"{'; '.join(clauses)}; delete what is in the way, or give this job another name"


def _describe_owner(job: Job, owner: OwnerReference | None) -> str:
    if owner is None:
        return "no job"
    if (owner.api_version, owner.kind, owner.name) == (job.api_version, job.kind, job.metadata.name):
        return f"an earlier {owner.kind} {owner.name}"
    group = f" ({owner.api_version.partition('/')[0]})" if owner.kind == job.kind else ""
    return f"{owner.kind} {owner.name}{group}"


def report_conflicts(view: View, conflicts: Sequence[NameConflict]) -> Plan:
    """Create nothing, say why, and try again: half a job is worse than none."""
    message = describe_conflicts(view.job, conflicts)
    says = {c.INITIALIZED: Say(False, NAME_CONFLICT, message), c.RUNNING: Say(False, NAME_CONFLICT, message)}
    records = {(replica.type, replica.index): seen(replica) for replica in view.replicas(view.records())}
    before = condition(view.status, c.INITIALIZED)
    known = before is not None and (before.reason, before.message) == (NAME_CONFLICT, message)
    actions = () if known else (EmitEvent("Warning", NAME_CONFLICT, message),)
    return Plan(actions, view.next_status(records, "Pending", says), view.now + RETRY)
