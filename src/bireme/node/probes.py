"""Probes: when they are due, and what their results come to."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from bireme.node.orders import ProbeName
from bireme.node.seen import Dealings, History, Object

_FIELDS: Final[dict[ProbeName, str]] = {
    "startupProbe": "startup",
    "readinessProbe": "readiness",
    "livenessProbe": "liveness",
}


def history(dealings: Dealings, name: ProbeName) -> History:
    found: History = getattr(dealings, _FIELDS[name])
    return found


def begin(dealings: Dealings, name: ProbeName, now: datetime) -> Dealings:
    """The dealings with a probe under way."""
    running = msgspec.structs.replace(history(dealings, name), begun=now, runs=True)
    return msgspec.structs.replace(dealings, **{_FIELDS[name]: running})


def finish(dealings: Dealings, name: ProbeName, probe: Object, succeeded: bool | None) -> Dealings:
    """The dealings with a probe's result; None, for a probe that could not be made, counts for nothing."""
    ended = msgspec.structs.replace(history(dealings, name), runs=False)
    if succeeded is not None:
        ended = _judged(ended, probe, succeeded=succeeded)
    return msgspec.structs.replace(dealings, **{_FIELDS[name]: ended})


def _judged(past: History, probe: Object, *, succeeded: bool) -> History:
    in_a_row = past.in_a_row + 1 if past.last is succeeded else 1
    needed = (probe.get("successThreshold") or 1) if succeeded else (probe.get("failureThreshold") or 3)
    verdict = succeeded if in_a_row >= needed else past.verdict
    return msgspec.structs.replace(past, last=succeeded, in_a_row=in_a_row, verdict=verdict)


def due_at(name: ProbeName, probe: Object, past: History, started: datetime) -> datetime | None:
    """When a probe of a container is to be made next; None while one runs, or when none is needed any more.

    A startup probe ends with its verdict. A failed liveness probe ends the container, and is not repeated.
    """
    settled = past.verdict is not None if name == "startupProbe" else past.verdict is False
    if past.runs or (settled and name != "readinessProbe"):
        return None
    first = started + timedelta(seconds=probe.get("initialDelaySeconds") or 0)
    if past.begun is None:
        return first
    return max(first, past.begun + timedelta(seconds=probe.get("periodSeconds") or 10))
