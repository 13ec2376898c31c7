"""What is left of a launcher's words when those are out that tell nothing of the rank that failed."""

import time
from pathlib import Path

import pytest

from bireme.planning.echoes import RootCause, root_causes, without_echoes
from support.launcher_words import cause

SAID = (Path(__file__).parent / "torchrun-said.txt").read_text()
"""As the real torchrun said it, and four ranks on two workers: rank 3 raised, the others lost it."""


def test_of_what_torchrun_says_the_words_of_the_rank_that_raised_are_left() -> None:
    found = cause(SAID)
    assert (found.replica, found.rank, found.exit_code, found.signal) == ("job-worker-1", 3, 1, None)
    assert found.message.split("\n") == [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "train.py", line 5, in <module>',
        '[rank3]:     raise RuntimeError("the loss is not a number")',
        "[rank3]: RuntimeError: the loss is not a number",
    ]


def test_a_rank_that_lost_its_peer_is_not_taken_for_the_first_though_torchrun_does() -> None:
    mistaken = SAID.replace("rank      : 3 (local_rank: 1)", "rank      : 2 (local_rank: 0)")
    found = cause(mistaken)
    assert (found.replica, found.rank, found.exit_code) == ("job-worker-1", 3, 1)


def test_a_rank_that_a_signal_ended_has_its_number() -> None:
    killed = SAID.replace("exitcode  : 1 (pid: 23748) ", "exitcode  : -11 (pid: 23748)  (SIGSEGV)")
    found = cause(killed)
    assert (found.replica, found.rank, found.exit_code, found.signal) == ("job-worker-1", 3, 139, 11)


def test_the_worker_is_named_where_its_torchrun_said_nothing() -> None:
    line = "bireme: worker job-worker-1 (node rank 1) exited with code 9"
    found = cause(f"{line}\n")
    assert (found.replica, found.rank, found.exit_code, found.message) == ("job-worker-1", None, 9, line)


def test_each_node_tells_of_its_own_first_failure() -> None:
    assert [*root_causes(SAID)] == [*root_causes(without_echoes(SAID))] == [RootCause(3, 1), RootCause(0, 1)]


def test_where_there_are_but_echoes_they_are_all_there_is() -> None:
    lost = "[rank0]: work.wait()\n[rank0]: RuntimeError: Connection closed by peer\n"
    assert without_echoes(lost) == lost
    assert without_echoes(f"loss 3\n{lost}") == "loss 3\n"


NASTY = {
    "blank lines": " \n" * 65_000,
    "blanks": " " * 130_000,
    "dashes": "-" * 130_000,
    "tables": ("=" * 60 + "\nx FAILED\n" + "-" * 60 + "\nFailures:\n") * 1_000,
    "one rank": "[rank0]: a line of some length\n" * 4_000,
    "tracebacks": 'Traceback (most recent call last):\n  File "/x/torchrun"\n' * 2_200,
    "peers": "An MPI communication peer process has unexpectedly disconnected. \n" * 2_000,
    "brackets": "[" * 130_000,
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
def test_whoever_writes_the_output_can_not_make_this_slow(text: str) -> None:
    """A tenth of a second each; minutes, if the text were gone over again for each of its lines."""
    start = time.process_time()
    without_echoes(text)
    assert time.process_time() - start < 5
