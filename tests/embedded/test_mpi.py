"""MPI jobs with the real mpirun, 4.1 and 5.0: right results, and the right one is blamed."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bireme.api.kinds import MPI_JOB
from bireme.apiserver.inside import InsideTransport
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import PODS, resource_of
from bireme.node.machine import look
from bireme.run.apiserver import Options
from bireme.run.embedded import embedded
from bireme.testing.leftovers import processes_with
from support.fixtures import unavailable

JOB = resource_of(MPI_JOB)
BIN = str(Path(sys.executable).parent)
PRELUDE = "import os, signal, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
SUM = 'print("sum", world.allreduce(world.rank), world.size, MPI.Get_processor_name(), flush=True)\n'
WAIT = "time.sleep(100)\n"
Disturb = Callable[[Client, Path, str], Awaitable[None]]


def version(name: str) -> dict[str, str]:
    """What a job needs for one version of Open MPI: PATH, and the library for mpi4py."""
    if name == "5.0":
        return {"path": f"{BIN}:/usr/bin:/bin", "library": ""}
    found = sorted(Path("/usr/lib").glob("*/libmpi.so.40"))
    if not found or not Path("/usr/bin/mpirun").exists():
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    return {"path": f"/usr/bin:/bin:{BIN}", "library": str(found[0])}


def job(name: str, code: str, mpi: str, workers: int, slots: int) -> dict[str, Any]:
    of = version(mpi)
    env = [{"name": "MPI4PY_LIBMPI", "value": of["library"]}] if of["library"] else []
    container = {"name": "mpi-worker", "image": "none", "env": env}
    return {
        "apiVersion": MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name, "annotations": {"bireme.dev/path": of["path"]}},
        "spec": {
            "worker": {
                "replicas": workers,
                "extraMPIArgs": ["-N", str(slots)],
                "cmd": [f"{BIN}/python3", "-c", PRELUDE + code],
                "template": {"spec": {"containers": [container]}},
            },
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }


class Ended:
    def __init__(self, status: dict[str, Any], output: str, seconds: float) -> None:
        self.status, self.output, self.seconds = status, output, seconds

    @property
    def cause(self) -> dict[str, Any]:
        cause: dict[str, Any] = self.status.get("firstFailure") or {}
        return cause


def play(folder: Path, body: dict[str, Any], *, isolation: str = "", disturb: Disturb | None = None) -> Ended:
    """Run a job to its end, delete it, and see that nothing is left of it."""
    machine = look() if not isolation else msgspec.structs.replace(look(), isolation=isolation)

    async def main() -> Ended:
        async with embedded(Options(folder / "data"), directory=folder, machine=machine) as running:
            client = Client(InsideTransport(running.server.backend))
            async with asyncio.timeout(90):
                ended = await _run(client, folder, body, disturb)
                await client.delete(JOB, "default", body["metadata"]["name"], propagation="Background")
                while any((folder / "data/node/pods").iterdir()):
                    await asyncio.sleep(0.05)
            return ended

    ended = asyncio.run(main())
    deadline = time.monotonic() + 5
    while (left := processes_with(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    return ended


async def _run(client: Client, folder: Path, body: dict[str, Any], disturb: Disturb | None) -> Ended:
    name = body["metadata"]["name"]
    start = time.monotonic()
    await client.create(JOB, "default", body)
    while True:
        status = (await client.get(JOB, "default", name)).get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            break
        if disturb is not None and await _output(client, folder, f"{name}-launcher"):
            await disturb(client, folder, name)
            disturb = None
        await asyncio.sleep(0.05)
    return Ended(status, await _output(client, folder, f"{name}-launcher"), time.monotonic() - start)


async def _output(client: Client, folder: Path, pod: str) -> str:
    """What the launcher's program has written so far."""
    with contextlib.suppress(NotFound):
        uid = (await client.get(PODS, "default", pod))["metadata"]["uid"]
        return _read(folder, uid)
    return ""


def _read(folder: Path, uid: str) -> str:
    files = sorted((folder / f"data/node/pods/{uid}/output").glob("*/0.log"))
    text = "".join(file.read_text() for file in files)
    return text if "sum" in text or "ready" in text else ""


async def _kill(client: Client, folder: Path, pod: str, *, what: str) -> None:
    uid = (await client.get(PODS, "default", pod))["metadata"]["uid"]
    state = json.loads((folder / f"data/node/pods/{uid}/state.json").read_text())
    pids = {"shim": state["shim"]["pid"], "main": next(iter(state["containers"].values()))["pid"]}
    os.kill(pids[what], signal.SIGKILL)


@pytest.mark.parametrize(
    ("mpi", "workers", "slots", "isolation"),
    [("5.0", 2, 2, ""), ("4.1", 3, 1, ""), ("5.0", 1, 4, ""), ("4.1", 2, 2, "none")],
)
def test_all_ranks_compute_together(
    tmp_path: Path, mpi: str, workers: int, slots: int, isolation: str
) -> None:
    ended = play(tmp_path, job("sum", SUM, mpi, workers, slots), isolation=isolation)
    assert ended.status["phase"] == "Succeeded", json.dumps(ended.status, indent=1)
    ranks = workers * slots
    lines = [line.split() for line in ended.output.splitlines() if line.startswith("sum")]
    assert [(line[1], line[2]) for line in lines] == [(str(sum(range(ranks))), str(ranks))] * ranks
    if not isolation:
        assert {line[3] for line in lines} == {f"sum-worker-{index}" for index in range(workers)}


@pytest.mark.parametrize("mpi", ["5.0", "4.1"])
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (
            f"{SUM}if world.rank == 3: os._exit(3)\n{WAIT}",
            {"replica": "bad-worker-1", "rank": 3, "exitCode": 3, "reason": "Error"},
        ),
        (
            f"if world.rank == 2: world.Abort(7)\n{WAIT}",
            {"replica": "bad-worker-1", "rank": 2, "exitCode": 7},
        ),
        (
            f"if world.rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\n{WAIT}",
            {"replica": "bad-worker-0", "rank": 1, "signal": 11},
        ),
    ],
    ids=["exit 3", "abort", "crash"],
)
def test_the_rank_that_failed_is_named(tmp_path: Path, mpi: str, code: str, cause: dict[str, Any]) -> None:
    ended = play(tmp_path, job("bad", code, mpi, 2, 2))
    assert ended.status["phase"] == "Failed"
    assert {key: ended.cause.get(key) for key in cause} == cause


@pytest.mark.parametrize("victim", ["worker-1", "launcher"])
def test_a_pod_that_is_killed_is_named(tmp_path: Path, victim: str) -> None:
    async def disturb(client: Client, folder: Path, name: str) -> None:
        await _kill(client, folder, f"{name}-{victim}", what="main")

    ended = play(tmp_path, job("hit", SUM + WAIT, "5.0", 2, 1), disturb=disturb)
    assert ended.status["phase"] == "Failed"
    assert (ended.cause["replica"], ended.cause["signal"]) == (f"hit-{victim}", 9)


def test_a_worker_whose_shim_is_killed_fails_the_job(tmp_path: Path) -> None:
    """Nobody knows when it ended: where the launcher ended in the second before, that one is named."""

    async def disturb(client: Client, folder: Path, name: str) -> None:
        await _kill(client, folder, f"{name}-worker-0", what="shim")

    ended = play(tmp_path, job("hit", SUM + WAIT, "5.0", 2, 1), disturb=disturb)
    assert ended.status["phase"] == "Failed"
    assert ended.cause["replica"] in ("hit-worker-0", "hit-launcher")
