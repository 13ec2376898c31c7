"""Jobs of a daemon whose disk is full: users are told, jobs can be deleted, and space lets all go on."""

import asyncio
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.run.presence import wait_gone
from bireme.testing.leftovers import processes_with
from support.commands import Bireme
from support.daemon_client import PATIENCE_SECONDS, generic_job, jobs_of, python, wait_until
from support.small_disk import empty, fill, free, small_disk

pytestmark = pytest.mark.xdist_group("commands")

PRINTS_MORE_THAN_THE_DISK = """
import os, sys, time
lines = (b"x" * 99 + b"\\n") * 320
def free():
    stat = os.statvfs(sys.argv[1])
    return stat.f_bavail * stat.f_frsize
for number in range(640):
    os.write(1, lines)
    while free() < 4 * len(lines):
        time.sleep(0.01)  # until the shim has made room
print("the last line")
"""
FILLS_THE_DISK = """
import os, sys
try:
    while True:
        os.write(1, b"x" * 9999 + b"\\n")
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system, which is the home of a daemon."""
    with small_disk(tmp_path / "home", "8m") as mounted:
        yield mounted


@pytest.fixture
def bireme(tmp_path: Path, disk: Path) -> Iterator[Bireme]:
    made = Bireme(tmp_path)
    made("up")
    yield made
    empty(disk)
    made.down()


def waiting(bireme: Bireme) -> tuple[Path, list[str]]:
    """A file, and a command that runs until it is there."""
    go = bireme.work / "go"
    return go, ["sh", "-c", f"until test -e {go}; do sleep 0.1; done; echo done"]


def log_of(bireme: Bireme) -> str:
    return (bireme.data / "daemon.log").read_text(errors="replace")


def kill_daemon(bireme: Bireme) -> None:
    pid = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_gone(pid, PATIENCE_SECONDS)


def pods_of(bireme: Bireme) -> list[dict[str, dict[str, list[dict[str, str]]]]]:
    items: list[dict[str, dict[str, list[dict[str, str]]]]]
    items = json.loads(bireme("get", "pods", "-o", "json").stdout)["items"]
    return items


def test_jobs_go_on_when_there_is_space_again(bireme: Bireme, disk: Path) -> None:
    asyncio.run(_go_on(bireme, disk))
    assert "Traceback" not in log_of(bireme)


async def _go_on(bireme: Bireme, disk: Path) -> None:
    go, command = waiting(bireme)
    async with jobs_of(bireme.data) as jobs:
        await jobs.create(generic_job("early", command, replicas=2))
        await jobs.wait_phase("early", "Running")
        fill(disk)
        refused = bireme("run", "-d", "--name", "late", "--replicas", "1", "--", "true", code=1)
        assert f"the disk of {bireme.data} is full" in refused.stderr
        assert "disk:       full" in bireme("status").stdout
        go.touch()
        await wait_until(lambda: not processes_with(str(go)))
        assert (await jobs.wait_phase("early", "Succeeded", "Failed"))["status"]["phase"] == "Succeeded"
        assert bireme("logs", "early").stdout.count("done") == 2
        empty(disk)
        await jobs.create(generic_job("after", ["true"]))
        await jobs.wait_phase("after", "Succeeded")
    assert "disk:" not in bireme("status").stdout


def test_run_says_once_that_the_disk_is_full_and_once_that_it_is_not(bireme: Bireme, disk: Path) -> None:
    go, command = waiting(bireme)
    process = bireme.start("run", "--name", "followed", "--replicas", "2", "--", *command)
    assert process.stderr is not None
    running = ("wait", "followed", "--for", "running", "--timeout", "3m")
    asyncio.run(wait_until(lambda: bireme(*running, code=None).returncode == 0))
    fill(disk)
    told: list[str] = []
    while "is full" not in (line := process.stderr.readline()):
        assert line, told
        told.append(line)
    assert f"the disk of {bireme.data} is full: output is cut and no pod is started" in line
    assert "`bireme delete JOB`" in line
    empty(disk)
    while "there is space again" not in (line := process.stderr.readline()):
        assert line
        assert "is full" not in line
    go.touch()
    shown, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, shown.count("done")) == (0, 2)


def test_output_is_cut_and_the_program_goes_on(bireme: Bireme) -> None:
    program = python(PRINTS_MORE_THAN_THE_DISK, str(bireme.data))
    result = bireme("run", "--name", "chatty", "--replicas", "1", "--", *program)
    assert result.stdout.endswith("worker-0 | the last line\n")
    said = f"note: output is cut: the disk of {bireme.data} is full; `bireme delete JOB` frees"
    assert result.stderr.count(said) == 1
    assert "chatty: Succeeded" in result.stderr
    first, *_, last = bireme("logs", "chatty").stdout.splitlines()
    mark = f"worker-0 | bireme: output cut here: no space left on the disk of {bireme.data}"
    assert (first.rstrip(), last) == (mark, "worker-0 | the last line")
    (condition,) = (
        each
        for each in pods_of(bireme)[0]["status"]["conditions"]
        if each["type"] == "bireme.dev/OutputComplete"
    )
    assert (condition["status"], condition["reason"]) == ("False", "DiskFull")


@pytest.mark.parametrize("filled_by", ["output", "others"])
def test_delete_frees_the_space_of_a_job_on_a_full_disk(bireme: Bireme, disk: Path, filled_by: str) -> None:
    bireme("run", "--name", "large", "--replicas", "1", "--", *python("print('x' * 999_999)"))
    _, command = waiting(bireme)
    bireme("run", "-d", "--name", "running", "--replicas", "2", "--", *command)
    bireme("wait", "running", "--for", "running", "--timeout", "3m")
    if filled_by == "output":
        bireme("run", "--name", "fills", "--replicas", "1", "--", *python(FILLS_THE_DISK), code=None)
    fill(disk)
    before = free(disk)
    deleted = bireme("delete", "--all", "--yes").stdout
    assert {"running deleted", "large deleted"} <= {line.rpartition("/")[2] for line in deleted.splitlines()}
    assert free(disk) - before > 999_999
    assert pods_of(bireme) == []
    assert not processes_with(str(bireme.work / "go"))


def test_down_stops_all_pods_on_a_full_disk(tmp_path: Path, disk: Path) -> None:
    bireme = Bireme(tmp_path)
    _, command = waiting(bireme)
    bireme("run", "-d", "--name", "running", "--replicas", "2", "--", *command)
    bireme("wait", "running", "--for", "running", "--timeout", "3m")
    fill(disk)
    told = bireme.down()
    assert "stopped GenericJob default/running" in told.stdout
    assert not processes_with(str(bireme.work / "go"))


def test_down_stops_pods_whose_daemon_was_killed_on_a_full_disk(tmp_path: Path, disk: Path) -> None:
    bireme = Bireme(tmp_path)
    _, command = waiting(bireme)
    bireme("run", "-d", "--name", "running", "--replicas", "2", "--", *command)
    bireme("wait", "running", "--for", "running", "--timeout", "3m")
    fill(disk)
    kill_daemon(bireme)
    told = bireme.down()
    assert "stopped GenericJob default/running" in told.stdout
    assert not processes_with(str(bireme.work / "go"))


def test_down_kills_pods_if_not_even_deletions_are_saved(tmp_path: Path) -> None:
    bireme = Bireme(tmp_path)
    _, command = waiting(bireme)
    bireme("run", "-d", "--name", "running", "--replicas", "2", "--", *command)
    bireme("wait", "running", "--for", "running", "--timeout", "3m")
    pid = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
    told = bireme("down", "--grace-seconds", "1")
    assert f"can't write to {bireme.data}" in told.stderr
    assert "all pods are killed" in told.stderr
    assert bireme.processes() == []


def test_an_ended_daemon_starts_on_a_full_disk_to_delete_jobs(bireme: Bireme, disk: Path) -> None:
    bireme("run", "--name", "large", "--replicas", "1", "--", *python("print('x' * 999_999)"))
    bireme("down")
    fill(disk)
    bireme("up")
    bireme("delete", "large")
    assert free(disk) > 999_999


def test_a_first_daemon_on_a_full_disk_says_so(tmp_path: Path, disk: Path) -> None:
    bireme = Bireme(tmp_path)
    fill(disk)
    result = bireme("up", code=1)
    assert "no space left" in result.stderr.lower()
    assert bireme.processes() == []


def test_daemon_json_is_written_when_there_is_space_again(tmp_path: Path, disk: Path) -> None:
    bireme = Bireme(tmp_path)
    bireme("run", "--name", "first", "--replicas", "1", "--", "true")
    card = bireme.data / "daemon.json"
    assert not json.loads(card.read_bytes())["stays"]
    fill(disk)
    bireme("up")
    empty(disk)
    asyncio.run(wait_until(lambda: json.loads(card.read_bytes())["stays"]))
    bireme.down()
