"""What a kubelet says of probes and hooks that fail, and of what keeps a pod from starting."""

from typing import Final, NamedTuple

from bireme.node.orders import HookName, ProbeName, RunProbe
from bireme.node.seen import History, Problem

_PROBES: Final[dict[ProbeName, str]] = {
    "startupProbe": "Startup",
    "readinessProbe": "Readiness",
    "livenessProbe": "Liveness",
}
_HOOKS: Final[dict[HookName, str]] = {"postStart": "PostStartHook", "preStop": "PreStopHook"}


_MOUNT: Final = "ContainerCreating"


class Report(NamedTuple):
    """An Event that is to be written about a container."""

    type: str
    reason: str
    message: str


def report_probe(order: RunProbe, error: str, past: History, *, restarts: bool) -> tuple[Report, ...]:
    """What to say of a probe that failed, after which this is its history.

    Not each failure is worth an Event: the first in a row is, and the one for which the container ends.
    """
    sort, kills = _PROBES[order.probe], past.verdict is False and order.probe != "readinessProbe"
    if past.in_a_row > 1 and not kills:
        return ()
    said = Report("Warning", "Unhealthy", f"{sort} probe failed: {error}")
    if not kills:
        return (said,)
    end = f"Container {order.container} failed {sort.lower()} probe"
    return said, Report("Normal", "Killing", f"{end}, will be restarted" if restarts else end)


def report_hook(name: HookName, error: str) -> tuple[Report, ...]:
    """What to say of a hook that failed."""
    said = Report("Warning", f"Failed{_HOOKS[name]}", f"{_HOOKS[name]} failed: {error}")
    return (said, Report("Normal", "Killing", said.reason)) if name == "postStart" else (said,)


def report_problem(problem: Problem) -> Report:
    """What to say of what is in a pod's way."""
    return Report("Warning", "FailedMount" if problem.reason == _MOUNT else "Failed", problem.message)


def blame(reports: tuple[Report, ...]) -> str:
    """Why a container was ended, if it was for one of these; for its termination message."""
    return reports[0].message if any(each.reason == "Killing" for each in reports) else ""
