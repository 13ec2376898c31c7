"""The simulation finds bugs: each of those that are planted here, by one of its oracles."""

import os
from pathlib import Path

import pytest

from bireme.testing.simulation.catalogue import play
from bireme.testing.simulation.course import Result
from bireme.testing.simulation.shrink import shrink
from bireme.testing.simulation.tape import decode, encode
from simulation.bugs import BUGS
from simulation.bugs.hunt import hunt, prepare, read_table, try_seed
from simulation.bugs.planting import Bug, RottenBugError, planted

LONG = bool(os.environ.get("BIREME_LONG"))
TAPES = Path(__file__).parent / "tapes"
BY_NAME = {bug.name: bug for bug in BUGS}
SAMPLE = ("deleted without grace", "own pods taken for another's after a crash")


def find(bug: Bug) -> Result:
    """A failure by the seed of the table; where the code has moved on since, by another one."""
    prepare()
    known = try_seed(bug, read_table()[bug.name].seed)
    if not known.is_clean:
        return known
    caught = hunt(bug)
    assert caught is not None
    return try_seed(bug, caught.seed)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    assert find(bug).violations


def test_the_table_names_every_bug() -> None:
    assert len(BUGS) >= 40
    assert list(read_table()) == list(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME if LONG else SAMPLE)
def test_a_failure_is_shrunk_to_few_faults_and_can_be_played_again(name: str) -> None:
    bug = BY_NAME[name]
    failure = find(bug)
    with planted(bug):
        small = shrink(failure, play)
        again = play(decode(encode(small.tape)))
    assert len(small.tape.faults) <= 3
    assert small.violations[0].oracle == failure.violations[0].oracle
    assert again.trace.digest() == small.trace.digest()
    assert play(small.tape).is_clean, "without the bug there is no failure"


LOST = Bug(
    "cancellation lost in an error", "control.controller", "Controller._work", "raise_if_cancelled()", "pass"
)
BEHIND = Bug(
    "cache that is behind waited for, for ever",
    "control.controller",
    "Controller._decide",
    "self.queue.add_after(key, BEHIND_SECONDS)",
    "pass",
)


@pytest.mark.parametrize(
    ("bug", "name", "oracle"),
    [(LOST, "lease-lost-amid-a-batch", "ends when asked"), (BEHIND, "came-and-went-unseen", "same end")],
    ids=[LOST.name, BEHIND.name],
)
def test_a_bug_that_random_seeds_hardly_meet_is_found_by_its_tape(bug: Bug, name: str, oracle: str) -> None:
    prepare()
    tape = decode((TAPES / f"{name}.json").read_bytes())
    with planted(bug):
        (violation,) = play(tape).violations
    assert violation.oracle == oracle


def test_a_bug_whose_place_has_changed_is_refused() -> None:
    rotten = BUGS[0]._replace(old="a line that is not there")
    with pytest.raises(RottenBugError, match="0 times"), planted(rotten):
        pass
