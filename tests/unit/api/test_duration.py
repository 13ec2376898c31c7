"""Durations of a Queue."""

from datetime import timedelta

import pytest

from bireme.api.duration import DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3w", timedelta(weeks=3)),
        ("2h45m", timedelta(hours=2, minutes=45)),
        ("1y2w3d4h5m6s7ms", timedelta(days=382, hours=4, minutes=5, seconds=6, milliseconds=7)),
        ("100ms", timedelta(milliseconds=100)),
        ("5m", timedelta(minutes=5)),
        ("0", None),
        ("0s", None),
        ("99999999999y", timedelta.max),
    ],
)
def test_units_in_order_are_read(text: str, expected: timedelta | None) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "1m1h", "1.5h", "-1h", "h", "1h ", "1H"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)
