"""When to look again."""

from datetime import datetime


def earliest(*times: datetime | None) -> datetime | None:
    """The first of these times, None if there is none."""
    return min((time for time in times if time is not None), default=None)
