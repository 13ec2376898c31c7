"""Durations as a Queue writes them: `3w`, `2h45m`, `0`."""

import re
from datetime import timedelta
from typing import Final

# The vendor's own pattern; the empty string, which it lets through, is refused by the schema's minLength.
DURATION_PATTERN: Final = (
    "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
)
_FORM: Final = re.compile(
    r"(?:(?P<y>[0-9]+)y)?(?:(?P<w>[0-9]+)w)?(?:(?P<d>[0-9]+)d)?(?:(?P<h>[0-9]+)h)?"
    r"(?:(?P<m>[0-9]+)m)?(?:(?P<s>[0-9]+)s)?(?:(?P<ms>[0-9]+)ms)?"
)
_MILLISECONDS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}


class DurationError(ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> timedelta | None:
    """Read a duration with units y w d h m s ms, in that order; None means no limit (`0`)."""
    match = _FORM.fullmatch(text) if text and text != "0" else None
    if text == "0":
        return None
    if match is None:
        raise DurationError(f"{text!r} is not a duration")
    milliseconds = sum(int(amount) * _MILLISECONDS[unit] for unit, amount in match.groupdict("0").items())
    try:
        return timedelta(milliseconds=milliseconds) or None
    except OverflowError:
        return timedelta.max
