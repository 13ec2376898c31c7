"""What the real mpirun of Open MPI 4.1 and 5.0 says where it starts no rank, and what is made of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.launcher_words import cause

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "mpirun-refusals.yaml").read_text()
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mpiruns_refusal_becomes_one_line(case: dict[str, Any]) -> None:
    first = cause(case["said"])
    expected = case["first"]
    assert first.message == expected["message"]
    assert (first.replica, first.rank) == (expected.get("replica", "job-launcher"), expected.get("rank"))
    assert (first.exit_code, first.signal) == (expected.get("exitCode", 1), None)
    assert first.reason == expected["reason"]


def test_a_program_that_quotes_mpirun_in_its_own_words_has_not_been_refused() -> None:
    assert cause("my log: unknown option, not enough slots\n").reason == ""
