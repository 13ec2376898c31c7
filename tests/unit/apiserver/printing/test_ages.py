"""Ages: units, where they change, and what is no moment."""

from datetime import UTC, datetime, timedelta

import pytest

from bireme.apiserver.printing.ages import age, human_duration, is_moment

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (0, "0s"), (0.9, "0s"), (1, "1s"), (119.9, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (10 * MINUTE - 1, "9m59s"), (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"), (3 * HOUR + MINUTE, "3h1m"), (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"), (2 * DAY - 1, "47h"), (2 * DAY, "2d"), (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY - 1, "7d23h"), (8 * DAY + HOUR, "8d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"), (8 * YEAR - 1, "7y364d"), (8 * YEAR + DAY, "8y"), (900 * YEAR, "292y"),
    ],
)  # fmt: skip
def test_a_duration_has_two_or_three_figures(seconds: float, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-01-02T03:04:05Z", "0s"),
        ("2026-01-02T05:03:00+02:00", "65s"),
        ("2026-01-02T03:04:03.123456789Z", "1s"),
        ("2026-01-02T3:00:00Z", "4m5s"),
        ("0001-01-01T00:00:00Z", "<unknown>"),
        ("0001-01-01T00:00:01Z", "292y"),
        ("2026-01-02T03:04:59Z", "<invalid>"),
        ("", "<unknown>"),
        (None, "<unknown>"),
        (5, "<unknown>"),
        ({}, "<unknown>"),
    ],
)
def test_an_age_is_counted_from_a_moment(moment: object, shown: str) -> None:
    assert age(moment, NOW) == shown


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "20260102T030405Z",
        "2026-W01-1T03:04:05Z",
        "2026-02-30T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05+0200",
        "2026-01-02T03:04:05+02:99",
        "2026-01-02T03:04:05z", "٢026-01-02T03:04:05Z", "",
    ],
)  # fmt: skip
def test_only_rfc_3339_is_a_moment(text: str) -> None:
    assert not is_moment(text)
