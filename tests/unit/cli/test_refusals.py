"""What the machine refuses, or somebody has put in the way: a line that says so, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bireme.cli.failures import Failure, fail_with
from bireme.cli.main import cli

# No user can look into such a folder, not even root.
TOO_LONG = "/tmp/" + "x" * 300


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["down"], ["get"], ["logs", "hello"], ["up"], ["run", "--replicas", "1", "--", "true"]],
    ids=lambda words: words[0],
)
def test_a_data_folder_that_cant_be_read_is_told(arguments: list[str]) -> None:
    name, *rest = arguments
    result = invoke(name, "--data-dir", TOO_LONG, *rest)
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: can't use {TOO_LONG}: File name too long\n\n"
        "hint: name a folder of your own with --data-dir\n"
    )


@pytest.mark.parametrize("name", ["status", "get", "down"])
def test_a_current_directory_that_is_gone_is_told_where_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = invoke(name, "--data-dir", "data")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the current directory is gone\n\nhint: ")


def test_what_nobody_has_foreseen_is_an_error_too(tmp_path: Path) -> None:
    too_long = tmp_path / ("y" * 300)
    result = invoke("validate", "-f", str(too_long))
    assert result.exit_code == 1
    assert result.stderr == f"error: {too_long}: File name too long\n"


def test_a_full_disk_is_told() -> None:
    command = [sys.executable, "-m", "bireme.cli.main", "crds"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "error: No space left on device\n")


def test_all_failures_are_told_and_a_hint_of_several_once(capsys: pytest.CaptureFixture[str]) -> None:
    fail_with([])
    with pytest.raises(Failure) as last:
        fail_with([Failure("a", "mend a"), Failure("b", "mend both"), Failure("c", "mend both")])
    last.value.show()
    told = capsys.readouterr().err
    assert told == "error: a\n\nhint: mend a\nerror: b\nerror: c\n\nhint: mend both\n"


@pytest.mark.parametrize("options", [["--keep-finished", "xyz"], ["--cpu", "much"], ["--port", "-1"]])
def test_up_refuses_what_no_daemon_could_have(options: list[str]) -> None:
    result = invoke("up", *options)
    assert result.exit_code == 2
    assert f"Invalid value for '{options[0]}'" in result.stderr


@pytest.mark.parametrize(
    ("name", "has_option"), [("run", False), ("delete", False), ("apply", True), ("validate", True)]
)
def test_recursive_is_advised_only_where_there_is_such_an_option(
    tmp_path: Path, name: str, has_option: bool
) -> None:
    result = invoke(name, "-f", str(tmp_path))
    assert result.exit_code == 2
    assert f"{tmp_path}: no .yaml, .yml, .json file in this folder" in result.stderr
    assert ("--recursive" in result.stderr) is has_option
