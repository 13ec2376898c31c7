"""Ages as kubectl writes them: two or three figures, then the rest is dropped."""

import re
from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_LONGEST: Final = (2**63 - 1) // 10**9
"""Go counts nanoseconds in 64 bits: what lies further back is this old."""
_SCALES: Final = (
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (_LONGEST + 1, _YEAR, "y", 0, ""),
)
"""Below how many seconds, which unit is written, and which smaller one beside it."""
_LIMITS: Final = [scale[0] for scale in _SCALES]
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT)(\d{1,2})(:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:(?:[0-5]\d|60))", re.ASCII
)
_ZERO: Final = datetime.fromisoformat("0001-01-01T00:00:00Z")


def age(moment: object, now: datetime) -> str:
    """How long ago a moment was; `<unknown>` where there is none."""
    read = read_moment(moment)
    return UNKNOWN if read is None else human_duration(now - read)


def read_moment(text: object) -> datetime | None:
    """A moment in RFC 3339, as Go reads it; None for what is none, and for Go's zero time."""
    moment = _read(text)
    return None if moment == _ZERO else moment


def is_moment(text: str) -> bool:
    return _read(text) is not None


def _read(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        # Most moments are written like this, and a table of pods has many.
        return datetime.fromisoformat(text if len(text) == 20 and text[4::3] == "--T::Z" else _exact(text))
    except ValueError:
        return None


def _exact(text: str) -> str:
    """A moment as Python reads it: with two digits of the hour, and six of the fraction."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return ""
    day, hour, rest, fraction, zone = match.groups()
    return f"{day}{hour:0>2}{rest}.{fraction or '0':0<6.6}{zone}"


def human_duration(elapsed: timedelta) -> str:
    """A moment that lies up to two seconds ahead is now: clocks differ."""
    seconds = min(int(elapsed.total_seconds()), _LONGEST)
    if seconds < 2 * _MINUTE:
        return INVALID if seconds < -1 else f"{max(seconds, 0)}s"
    _, unit, sign, smaller, smaller_sign = _SCALES[bisect_right(_LIMITS, seconds)]
    left = seconds % unit // smaller if smaller else 0
    return f"{seconds // unit}{sign}{left}{smaller_sign}" if left else f"{seconds // unit}{sign}"
