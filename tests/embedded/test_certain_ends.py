"""MPI jobs succeed only if every rank has done its work, whatever is lost on the way."""

from collections.abc import Callable
from typing import Final

import pytest

from bireme.kube.errors import NotFound
from bireme.kube.resources import PODS
from support.faults import STEPS, batches, has_begun, kill_daemon, kill_rank, kill_worker, play_at_once
from support.fixtures import unavailable
from support.here import BIN, Here, Object, eventually
from support.mpi_rounds import PRELUDE, build_job, find

pytestmark = pytest.mark.xdist_group("here")

VERSIONS: Final = ("5.0", "4.1")
RANKS: Final = 4
AT_ONCE: Final = 5
"""How many jobs run at the same time."""
BATCHES: Final = batches(AT_ONCE)


def kill_in_worker(kill: Callable[[str], None]) -> Callable[[Here, str], None]:
    return lambda here, name: kill(here.pod(f"{name}-worker-1")["metadata"]["uid"])


def delete_worker(here: Here, name: str) -> None:
    here.do(here.client.delete(PODS, "default", f"{name}-worker-1"))


def evict_all(here: Here, name: str) -> None:
    """Ask for an eviction of every pod, as `kubectl drain` does."""
    for pod in (f"{name}-worker-0", f"{name}-worker-1", f"{name}-launcher"):
        here.do(here.client.evict("default", pod))


FAILURES: Final[dict[str, Callable[[Here, str], None]]] = {
    "daemon killed": kill_in_worker(kill_daemon),
    "rank killed": kill_in_worker(kill_rank),
    "worker killed": kill_in_worker(kill_worker),
}
DISRUPTIONS: Final[dict[str, Callable[[Here, str], None]]] = {
    "worker deleted": delete_worker,
    "node drained": evict_all,
}


def mpi(name: str, version: str) -> Object:
    job = build_job(name, STEPS, (version, 2, 2))
    # Finished workers stay, so that what they came to can be seen.
    job["spec"]["runPolicy"] = {"cleanUpWorkers": "unfinished"}
    return job


def kubeflow(name: str, version: str) -> Object:
    """The same program as an MPIJob of Kubeflow whose workers are started again."""
    library = find(version)
    assert library is not None
    env = [{"name": "MPI4PY_LIBMPI", "value": library.library}]
    mpirun = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), f"{BIN}/python3", "-c", PRELUDE + STEPS]
    launcher = {"name": "launcher", "image": "none", "command": mpirun, "env": env}
    worker = {"name": "worker", "image": "none", "env": env}
    return {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": name, "annotations": {"bireme.dev/path": library.path}},
        "spec": {
            "slotsPerWorker": 2,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
                "Worker": {
                    "replicas": 2,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": {"containers": [worker]}},
                },
            },
        },
    }


KINDS: Final[dict[str, Callable[[str, str], Object]]] = {"MPIJob": mpi, "Kubeflow": kubeflow}


def start(here: Here, kind: str, version: str, number: int) -> Object:
    """Start a job; return when it has done some steps."""
    if find(version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    job = here.create(KINDS[kind](f"certain-{number}", version))
    eventually(lambda: has_begun(output(here, job)), lambda: output(here, job))
    return job


def output(here: Here, job: Object) -> str:
    container = "launcher" if job["apiVersion"].startswith("kubeflow") else "mpi-launcher"
    try:
        return here.output(f"{job['metadata']['name']}-launcher", container)
    except NotFound:
        return ""  # there is no pod yet


def conditions(status: Object) -> dict[str, Object]:
    return {each["type"]: each for each in status["conditions"] if each["status"] == "True"}


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_part_of_its_program_has_failed(
    here: Here, kind: str, fault: str, version: str, batch: range
) -> None:
    def play(number: int) -> None:
        job = start(here, kind, version, number)
        FAILURES[fault](here, job["metadata"]["name"])
        status, worker = here.end_of(job), f"{job['metadata']['name']}-worker-1"
        told = f"{status}\n{output(here, job)}"
        assert "Failed" in conditions(status), told
        # On a busy machine ranks may end before the processes of a killed worker do.
        assert fault == "worker killed" or "done" not in output(here, job), told
        if fault == "daemon killed" and version == "5.0":
            # DaemonLost if mpirun sees the exit code of its agent before the connection breaks.
            first = status["firstFailure"]
            assert (first["replica"], first["reason"] in ("IncompleteRun", "DaemonLost")) == (worker, True), (
                told
            )
        if fault == "rank killed":
            first = status["firstFailure"]
            assert (first["replica"], first["signal"]) == (worker, 9), told

    play_at_once(play, batch)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", DISRUPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_pod_starts_again_and_succeeds(
    here: Here, kind: str, fault: str, version: str, batch: range
) -> None:
    def play(number: int) -> None:
        job = start(here, kind, version, number)
        DISRUPTIONS[fault](here, job["metadata"]["name"])
        status = here.end_of(job)
        told = f"{status}\n{output(here, job)}"
        assert "Failed" not in conditions(status), told
        assert status["disruptions"] == 1, told
        assert output(here, job).count(f"done {RANKS}\n") == RANKS, told

    play_at_once(play, batch)
