"""The embedded mode: what it adds to a bare mpirun, how many pods it runs, how fast output arrives, its rest.

Everything happens in folders of its own, with daemons that are stopped again. Other load on the machine is in
the figures; each tells how much there was.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measurement import BIN, Result, run_seconds

RUNS = 7
PODS = 1_000
OUTPUT_BYTES = 1_000_000_000
PACE = 150_000_000
"""Bytes a second that a pod writes whose output is followed: half as much again as must arrive."""
IDLE_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_ROOT_MAY = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}  # fmt: skip
# Writes so many bytes in lines of 100, so many a second (0: as fast as it can), once a file is there.
_WRITER = """
import os, sys, time
size, pace, go = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
while not os.path.exists(go):
    time.sleep(0.01)
block, sent, begun = (b"x" * 99 + b"\\n") * 640, 0, time.monotonic()
while sent < size:
    sent += os.write(1, block[: size - sent])
    if pace and (ahead := sent / pace - (time.monotonic() - begun)) > 0:
        time.sleep(ahead)
with open(go + ".took", "w") as file:
    file.write(str(time.monotonic() - begun))
"""


class Daemon(NamedTuple):
    """A daemon of the embedded mode, in a folder of its own."""

    folder: Path
    pid: int

    def command(self, verb: str, *words: str) -> list[str]:
        return [str(BIN / "bireme"), verb, "--data-dir", str(self.folder), *words]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextlib.contextmanager
def daemon() -> Iterator[Daemon]:
    from bireme.run.presence import find

    with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
        running = Daemon(Path(folder) / "state", 0)
        run_seconds(running.command("up"))
        try:
            found = find(running.folder)
            assert found is not None, "a daemon that is up is found"
            yield running._replace(pid=found.pid)
        finally:
            run_seconds(running.command("down"))


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


# ---- an MPI job that does nothing


class Launch(NamedTuple):
    """The best of several runs, in milliseconds."""

    run: float
    """`bireme run`, its own start included."""
    job: float
    """From sending the job until its status tells that it succeeded."""
    bare: float
    """mpirun of the same program, without us."""
    two_hosts: float
    """mpirun that starts a daemon for each of two hosts, as it does for two workers."""


def measure_launch(running: Daemon, runs: int = RUNS, program: Sequence[str] = ("true",)) -> Launch:
    # Rather ours: where two hosts are really one, 4.1 crashes at its end now and then (2 of 15 times).
    mpirun = shutil.which("mpirun", path=BIN) or "mpirun"
    best = [float("inf")] * 4
    for _ in range(runs):
        took = (
            run_seconds(running.command("run", "--mpi", "2", "--", *program)),
            _job_seconds(running, program),
            _bare_seconds([mpirun, "-n", "2", "--oversubscribe", *program]),
            _bare_seconds([mpirun, "-n", "2", "-H", "worker-0,worker-1", *program]),
        )
        best = [min(before, now * 1000) for before, now in zip(best, took, strict=True)]
    return Launch(*best)


def _bare_seconds(command: list[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
        agent = Path(folder) / "agent"
        agent.write_text('#!/bin/sh\nshift\nexec /bin/sh -c "$*"\n')
        agent.chmod(0o700)
        shells = {"OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent)}
        start = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            env=os.environ | _ROOT_MAY | shells,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return time.perf_counter() - start


def _job_seconds(running: Daemon, program: Sequence[str]) -> float:
    import asyncio

    return asyncio.run(_run_job(running, program))


async def _run_job(running: Daemon, program: Sequence[str]) -> float:
    import secrets

    from bireme.api.kinds import MPI_JOB
    from bireme.cli.adhoc import build_mpi_job
    from bireme.cli.manifests import with_metadata
    from bireme.cli.sending import versions
    from bireme.cli.submitter import SubmitterOptions, annotations_for
    from bireme.cli.targets import connected, embedded
    from bireme.kube.resources import resource_of
    from bireme.run.jobs import is_finished, phase
    from bireme.run.presence import find

    resource, name = resource_of(MPI_JOB), f"true-{secrets.token_hex(4)}"
    made = build_mpi_job(name, 2, ["-N", "1"], list(program))
    found = find(running.folder)
    assert found is not None, "the daemon runs"
    async with connected(embedded(found)) as connection:
        annotations = annotations_for(connection, SubmitterOptions())
        job: dict[str, Any] = with_metadata(made, namespace="default", annotations=annotations)
        start = time.perf_counter()
        await connection.client.create(resource, "default", job)
        changes = versions(connection.client, resource, "default", name)
        async with contextlib.aclosing(changes):
            async for version in changes:
                if version is not None and is_finished(version):
                    assert phase(version) == "Succeeded", version["status"]
                    return time.perf_counter() - start
    raise AssertionError("a watch does not end by itself")


# ---- many pods


def measure_pods(running: Daemon, pods: int = PODS) -> float:
    """How many pods of a job that do nothing run a second, from the command's start to its end."""
    return pods / run_seconds(running.command("run", "--replicas", str(pods), "--", "true"))


# ---- output


class Output(NamedTuple):
    """How fast output went its way, in MB a second, and how many bytes of it were lost."""

    followed: float
    lost: int
    written: float
    """From a pod that writes as fast as it can into its file, with nobody following."""


def measure_output(running: Daemon, size: int = OUTPUT_BYTES, pace: int = PACE) -> Output:
    with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
        go = Path(folder) / "go"
        _start_writer(running, "fast", size, 0, go)
        go.touch()
        run_seconds(running.command("wait", "fast"))
        written = size / float(Path(f"{go}.took").read_text()) / 1e6
        slow_go = Path(folder) / "slow"
        _start_writer(running, "paced", size, pace, slow_go)
        run_seconds(running.command("wait", "paced", "--for", "running"))
        arrived, seconds = _follow(running, "paced-worker-0", slow_go)
    return Output(arrived / seconds / 1e6, size - arrived, written)


def _start_writer(running: Daemon, name: str, size: int, pace: int, go: Path) -> None:
    words = [sys.executable, "-c", _WRITER, str(size), str(pace), str(go)]
    run_seconds(running.command("run", "-d", "--name", name, "--replicas", "1", "--", *words))


def _follow(running: Daemon, pod: str, go: Path) -> tuple[int, float]:
    """How many bytes of a pod's output arrive, and the seconds from the first to the last of them."""
    process = subprocess.Popen(
        running.command("logs", "-f", pod), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    go.touch()
    first = last = 0.0
    arrived = 0
    while data := os.read(process.stdout.fileno(), 1 << 20):
        last = time.perf_counter()
        first = first or last
        arrived += len(data)
    process.stdout.close()
    assert process.wait() == 0
    return arrived, max(last - first, 1e-9)


# ---- rest


class Rest(NamedTuple):
    cpu_percent: float
    rss_mb: float


def measure_rest(seconds: float = IDLE_SECONDS) -> Rest:
    """A daemon that has nothing to do."""
    with daemon() as running:
        time.sleep(min(5.0, seconds))
        before, begun = running.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        used = running.cpu_seconds() - before
        return Rest(100 * used / (time.perf_counter() - begun), running.rss_mb())


def measure() -> list[Result]:
    """All figures, and the limits that the docs state."""
    # One Open MPI for both sides.
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with daemon() as running:
        launch, launch_load = measure_launch(running), load()
        pods, pods_load = measure_pods(running), load()
        output, output_load = measure_output(running), load()
    rest = measure_rest()
    bare = f"mpirun {launch.bare:.0f} ms, with two hosts {launch.two_hosts:.0f} ms; {launch_load}"
    return [
        Result(
            "embedded mode: `bireme run --mpi 2 -- true` over mpirun",
            launch.run - launch.bare,
            800,
            "ms",
            bare,
        ),
        Result("embedded mode: from apply to done over mpirun", launch.job - launch.bare, 400, "ms", bare),
        Result("embedded mode: pods of `true`", pods, 20, "/s", pods_load, at_least=True),
        Result(
            "embedded mode: followed output",
            output.followed,
            100,
            "MB/s",
            f"{output.lost} bytes lost; pod to file alone {output.written:.0f} MB/s; {output_load}",
            at_least=True,
        ),
        Result("embedded mode: bytes of followed output lost", output.lost, 0, "B", output_load),
        Result("embedded mode: CPU of an idle daemon", rest.cpu_percent, 1, "%", load()),
        Result("embedded mode: RSS of an idle daemon", rest.rss_mb, 110, "MB", ""),
    ]


if __name__ == "__main__":
    for result in measure():
        print(result)
