"""Names that somebody else has taken."""

from datetime import timedelta
from typing import Final

from bireme.api.job import condition
from bireme.planning import conditions as c
from bireme.planning.actions import EmitEvent
from bireme.planning.children import wanted_names
from bireme.planning.conditions import Say
from bireme.planning.observed import Plan
from bireme.planning.replicas import seen
from bireme.planning.view import View
from bireme.planning.words import some

NAME_CONFLICT: Final = "NameConflict"
RETRY: Final = timedelta(seconds=30)


def find_conflicts(view: View) -> list[str]:
    """Children that the job needs and somebody else has."""
    if not view.observed.taken:
        return []
    wanted = wanted_names(view.job, view.crew.types(), view.crew.children(view.observed))
    return [f"{kind} {name}" for kind, name in view.observed.taken if (kind, name) in wanted]


def report_conflicts(view: View, taken: list[str]) -> Plan:
    """Create nothing, say why, and try again: half a job is worse than none."""
    message = f"{some(taken)} belongs to somebody else"
    says = {c.INITIALIZED: Say(False, NAME_CONFLICT, message), c.RUNNING: Say(False, NAME_CONFLICT, message)}
    records = {(replica.type, replica.index): seen(replica) for replica in view.replicas(view.records())}
    before = condition(view.status, c.INITIALIZED)
    known = before is not None and (before.reason, before.message) == (NAME_CONFLICT, message)
    actions = () if known else (EmitEvent("Warning", NAME_CONFLICT, message),)
    return Plan(actions, view.next_status(records, "Pending", says), view.now + RETRY)
