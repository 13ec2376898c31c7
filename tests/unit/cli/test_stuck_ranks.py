"""When `bireme run` hints at a Python rank that hangs the others."""

from typing import Any

import pytest

from bireme.cli.stuck_ranks import StuckRanks

RAISED = [
    b"Traceback (most recent call last):",
    b'  File "x.py", line 3, in <module>',
    b"ModuleNotFoundError: No module named 'x'",
]


def job(*command: str) -> dict[str, Any]:
    return {"spec": {"worker": {"cmd": list(command)}}}


def test_silence_after_an_exception_gets_one_hint() -> None:
    stuck = StuckRanks(job("python3", "x.py", "--fast"))
    stuck.feed(RAISED, now=0)
    assert stuck.hint(now=5) is None
    assert "`python3 -m mpi4py x.py --fast` ends all ranks then" in (stuck.hint(now=6) or "")
    assert stuck.hint(now=60) is None


def test_tagged_lines_are_read_alike() -> None:
    stuck = StuckRanks(job("/usr/bin/python3.11", "x.py"))
    stuck.feed([b"[1,1]<stderr>: " + line for line in RAISED], now=0)
    assert stuck.hint(now=6) is not None


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["python3", "x.py"], [*RAISED, b"step 8"]),
        (["python3", "x.py"], RAISED[:2]),
        (["python3", "x.py"], [b"ValueError: as the program logs it"]),
        (["python3", "-m", "mpi4py", "x.py"], RAISED),
        (["python3", "-c", "raise ValueError"], RAISED),
        (["./solver"], RAISED),
        ([], RAISED),
    ],
    ids=["goes on", "half", "no traceback", "mpi4py", "no script", "no Python", "no MPIJob"],
)
def test_no_hint_without_need(command: list[str], lines: list[bytes]) -> None:
    stuck = StuckRanks(job(*command))
    stuck.feed(lines, now=0)
    assert stuck.hint(now=600) is None
