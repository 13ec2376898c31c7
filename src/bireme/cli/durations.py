"""Durations on the command line: `25s`, `1h30m`, or plain seconds."""

from datetime import timedelta

import click

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(text: str) -> timedelta | None:
    """The type of an option; None for `0`."""
    from bireme.api.duration import DurationError, parse_duration

    try:
        return parse_duration(f"{text}s" if text.isdigit() and text != "0" else text)
    except DurationError:
        raise click.BadParameter(f"{text!r} is no duration: write it as 25s, 10m or 1h30m") from None


def shown(span: timedelta) -> str:
    """A duration for people: `45s`, `3m10s`, `2h5m`, `3d4h`."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return _joined(seconds, _MINUTE, "m", 1, "s")
    if seconds < _DAY:
        return _joined(seconds, _HOUR, "h", _MINUTE, "m")
    return _joined(seconds, _DAY, "d", _HOUR, "h")


def _joined(seconds: int, large: int, unit: str, small: int, rest_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{unit}" + (f"{rest}{rest_unit}" if rest else "")
