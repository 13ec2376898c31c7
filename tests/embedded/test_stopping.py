"""Whenever pods are stopped on purpose, every process of the program has its pod's grace period to save."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from bireme.node.machine import look
from support.fixtures import unavailable
from support.here import BIN, PATH, Here, Object, eventually, generic, replica, resource
from support.mpi_rounds import find
from support.saving import KINDS, MPI_KINDS, TORCHRUN, Place, build, files

CPUS: Final = 20
REQUEST: Final = {"resources": {"requests": {"cpu": "1"}}}
HERE: Final = Place("none", f"{BIN}/python3", REQUEST, {})


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Here]:
    """An embedded mode whose capacity the tests know, with a stand-in for torchrun."""
    here = Here(tmp_path, msgspec.structs.replace(look(), cpu=str(CPUS), memory="40Gi"))
    here.start()
    (here.work / "torchrun").write_text(TORCHRUN)
    (here.work / "torchrun").chmod(0o755)
    yield here
    here.clear()
    here.stop()


def start_all(here: Here, queue: str = "") -> list[Object]:
    """Start jobs of every kind, MPIJobs with both versions of Open MPI; return when all ranks are ready."""
    old = find("4.1")
    if old is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    jobs = [build(kind, kind, HERE, queue=queue) for kind in KINDS]
    env = [{"name": "MPI4PY_LIBMPI", "value": old.library}]
    with_old = HERE._replace(container=REQUEST | {"env": env})
    for kind in MPI_KINDS:
        jobs.append(build(kind, f"{kind}-4", with_old, queue=queue))
        jobs[-1]["metadata"]["annotations"] = {"bireme.dev/path": old.path}
    for job in jobs:
        if job["kind"] == "ColossalAIJob":
            job["metadata"]["annotations"] = {"bireme.dev/path": f"{here.work}:{PATH}"}
        here.create(job)
    wait_for(here, jobs, "ready")
    return jobs


def wait_for(here: Here, jobs: list[Object], word: str) -> None:
    wanted = files(jobs, word)

    def missing() -> list[str]:
        return sorted(wanted - {path.name for path in here.work.iterdir()})

    eventually(lambda: not missing(), missing)


def queue(here: Here, name: str, **spec: Any) -> None:
    body: Object = {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, **spec},
    }
    here.do(here.client.create(resource(body), None, body))


def phase(job: Object) -> str:
    status = job.get("status") or {}
    true = [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]
    return str(status.get("phase") or (true[-1] if true else ""))


def test_a_pause_lets_every_rank_save(machine: Here) -> None:
    jobs = [job for job in start_all(machine) if not job["apiVersion"].startswith("kubeflow")]
    for job in jobs:
        machine.change(job, {"runMode": {"pause": {"enabled": True}}})
    wait_for(machine, jobs, "saved")
    for job in jobs:
        found = machine.until(job, lambda job: bool(reason(job, "Paused") == "Stopped"))
        assert found["status"]["phase"] == "Paused"
        assert "firstFailure" not in found["status"]


def reason(job: Object, type_: str) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((str(each["reason"]) for each in conditions if each["type"] == type_), "")


def test_a_deletion_lets_every_rank_save(machine: Here) -> None:
    jobs = start_all(machine)
    for job in jobs:
        name = job["metadata"]["name"]
        machine.do(machine.client.delete(resource(job), "default", name, propagation="Background"))
    wait_for(machine, jobs, "saved")
    eventually(lambda: machine.pods() == [], machine.pods)


def test_a_preemption_lets_every_rank_save(machine: Here) -> None:
    queue(machine, "low", priority=1)
    queue(machine, "high", priority=2)
    jobs = start_all(machine, "low")
    winner = replica("worker", "sleep 1")
    winner["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(CPUS)}}
    machine.create(generic("winner", winner, scheduler={"t9kScheduler": {"queue": "high"}}))
    wait_for(machine, jobs, "saved")
    for job in jobs:
        assert phase(machine.until(job, lambda job: bool(job.get("status")))) not in ("Succeeded", "Failed")


def test_a_maximum_duration_lets_every_rank_save(machine: Here) -> None:
    queue(machine, "brief", maxDuration="20s")
    jobs = start_all(machine, "brief")
    wait_for(machine, jobs, "saved")
    for job in jobs:
        status = machine.end_of(job)
        assert phase({"status": status}) == "Failed", status


@pytest.mark.parametrize("policy", ["None", "All"])
def test_a_deadline_lets_every_rank_save(machine: Here, policy: str) -> None:
    job = build("kubeflow", "late", HERE)
    job["spec"]["cleanPodPolicy"] = policy
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    job["spec"]["activeDeadlineSeconds"] = 10
    machine.create(job)
    wait_for(machine, [job], "saved")
    status = machine.end_of(job)
    assert reason({"status": status}, "Failed") == "DeadlineExceeded"


NOTICE: Final = """
import signal
def notice(*_):
    open(f"noticed-{name}-{rank}", "x").close()
signal.signal(signal.SIGUSR1, notice)
"""


def with_stop_signal(job: Object, value: str) -> Object:
    job["metadata"].setdefault("annotations", {})["bireme.dev/stop-signal"] = value
    return job


def test_a_stop_signal_reaches_every_rank_before_the_maximum_duration(machine: Here) -> None:
    queue(machine, "brief", maxDuration="25s")
    jobs = [
        with_stop_signal(build(kind, kind, HERE, queue="brief", prelude=NOTICE), "USR1@15s")
        for kind in ("mpi", "colossalai", "kubeflow")
    ]
    jobs[1]["metadata"]["annotations"]["bireme.dev/path"] = f"{machine.work}:{PATH}"
    for job in jobs:
        machine.create(job)
    wait_for(machine, jobs, "noticed")
    assert not files(jobs, "saved") & {path.name for path in machine.work.iterdir()}
    wait_for(machine, jobs, "saved")


def test_a_stop_signal_reaches_every_rank_before_a_deadline(machine: Here) -> None:
    job = with_stop_signal(build("kubeflow", "late", HERE, prelude=NOTICE), "USR1@10s")
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    job["spec"]["activeDeadlineSeconds"] = 15
    machine.create(job)
    wait_for(machine, [job], "noticed")
    assert not files([job], "saved") & {path.name for path in machine.work.iterdir()}
    wait_for(machine, [job], "saved")
