"""The controller in a cluster in which everything breaks that can break."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from bireme.testing.simulation.campaign import Figures, run_tapes
from bireme.testing.simulation.catalogue import SORTS, clean_state, play, tape_of
from bireme.testing.simulation.exhaustive import pairs, singles
from bireme.testing.simulation.runner import simulate
from bireme.testing.simulation.scenarios import PAGED, SCENARIOS, SHAPES
from bireme.testing.simulation.tape import Fault, Tape, decode, encode

LONG = bool(os.environ.get("BIREME_LONG"))
SEEDS = 20_000 if LONG else 500
CHUNK = 200 if LONG else 50
TAPES = sorted((Path(__file__).parent / "tapes").glob("*.json"))
SINGLES_STRIDE = 1 if LONG else 61
PAIRS_STRIDE = 1 if LONG else 401
SLICES = 16 if LONG else 2
"""How many tests share what is tried in every place, so that all cores have something to do."""


def check(figures: Figures) -> None:
    """No failure: one is told as a tape, for `bireme-sim replay --tape`."""
    assert not figures.failures, "\n".join(map(encode, figures.failures[:3]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_clean_run_ends_the_same_whatever_the_schedule(name: str) -> None:
    for seed in range(20 if LONG else 3):
        result = simulate(Tape(name, seed))
        assert not result.violations
        assert result.state == clean_state(name)


def test_random_seeds_play_every_scenario() -> None:
    assert {tape_of(seed).scenario for seed in range(500)} == set(SCENARIOS)


WORKERS = {
    "generic-edited": 3,
    "generic-shrunk": 1,
    "generic-resized": 2,
    "mpi-shrunk": 1,
    "colossalai-resized": 3,
}


@pytest.mark.parametrize("name", WORKERS)
def test_a_paused_job_goes_on_with_as_many_workers_as_it_was_given(name: str) -> None:
    ended = clean_state(name)
    assert ended["phase"] == "Succeeded"
    assert sum("worker" in replica for replica in ended["replicas"]) == WORKERS[name]


def test_a_replica_is_restarted_before_its_job_is_paused_and_after() -> None:
    result = simulate(Tape("generic-restarted"))
    lines = list(result.trace.lines())
    restarts, pauses = ([n for n, line in enumerate(lines) if text in line] for text in ("+1", "Paused("))
    assert restarts[0] < pauses[0]
    assert result.state["restarts"] == {"job-worker-0": 0, "job-worker-1": 2}


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_random_faults_break_no_rule(start: int) -> None:
    figures = run_tapes(map(tape_of, range(start, start + CHUNK)))
    assert figures.faults > CHUNK
    check(figures)


def share(tapes: Iterable[Tape], stride: int, part: int) -> Iterator[Tape]:
    """One of the SLICES of every so many-th tape."""
    return islice(islice(tapes, 0, None, stride), part, None, SLICES)


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("name", [shape.name for shape in (*SHAPES, *PAGED)])
def test_one_fault_in_any_place_breaks_no_rule(name: str, part: int) -> None:
    check(run_tapes(share(singles(name), SINGLES_STRIDE, part)))


@pytest.mark.parametrize("part", range(SLICES))
def test_two_faults_in_any_two_places_break_no_rule(part: int) -> None:
    check(run_tapes(share(pairs("generic-plain"), PAIRS_STRIDE, part)))


def test_the_places_of_a_run_are_all_tried() -> None:
    """Each fault of a call, at each call of the clean run; so the sample above is a sample of all."""
    clean = simulate(Tape("generic-plain"))
    tried = {(fault.name, fault.number) for tape in singles("generic-plain") for fault in tape.faults}
    assert all(("crash-after", number) in tried for number in range(1, clean.written[-1] + 1))
    assert all(("gone", number) in tried for number in range(1, clean.events + 1))
    assert all(("node-lost", number) in tried for number in range(1, clean.writes + 1))


@pytest.mark.parametrize("path", TAPES, ids=[path.stem for path in TAPES])
def test_what_was_found_once_stays_mended(path: Path) -> None:
    tape = decode(path.read_bytes())
    assert tape.note
    assert len(tape.faults) <= 3
    result = play(tape)
    assert not result.violations
    assert len(result.fired) == len(tape.faults), "the faults no longer come true: make the tape anew"


def digest_of(seeds: Sequence[int], hash_seed: str) -> str:
    program = (
        "from bireme.testing.simulation.catalogue import tape_of\n"
        "from bireme.testing.simulation.runner import simulate\n"
        f"for seed in {list(seeds)}: print(simulate(tape_of(seed)).trace.digest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def seeds_of_every_sort() -> list[int]:
    """For each sort of fault, the first seed that has it."""
    found: dict[str, int] = {}
    for seed in range(1000):
        for fault in tape_of(seed).faults:
            found.setdefault(fault.name, seed)
    assert set(found) == set(SORTS)
    return sorted(set(found.values()))


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    seeds = seeds_of_every_sort()
    first, second, third = (digest_of(seeds, each) for each in ("0", "1", "4711"))
    assert first == second == third
    assert len(set(first.split())) == len(seeds)


def test_a_run_depends_on_nothing_that_ran_before() -> None:
    crash = Tape("generic-plain", 3, (Fault("call", 22, "crash-after", 5.0),))
    assert len({simulate(crash).trace.digest() for _ in range(5)}) == 1


def test_a_tape_survives_being_written_down() -> None:
    for seed in (0, 5, 12345):
        assert decode(encode(tape_of(seed))) == tape_of(seed)
