"""How long to wait before a replica starts again."""

from datetime import datetime, timedelta
from typing import Final

FIRST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(minutes=5)
FORGIVEN_AFTER: Final = timedelta(minutes=10)
"""After so long without another disruption, the next one counts as the first."""


def delay(times: int) -> timedelta:
    """The wait before the start number `times`: 1 s, 2 s, 4 s, … 5 min."""
    return min(LONGEST, FIRST * 2 ** min(times - 1, 20)) if times > 0 else timedelta()


def ready_at(since: datetime | None, times: int) -> datetime | None:
    """When the wait is over; None if there is none."""
    return since + delay(times) if since is not None and times > 0 else None


def count_disruption(count: int, last: datetime | None, now: datetime) -> int:
    """The number that a disruption gets now."""
    if last is not None and now - last > FORGIVEN_AFTER:
        return 1
    return count + 1
