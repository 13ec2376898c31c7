"""What may happen to a machine, or to a daemon's own processes: the right one is blamed, and jobs go on."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bireme.api.kinds import MPI_JOB
from bireme.kube.errors import NotFound
from bireme.kube.resources import resource_of
from bireme.node.shim.tree import descendants, read_process
from bireme.run.presence import wait_gone
from bireme.testing.leftovers import processes_with
from support.commands import Bireme
from support.daemon_client import (
    PATIENCE_SECONDS,
    Jobs,
    first_failure,
    generic_job,
    jobs_of,
    python,
    wait_until,
)
from support.ports import free_port

pytestmark = pytest.mark.xdist_group("commands")

MPI = resource_of(MPI_JOB)
TESTS = Path(__file__).parents[1]
SLEEP = ["sleep", "1000"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """A home whose daemon may be broken, and is started by those who do so."""
    bireme = Bireme(tmp_path_factory.mktemp("alone"))
    yield bireme
    bireme.down()


def kill_daemon(bireme: Bireme) -> None:
    pid = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_gone(pid, PATIENCE_SECONDS)


async def state_file(bireme: Bireme, jobs: Jobs, pod: str) -> Path:
    """What a pod's shim has on record, once it runs."""
    found = (await jobs.pods(pod))[0]
    uid: str = found["metadata"]["uid"]
    path = bireme.data / "node/pods" / uid / "state.json"
    await wait_until(lambda: path.exists() and "pid" in main_record(path))
    return path


def main_record(state: Path) -> dict[str, Any]:
    containers = json.loads(state.read_text())["containers"]
    record: dict[str, Any] = next(iter(containers.values()), {})
    return record


async def kill_shim(bireme: Bireme, jobs: Jobs, pod: str) -> Path:
    path = await state_file(bireme, jobs, pod)
    os.kill(json.loads(path.read_text())["shim"]["pid"], signal.SIGKILL)
    return path


# ---- shims


def test_a_replica_whose_shim_is_killed_is_the_first_cause(bireme: Bireme) -> None:
    async def play() -> dict[str, Any]:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(generic_job("struck", SLEEP, replicas=3))
            await jobs.wait_phase("struck", "Running")
            record = main_record(await kill_shim(bireme, jobs, "struck-worker-1"))
            job = await jobs.wait_phase("struck", "Failed")
            process = read_process(record["pid"])
            assert process is None or process.is_zombie
            await jobs.delete("struck")
            await jobs.wait_gone("struck")
            return first_failure(job)

    told = asyncio.run(play())
    assert (told["replica"], told["exitCode"]) == ("struck-worker-1", 137)
    assert told["reason"] == "ContainerStatusUnknown"


def test_pods_start_though_what_starts_their_shims_was_killed(bireme: Bireme) -> None:
    async def play() -> None:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(generic_job("before", ["true"]))
            await jobs.wait_phase("before", "Succeeded")
            for pid in nurseries(bireme):
                os.kill(pid, signal.SIGKILL)
            await jobs.create(generic_job("behind", ["true"]))
            await jobs.wait_phase("behind", "Succeeded")
            for name in ("before", "behind"):
                await jobs.delete(name)

    asyncio.run(play())
    assert nurseries(bireme)


def nurseries(bireme: Bireme) -> list[int]:
    """The processes by which the daemon starts shims."""
    daemon = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    living = [each.pid for each in descendants([daemon]) if not each.is_zombie]
    return [pid for pid in living if b"nursery" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def mpi_job(name: str) -> dict[str, Any]:
    program = "from mpi4py import MPI; import time; print('up', flush=True); time.sleep(1000)"
    container = {"name": "mpi-worker", "image": "none"}
    return {
        "apiVersion": MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": 2,
                "cmd": [sys.executable, "-c", program],
                "template": {"spec": {"containers": [container]}},
            },
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }


@pytest.mark.parametrize("victim", ["worker-0", "worker-1", "launcher"])
def test_a_member_of_a_crew_whose_shim_is_killed_is_the_first_cause(bireme: Bireme, victim: str) -> None:
    name = f"crew-{victim}"

    async def play() -> dict[str, Any]:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(mpi_job(name), MPI)
            await jobs.wait_phase(name, "Running", resource=MPI)
            await wait_until(lambda: has_said(jobs, f"{name}-launcher", b"up"))
            await kill_shim(bireme, jobs, f"{name}-{victim}")
            job = await jobs.wait_phase(name, "Failed", resource=MPI)
            await jobs.delete(name, MPI)
            await jobs.wait_gone(name, MPI)
            return first_failure(job)

    told = asyncio.run(play())
    assert (told["replica"], told["reason"]) == (f"{name}-{victim}", "ContainerStatusUnknown")


async def has_said(jobs: Jobs, pod: str, words: bytes) -> bool:
    return words in await jobs.output(pod)


# ---- the machine


def test_a_job_that_ran_when_the_machine_was_restarted_starts_again_uncharged(alone: Bireme) -> None:
    """What a restart leaves: records of another boot, and none of their processes."""

    async def start() -> list[Path]:
        async with jobs_of(alone.data) as jobs:
            await jobs.create(generic_job("steady", SLEEP, replicas=2))
            await jobs.wait_phase("steady", "Running")
            return [await kill_after_daemon(jobs, rank) for rank in (0, 1)]

    async def kill_after_daemon(jobs: Jobs, rank: int) -> Path:
        return await state_file(alone, jobs, f"steady-worker-{rank}")

    async def end() -> dict[str, Any]:
        async with jobs_of(alone.data) as jobs:
            return await jobs.wait("steady", has_started_again)

    def has_started_again(job: dict[str, Any]) -> bool:
        replicas = job["status"]["tasks"][0]["replicas"]
        return {each["uid"] for each in replicas}.isdisjoint(before) and all(
            each["phase"] == "Running" for each in replicas
        )

    alone("up")
    states = asyncio.run(start())
    before = {path.parent.name for path in states}
    kill_daemon(alone)
    for path in states:
        seem_of_another_boot(path)
    alone("up")
    job = asyncio.run(end())
    assert job["status"]["phase"] == "Running"
    assert job["status"]["tasks"][0]["restartCount"] == 0


def seem_of_another_boot(path: Path) -> None:
    state = json.loads(path.read_text())
    os.kill(state["shim"]["pid"], signal.SIGKILL)
    assert wait_gone(state["shim"]["pid"], PATIENCE_SECONDS)
    state["shim"]["boot"] = "00000000-0000-0000-0000-000000000000"
    path.write_text(json.dumps(state))


def test_a_process_that_has_got_the_number_of_a_pods_is_left_alone(alone: Bireme) -> None:
    async def start() -> Path:
        async with jobs_of(alone.data) as jobs:
            await jobs.create(generic_job("reused", SLEEP))
            await jobs.wait_phase("reused", "Running")
            return await state_file(alone, jobs, "reused-worker-0")

    async def end() -> None:
        async with jobs_of(alone.data) as jobs:
            await jobs.wait_phase("reused", "Failed")
            await jobs.delete("reused")
            await jobs.wait_gone("reused")

    alone("up")
    path = asyncio.run(start())
    kill_daemon(alone)
    with subprocess.Popen(SLEEP) as innocent:
        state = json.loads(path.read_text())
        os.kill(state["shim"]["pid"], signal.SIGKILL)
        assert wait_gone(state["shim"]["pid"], PATIENCE_SECONDS)
        state["shim"]["pid"] = state["containers"]["main"]["pid"] = innocent.pid
        path.write_text(json.dumps(state))
        alone("up")
        asyncio.run(end())
        assert innocent.poll() is None
        innocent.kill()


# ---- ports


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    bireme = Bireme(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = bireme("up", "--port", str(port), code=1)
    assert str(port) in result.stderr
    assert "in use" in result.stderr
    assert bireme.processes() == []


LISTEN = """
import os, socket, sys, time
made = socket.socket()
made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while sys.argv[2] == "1" and not os.path.exists("listening"):
    time.sleep(0.02)
made.bind(("127.0.0.1", int(sys.argv[1])))
made.listen()
open("listening", "w").close()
time.sleep(1000)
"""


def bind_twice(bireme: Bireme) -> str:
    """Let two replicas bind one port; return what is told of it."""
    port = free_port()

    async def play() -> dict[str, Any]:
        async with jobs_of(bireme.data) as jobs:
            await jobs.create(generic_job("both", python(LISTEN, str(port), "$(rank)"), replicas=2))
            job = await jobs.wait_phase("both", "Failed")
            await jobs.delete("both")
            await jobs.wait_gone("both")
            return first_failure(job)

    told = asyncio.run(play())
    assert told["replica"] == "both-worker-1"
    assert f"port {port} is taken by both-worker-0" in told["message"]
    return str(told["message"])


def test_a_port_that_two_replicas_bind_is_named_as_the_cause(bireme: Bireme) -> None:
    assert "name the port in spec.service.ports" in bind_twice(bireme)


def test_a_port_of_another_process_is_named_with_that_process(bireme: Bireme) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = (
            f"import socket\ntry: socket.create_server(('127.0.0.1', {port}))\nexcept OSError as e: exit(e)"
        )
        ended = bireme("run", "--replicas", "1", "--", "python3", "-c", program, code=1)
    assert f"bireme: port {port} is taken by process {os.getpid()} (" in ended.stderr
    assert "hint: stop that process, or use another port" in ended.stderr


def test_where_replicas_have_no_network_of_their_own_the_hint_is_another(alone: Bireme) -> None:
    alone("down")
    alone("up", BIREME_ISOLATION="none")
    assert "let each replica have a port of its own, or allow user namespaces" in bind_twice(alone)
    alone.down()


def log_of(bireme: Bireme) -> str:
    return (bireme.data / "daemon.log").read_text(errors="replace")


# ---- output


def test_output_can_be_read_after_the_clean_up_of_its_pod(bireme: Bireme) -> None:
    async def play() -> None:
        async with jobs_of(bireme.data) as jobs:
            job = generic_job("brief", ["sh", "-c", "echo replica $(rank) was here"], replicas=2)
            job["spec"]["cleanUpPolicy"] = "All"
            await jobs.create(job)
            await jobs.wait_phase("brief", "Succeeded")
            await wait_until(lambda: are_gone(jobs, "brief-"))
            for rank in (0, 1):
                said = await jobs.output(f"brief-worker-{rank}")
                assert said.decode() == f"replica {rank} was here\n"
            await jobs.delete("brief")
            with pytest.raises(NotFound):
                await jobs.output("never-worker-0")

    asyncio.run(play())


async def are_gone(jobs: Jobs, prefix: str) -> bool:
    return not await jobs.pods(prefix)


# ---- the daemon's parts


def test_a_part_that_can_not_work_begins_anew_until_it_can(alone: Bireme) -> None:
    alone("up")
    alone("down")
    programs = alone.data / "node/bin"
    for path in programs.iterdir():
        path.unlink()
    programs.rmdir()
    programs.touch()
    alone("up")

    async def play() -> None:
        async with jobs_of(alone.data) as jobs:
            await jobs.create(generic_job("patient", ["true"]))
            await wait_until(lambda: log_of(alone).count("the node agent has died") >= 2)
            programs.unlink()
            await jobs.wait_phase("patient", "Succeeded")

    asyncio.run(play())
    assert "begins anew in" in log_of(alone)
    assert str(programs) in log_of(alone)
    assert "Traceback" not in log_of(alone)


RUN_OF_TESTS = """
import sys, time
from pathlib import Path
from support.commands import Bireme
bireme = Bireme(Path(sys.argv[1]))
bireme("run", "-d", "--name", "left", "--replicas", "1", "--", "sleep", "1000")
bireme("wait", "left", "--for", "running", "--timeout", "3m")
print("ready", flush=True)
time.sleep(1000)
"""


def test_a_test_run_that_is_killed_leaves_no_daemon_behind(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", RUN_OF_TESTS, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        assert len(processes_with(f"{tmp_path}/")) >= 3
        run.kill()
    asyncio.run(wait_until(lambda: not processes_with(f"{tmp_path}/")))
