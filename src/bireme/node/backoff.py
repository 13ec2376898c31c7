"""Whether a container starts again, and when: CrashLoopBackOff."""

from datetime import datetime, timedelta
from typing import Final

from bireme.node.seen import Object

FIRST: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(minutes=5)
FORGIVEN_AFTER: Final = timedelta(minutes=10)
"""An attempt that ran for so long begins a new row."""


def restarts(container: Object, spec: Object, exit_code: int) -> bool:
    """Whether a container that ended so is started again: by its own policy, else by its pod's."""
    own = container.get("restartPolicy")
    if own and any(_matches(rule, exit_code) for rule in container.get("restartPolicyRules") or ()):
        return True
    match own or spec.get("restartPolicy"):
        case "Never":
            return False
        case "OnFailure":
            return exit_code != 0
        case _:
            return True


def _matches(rule: Object, exit_code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    listed = exit_code in (codes.get("values") or ())
    return listed if codes.get("operator") == "In" else not listed and codes.get("operator") == "NotIn"


def delay(in_a_row: int, started: datetime | None, finished: datetime | None) -> timedelta:
    """The wait after an attempt, from when it finished: none, 10 s, 20 s, … 5 min.

    `in_a_row` is how many restarts led to that attempt.
    """
    if in_a_row == 0 or _is_forgiven(started, finished):
        return timedelta()
    return min(LONGEST, FIRST * (1 << min(in_a_row - 1, 10)))


def next_in_a_row(in_a_row: int, started: datetime | None, finished: datetime | None) -> int:
    """The number that the restart after an attempt gets."""
    return 1 if _is_forgiven(started, finished) else in_a_row + 1


def _is_forgiven(started: datetime | None, finished: datetime | None) -> bool:
    return started is not None and finished is not None and finished - started > FORGIVEN_AFTER


def write_duration(span: timedelta) -> str:
    """As Go writes it: `10s`, `2m40s`."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
