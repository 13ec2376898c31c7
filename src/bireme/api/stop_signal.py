"""The annotation `bireme.dev/stop-signal: USR1@5m`: a signal that ranks get before their time is over.

The time of a pod is over when its queue's maxDuration is, or a deadline that its job or template sets. The
scheduler writes the first into ENDS_AT_ANNOTATION when it binds a pod; the others are known from the job.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from bireme.api.duration import DurationError, parse_duration

STOP_SIGNAL_ANNOTATION: Final = "bireme.dev/stop-signal"
ENDS_AT_ANNOTATION: Final = "scheduler.tensorstack.dev/ends-at"
"""When a pod's maxDuration is over, in seconds since 1970."""
SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15}
"""Signals that programs handle, by their numbers on Linux."""
FORM: Final = "SIGNAL@DURATION, such as USR1@5m"


class StopSignalError(ValueError):
    """The text is not a stop signal."""


class StopSignal(NamedTuple):
    """A signal, and how long before the end of its pod a rank gets it."""

    number: int
    lead: timedelta


def parse_stop_signal(text: str) -> StopSignal:
    """Read SIGNAL@DURATION; the signal with or without SIG, the duration as a Queue writes it."""
    name, at, duration = text.partition("@")
    number = SIGNALS.get(name.removeprefix("SIG"))
    if not at or number is None:
        raise StopSignalError(f"{text!r} is not {FORM}; the signal is one of {', '.join(SIGNALS)}")
    try:
        lead = parse_duration(duration)
    except DurationError:
        lead = None
    if lead is None:
        raise StopSignalError(f"{text!r} is not {FORM}; units of a duration are y w d h m s ms")
    return StopSignal(number, lead)
