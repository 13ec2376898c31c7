"""The scheduler of queues in a cluster in which everything breaks that can break."""

import os
from collections.abc import Iterator
from itertools import islice

import pytest

from bireme.testing.simulation.campaign import Figures, run_tapes
from bireme.testing.simulation.gangs.runner import clean_run, simulate, singles, tape_of
from bireme.testing.simulation.gangs.scenarios import SCENARIOS
from bireme.testing.simulation.tape import Tape, encode
from simulation.bugs.in_scheduling import BUGS
from simulation.bugs.planting import Bug, planted

LONG = bool(os.environ.get("BIREME_LONG"))
STRIDES = {"gang": 17, "two-gangs": 41, "surplus": 41, "preemption": 97}
"""Every so many-th tape is played, unless there is time for all."""
SEEDS = 4000 if LONG else 30
SLICES = 8 if LONG else 1


def check(figures: Figures) -> None:
    assert not figures.failures, "\n".join(map(encode, figures.failures[:3]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_faults_every_gang_comes_to_its_end_whatever_the_schedule(name: str) -> None:
    for seed in range(20 if LONG else 3):
        result = simulate(Tape(name, seed))
        assert not result.violations
        assert result.state["overfull"] == 0
        assert result.state["lost"] == (3 if name == "preemption" else 0)


def tapes(name: str, part: int) -> Iterator[Tape]:
    return islice(islice(singles(name), 0, None, 1 if LONG else STRIDES[name]), part, None, SLICES)


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("name", SCENARIOS)
def test_one_fault_in_any_place_leaves_no_gang_in_part(name: str, part: int) -> None:
    figures = run_tapes(tapes(name, part), simulate)
    assert figures.faults > figures.runs / 2
    check(figures)


def test_a_crash_after_any_call_leaves_no_gang_in_part() -> None:
    """In the short tier, too: each bind of a gang of three, and the plan before."""
    binds = [
        tape
        for tape in singles("gang")
        for fault in tape.faults
        if fault.name == "crash-after" and fault.number in clean_run("gang").written
    ]
    assert len(binds) == len(clean_run("gang").written)
    check(run_tapes(binds, simulate))


@pytest.mark.parametrize("part", range(SLICES))
def test_several_faults_leave_no_gang_in_part(part: int) -> None:
    check(run_tapes(map(tape_of, range(part, SEEDS, SLICES)), simulate))


def suspects() -> Iterator[Tape]:
    """Runs in which a bug would show: no fault, each write refused or lost, a frozen leader, seeds."""
    yield from map(Tape, SCENARIOS)
    for name in ("gang", "preemption"):
        written = clean_run(name).written
        for tape in singles(name):
            (fault,) = tape.faults
            refused = fault.name in ("conflict", "error") and fault.number in written
            if refused or (fault.name == "leader-frozen" and fault.number % 3 == 0):
                yield tape
    yield from map(tape_of, range(300))


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_of_the_scheduler_is_found(bug: Bug) -> None:
    tapes = list(suspects())
    with planted(bug):
        assert any(not simulate(tape).is_clean for tape in tapes)


def test_a_run_is_the_same_every_time() -> None:
    tape = next(islice(singles("preemption"), 40, None))
    assert len({simulate(tape).trace.digest() for _ in range(2)}) == 1
