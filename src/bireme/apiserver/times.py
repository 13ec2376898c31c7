"""Moments as Kubernetes writes them: whole seconds, UTC."""

import re
from datetime import UTC, datetime
from typing import Final

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def write_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds').removesuffix('+00:00')}Z"


def is_time(text: str) -> bool:
    """Whether a server would read it as a moment."""
    try:
        return bool(_RFC3339.fullmatch(text)) and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
