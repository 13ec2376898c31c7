"""`bireme-sim`: what it prints, and how it exits."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bireme.testing.cli import main
from bireme.testing.simulation.catalogue import tape_of
from bireme.testing.simulation.tape import encode


def test_run_ends_with_its_figures() -> None:
    result = CliRunner().invoke(main, ["run", "--seeds", "3", "--start", "5", "--jobs", "1"])
    assert result.exit_code == 0
    last = result.output.strip().splitlines()[-1]
    pattern = r"3 seeds, 0 failed, \d+ seeds/min, \d+ faults injected, \d+ calls, \d+ writes"
    assert re.fullmatch(pattern, last)


def test_replay_tells_what_happened() -> None:
    result = CliRunner().invoke(main, ["replay", "5"])
    assert result.exit_code == 0
    assert "alpha-1      starts" in result.output
    assert "Lease" not in result.output
    for fault in tape_of(5).faults:
        if f"!! {fault.at} {fault.number}:" in result.output:
            break
    else:
        raise AssertionError("no fault is told of")


def test_a_tape_plays_as_the_seed_that_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "tape.json"
    path.write_text(encode(tape_of(5)))
    by_seed = CliRunner().invoke(main, ["replay", "5", "--leases"])
    by_tape = CliRunner().invoke(main, ["replay", "--tape", str(path), "--leases"])
    assert by_seed.output == by_tape.output
    assert "Lease" in by_tape.output


def test_replay_wants_a_seed_or_a_tape() -> None:
    assert CliRunner().invoke(main, ["replay"]).exit_code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no tape"),
        ('{"scenario": "mpi-golden"}', "scenario: 'mpi-golden' is none"),
        (
            '{"scenario": "mpi-plain", "faults": [{"at": "call", "number": 1, "name": "rain"}]}',
            "'call 1: rain' is none",
        ),
    ],
)
def test_what_is_no_tape_is_told_so(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "tape.json"
    path.write_text(text)
    result = CliRunner().invoke(main, ["replay", "--tape", str(path)])
    assert result.exit_code == 1
    assert result.output.startswith("error: ")
    assert told in result.output
    assert "\nhint: " in result.output


def test_a_wrong_call_is_told_as_any_other_error() -> None:
    result = CliRunner().invoke(main, ["replay"])
    assert result.exit_code == 2
    assert result.output.startswith("error: give either a SEED or --tape FILE")
