"""When probes are due, and what their results come to."""

from datetime import timedelta
from typing import Any

import pytest

from bireme.node.backoff import delay, next_in_a_row, write_duration
from bireme.node.orders import ProbeName
from bireme.node.probes import begin, due_at, finish, history
from bireme.node.seen import Dealings, History
from unit.node.model import START

Object = dict[str, Any]
PROBE: Object = {"initialDelaySeconds": 3, "periodSeconds": 10, "failureThreshold": 2, "successThreshold": 1}


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("name", "past", "due"),
    [
        ("readinessProbe", History(), 3),
        ("readinessProbe", History(begun=START + seconds(3)), 13),
        ("readinessProbe", History(begun=START + seconds(3), runs=True), None),
        ("readinessProbe", History(begun=START + seconds(3), verdict=False), 13),
        ("livenessProbe", History(begun=START + seconds(3), verdict=True), 13),
        ("livenessProbe", History(begun=START + seconds(3), verdict=False), None),
        ("startupProbe", History(begun=START + seconds(3)), 13),
        ("startupProbe", History(begun=START + seconds(3), verdict=True), None),
        ("startupProbe", History(begun=START + seconds(3), verdict=False), None),
    ],
)
def test_a_probe_is_due_after_its_delay_and_then_each_period(
    name: ProbeName, past: History, due: int | None
) -> None:
    assert due_at(name, PROBE, past, START) == (None if due is None else START + seconds(due))


@pytest.mark.parametrize(
    ("probe", "results", "verdicts"),
    [
        (PROBE, [True, False, False, True], [True, True, False, True]),
        (PROBE, [False, True, False, False], [None, True, True, False]),
        (PROBE | {"successThreshold": 2}, [True, False, True, True], [None, None, None, True]),
        (PROBE, [False, None, False], [None, None, False]),
        ({}, [False, False, False], [None, None, False]),
    ],
    ids=["failures in a row", "interrupted", "successes in a row", "no result", "defaults"],
)
def test_a_verdict_needs_as_many_results_in_a_row_as_its_threshold(
    probe: Object, results: list[bool | None], verdicts: list[bool | None]
) -> None:
    dealings, seen = Dealings(), []
    for result in results:
        dealings = finish(begin(dealings, "readinessProbe", START), "readinessProbe", probe, result)
        seen.append(history(dealings, "readinessProbe").verdict)
    assert seen == verdicts


def test_a_probe_that_was_begun_runs_until_it_is_finished() -> None:
    begun = begin(Dealings(3), "startupProbe", START)
    assert begun == Dealings(3, startup=History(begun=START, runs=True))
    assert not finish(begun, "startupProbe", PROBE, None).startup.runs


# ---- back-off


@pytest.mark.parametrize(
    ("in_a_row", "ran", "wait"),
    [(0, 1, 0), (1, 1, 10), (2, 1, 20), (5, 1, 160), (6, 1, 300), (99, 1, 300), (6, 600, 300), (6, 601, 0)],
)
def test_waits_double_and_are_forgiven_after_a_long_run(in_a_row: int, ran: float, wait: int) -> None:
    assert delay(in_a_row, START, START + seconds(ran)) == seconds(wait)
    assert next_in_a_row(in_a_row, START, START + seconds(ran)) == (1 if ran > 600 else in_a_row + 1)


@pytest.mark.parametrize(("span", "text"), [(10, "10s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")])
def test_durations_are_written_as_go_does(span: int, text: str) -> None:
    assert write_duration(seconds(span)) == text
