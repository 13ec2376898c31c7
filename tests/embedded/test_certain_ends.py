"""MPI jobs succeed only if every rank has done its work, whatever is lost on the way.

BIREME_ROUNDS sets how often each fault is played (1): `make certain` plays 20.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from bireme.kube.errors import NotFound
from bireme.kube.resources import PODS, Resource
from support.fixtures import unavailable
from support.here import Here, Object, eventually
from support.mpi_rounds import build_job, find

pytestmark = pytest.mark.xdist_group("here")

VERSIONS: Final = ("5.0", "4.1")
ROUNDS: Final = range(int(os.environ.get("BIREME_ROUNDS", "1")))
RANKS: Final = 4
STEPS: Final = """
for step in range(30):
    world.allreduce(step)
    print("step", step, flush=True)
    time.sleep(0.05)
os.write(1, b"done %d\\n" % world.allreduce(1))
"""
DAEMONS: Final = ("prted", "orted")
EVICTIONS: Final = "pods/{}/eviction"


def processes_of(here: Here, pod: str) -> Iterator[tuple[int, str]]:
    """The processes of a pod by their names, its shim left out."""
    marker = f"BIREME_POD_UID={here.pod(pod)['metadata']['uid']}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name), (folder / "comm").read_text().strip()
        except OSError:
            continue


def kill_daemon(here: Here, name: str) -> None:
    for pid, program in processes_of(here, f"{name}-worker-1"):
        if program in DAEMONS:
            os.kill(pid, signal.SIGKILL)


def kill_rank(here: Here, name: str) -> None:
    ranks = [pid for pid, program in processes_of(here, f"{name}-worker-1") if program.startswith("python")]
    os.kill(ranks[-1], signal.SIGKILL)


def kill_worker(here: Here, name: str) -> None:
    for pid, program in processes_of(here, f"{name}-worker-1"):
        if program == "sleep":
            os.kill(pid, signal.SIGKILL)


def delete_worker(here: Here, name: str) -> None:
    here.do(here.client.delete(PODS, "default", f"{name}-worker-1"))


def evict_all(here: Here, name: str) -> None:
    """Ask for an eviction of every pod, as `kubectl drain` does."""
    for pod in (f"{name}-worker-0", f"{name}-worker-1", f"{name}-launcher"):
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "default"},
        }
        here.do(here.client.create(Resource("", "v1", EVICTIONS.format(pod), "Eviction"), "default", body))


FAILURES: Final[dict[str, Callable[[Here, str], None]]] = {
    "daemon killed": kill_daemon,
    "rank killed": kill_rank,
    "worker killed": kill_worker,
}
DISRUPTIONS: Final[dict[str, Callable[[Here, str], None]]] = {
    "worker deleted": delete_worker,
    "node drained": evict_all,
}


def start(here: Here, version: str) -> Object:
    if find(version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    job = build_job("certain", STEPS, (version, 2, 2))
    # Finished workers stay, so that what they came to can be seen.
    job["spec"]["runPolicy"] = {"cleanUpWorkers": "unfinished"}
    here.create(job)
    eventually(lambda: "step 4" in output(here), lambda: output(here))
    return job


def output(here: Here) -> str:
    try:
        return here.output("certain-launcher", "mpi-launcher")
    except NotFound:
        return ""  # there is no pod yet


@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", FAILURES)
def test_a_job_that_lost_a_part_of_its_program_has_failed(
    here: Here, fault: str, version: str, turn: int
) -> None:
    job = start(here, version)
    FAILURES[fault](here, "certain")
    status = here.end_of(job)
    assert status["phase"] == "Failed", (turn, status, output(here))
    assert "done" not in output(here)
    reasons = {each["type"]: each["reason"] for each in status["conditions"]}
    first = status["firstFailure"]
    if fault == "daemon killed" and version == "5.0":
        assert reasons["Failed"] == "IncompleteRun", status
        assert first["replica"] == "certain-worker-1"
    if fault == "rank killed":
        assert (first["replica"], first["signal"]) == ("certain-worker-1", 9), status


@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", DISRUPTIONS)
def test_a_job_that_lost_a_pod_starts_again_and_succeeds(
    here: Here, fault: str, version: str, turn: int
) -> None:
    job = start(here, version)
    DISRUPTIONS[fault](here, "certain")
    status = here.end_of(job)
    assert status["phase"] == "Succeeded", (turn, status)
    assert status["disruptions"] == 1, (turn, status)
    assert output(here).count(f"done {RANKS}") == RANKS
