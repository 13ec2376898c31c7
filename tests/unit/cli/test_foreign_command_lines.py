"""Command lines of mpirun and torchrun, after options of Bireme's own."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bireme.cli.foreign_options import ForeignCommand
from bireme.cli.run import command as run_command
from bireme.cli.stdin_plan import Reader, Source, classify, decide_stdin
from bireme.cli.torchrun import CommandLine, count_processes, parse


@click.command(cls=ForeignCommand)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.option("-n", "--name")
@click.option("-d", "--detach", is_flag=True)
def foreign(words: tuple[str, ...], name: str | None, *, detach: bool) -> None:
    click.echo(f"{name} {detach} {' '.join(words)}")


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["-n", "4", "./a.out"], "None False -n 4 ./a.out"),
        (["--name", "x", "-n", "4", "./a.out"], "x False -n 4 ./a.out"),
        (["--name=x", "--detach", "./a.out", "--name", "y"], "x True ./a.out --name y"),
        (["-np", "2", "--detach", "a"], "None False -np 2 --detach a"),
        (["--detach", "--", "--name", "a"], "None True --name a"),
        (["--oversubscribe", "--name", "a"], "None False --oversubscribe --name a"),
    ],
)
def test_own_options_come_before_the_first_foreign_word(args: list[str], output: str) -> None:
    result = CliRunner().invoke(foreign, args)
    assert result.output == f"{output}\n"


@pytest.mark.parametrize(
    ("args", "ranks"),
    [
        (["--mpi", "2", "-np", "8", "python3", "x.py"], "8"),
        (["-n", "4", "./a.out"], "4"),
        (["-n4", "./a.out"], "4"),
        (["-np4", "./a.out"], "4"),
    ],
)
def test_run_explains_the_number_of_ranks_of_mpirun(args: list[str], ranks: str) -> None:
    result = CliRunner().invoke(run_command, args)
    assert result.exit_code == 2
    assert f"bireme mpirun -np {ranks} ./program" in result.output


@pytest.mark.parametrize("launcher", ["mpirun", "/usr/bin/mpiexec", "srun", "torchrun"])
def test_run_refuses_a_launcher_in_the_place_of_the_program(launcher: str, tmp_path: Path) -> None:
    args = ["--data-dir", str(tmp_path), "--mpi", "2", "--", launcher, "-np", "2", "./a.out"]
    result = CliRunner().invoke(run_command, args)
    assert result.exit_code == 2
    assert "hint: bireme " in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train.py"], ("1", [], ["train.py"])),
        (["--nproc-per-node", "2", "train.py", "--x"], ("2", [], ["train.py", "--x"])),
        (["--nproc_per_node=gpu", "-m", "pkg.train"], ("gpu", ["-m"], ["pkg.train"])),
        (
            ["--standalone", "--nnodes=1", "--max-restarts", "3", "t.py"],
            ("1", ["--max-restarts", "3"], ["t.py"]),
        ),
        (["--log_dir=logs", "--no-python", "./run"], ("1", ["--log_dir=logs", "--no-python"], ["./run"])),
    ],
)
def test_torchruns_command_line_is_split(words: list[str], line: tuple[str, list[str], list[str]]) -> None:
    assert parse(words) == CommandLine(*line)


@pytest.mark.parametrize(
    "words", [["--nnodes", "2", "t.py"], ["--rdzv_endpoint=h:1", "t.py"], ["--nproc-per-node", "2"], []]
)
def test_torchrun_refuses_what_is_not_for_one_machine(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parse(words)


@pytest.mark.parametrize(
    ("wanted", "gpus", "count"), [("3", 0, 3), ("cpu", 2, 8), ("gpu", 2, 2), ("auto", 2, 2), ("auto", 0, 8)]
)
def test_processes_per_node_are_counted(wanted: str, gpus: int, count: int) -> None:
    assert count_processes(wanted, gpus, cpus=8) == count


@pytest.mark.parametrize("wanted", ["0", "-1", "many", "gpu", ""])
def test_an_impossible_number_of_processes_is_refused(wanted: str) -> None:
    with pytest.raises(click.UsageError):
        count_processes(wanted, gpus=0, cpus=8)


def test_standard_input_is_classified(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"text")
    with file.open("rb") as opened, Path(os.devnull).open("rb") as null:
        assert classify(opened.fileno()) is Source.FILE
        assert classify(null.fileno()) is Source.NOTHING
        opened.seek(4)
        assert classify(opened.fileno()) is Source.NOTHING
    reading, writing = os.pipe()
    assert classify(reading) is Source.PIPE
    os.close(reading)
    assert classify(reading) is Source.NOTHING
    os.close(writing)
    ours, theirs = os.openpty()
    assert classify(theirs) is Source.TERMINAL
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("source", "reader", "wanted", "forwards"),
    [
        (Source.FILE, "rank 0", None, True),
        (Source.PIPE, "rank 0", None, True),
        (Source.TERMINAL, "rank 0", None, False),
        (Source.TERMINAL, "rank 0", True, True),
        (Source.FILE, "rank 0", False, False),
        (Source.NOTHING, "rank 0", True, False),
        (Source.FILE, "replica", None, False),
        (Source.FILE, "replica", True, True),
        (Source.FILE, "none", None, False),
    ],
)
def test_standard_input_is_forwarded_to_its_reader(
    source: Source, reader: Reader, wanted: bool | None, forwards: bool
) -> None:
    assert decide_stdin(source, reader, wanted=wanted, detach=False) is forwards


def test_mpiruns_own_command_line_takes_a_terminal() -> None:
    assert decide_stdin(Source.TERMINAL, "rank 0", wanted=None, detach=False, takes_terminal=True)


def test_a_detached_job_gets_no_standard_input() -> None:
    assert not decide_stdin(Source.PIPE, "rank 0", wanted=None, detach=True)
    with pytest.raises(click.UsageError):
        decide_stdin(Source.FILE, "rank 0", wanted=None, detach=True)
    with pytest.raises(click.UsageError):
        decide_stdin(Source.PIPE, "replica", wanted=True, detach=True)
