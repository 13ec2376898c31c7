"""Pods that a cluster stops: every process of the program has its pod's grace period to save its state."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from bireme.api.kinds import QUEUE
from bireme.api.quantity import parse_quantity
from support.fixtures import unavailable
from support.manifests import generic_job
from support.saving import KINDS, MPI_KINDS, TORCHRUN, Place, build, files
from support.stage import Object, Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

FOLDER: Final = "/saving"
SMALL: Final = {"requests": {"cpu": "10m", "memory": "16Mi"}}


@pytest.fixture
def folder(stage: Stage) -> Path:
    """A folder of the node that every pod of these tests has, with a stand-in for torchrun in it."""
    if stage.cluster.node is None:
        raise unavailable("needs a folder of the node")
    folder = stage.cluster.node.folder / stage.namespace
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "torchrun").write_text(TORCHRUN)
    (folder / "torchrun").chmod(0o755)
    return folder


def start_all(stage: Stage, folder: Path, queue: str = "") -> list[Object]:
    """Start jobs of every kind, MPIJobs with both versions of Open MPI; return when all ranks are ready."""
    pod = {"volumes": [{"name": "saving", "hostPath": {"path": str(folder)}}]}
    path = f"{FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    container = {
        "volumeMounts": [{"name": "saving", "mountPath": FOLDER}],
        "workingDir": FOLDER,
        "resources": SMALL,
        "env": [{"name": "PATH", "value": path}],
    }
    stage.image("controller")  # from which Kubeflow launchers take kubectl
    place = Place(stage.image("mpi5"), "python3", container, pod)
    jobs = [build(kind, kind, place, queue=queue) for kind in KINDS]
    old = place._replace(image=stage.image("mpi4"))
    jobs += [build(kind, f"{kind}-4", old, queue=queue) for kind in MPI_KINDS]
    for job in jobs:
        stage.create(job)
    wait_for(stage, folder, jobs, "ready")
    return jobs


def wait_for(stage: Stage, folder: Path, jobs: list[Object], word: str) -> None:
    wanted = files(jobs, word)
    stage.until(lambda: wanted <= {path.name for path in folder.iterdir()}, f"{wanted}")


def queue(name: str, **spec: Any) -> Object:
    everybody: Object = {"namespaceSelector": {}}
    return {
        "apiVersion": QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": everybody | spec,
    }


def all_cpu_but_that_of_others(stage: Stage) -> str:
    """The CPU of the node that pods of other namespaces do not request."""
    nodes, pods = stage.items("nodes"), json.loads(stage.kubectl("get", "pods", "-A", "-o", "json"))["items"]
    others = [pod for pod in pods if pod["metadata"]["namespace"] != stage.namespace]
    requests = [
        (container.get("resources") or {}).get("requests", {}).get("cpu", "0")
        for pod in others
        if pod["status"]["phase"] in ("Pending", "Running")
        for container in pod["spec"]["containers"]
    ]
    nanos = parse_quantity(nodes[0]["status"]["allocatable"]["cpu"]).nanos
    return f"{(nanos - sum(parse_quantity(each).nanos for each in requests)) // 1_000_000}m"


def test_a_pause_lets_every_rank_save(stage: Stage, folder: Path) -> None:
    jobs = [job for job in start_all(stage, folder) if not job["apiVersion"].startswith("kubeflow")]
    for job in jobs:
        stage.patch(job, {"runMode": {"pause": {"enabled": True}}})
    wait_for(stage, folder, jobs, "saved")
    for job in jobs:
        assert "firstFailure" not in stage.wait_phase(job, "Paused")


def test_a_deletion_lets_every_rank_save(stage: Stage, folder: Path) -> None:
    jobs = start_all(stage, folder)
    for job in jobs:
        stage.delete(job)
    wait_for(stage, folder, jobs, "saved")
    stage.until(lambda: stage.names("pods") == [], "no pod")


def test_a_drain_lets_every_rank_save(stage: Stage, folder: Path) -> None:
    """Pods are evicted, as `kubectl drain` does; jobs start again and are not charged."""
    jobs = start_all(stage, folder)
    for pod in stage.names("pods"):
        stage.evict(pod)
    wait_for(stage, folder, jobs, "saved")


def test_queues_let_every_rank_save(stage: Stage, folder: Path, controller: str) -> None:
    """Preemption by a queue of higher priority, then the maximum duration of a queue."""
    if controller != "chart":
        raise unavailable("needs the chart's scheduler and webhooks")
    stage.create(queue("saving-low", priority=1))
    stage.create(queue("saving-high", priority=2))
    stage.create(queue("saving-brief", maxDuration="40s"))
    try:
        jobs = start_all(stage, folder, "saving-low")
        scheduler = {"t9kScheduler": {"queue": "saving-high"}}
        winner = generic_job("winner", stage.image("busybox"), {"worker": "sleep 1"}, scheduler=scheduler)
        main = winner["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        main["resources"] = {"requests": {"cpu": all_cpu_but_that_of_others(stage)}}
        stage.create(winner)
        wait_for(stage, folder, jobs, "saved")
        for job in [*jobs, winner]:
            stage.delete(job)
        for path in folder.glob("*-*"):
            path.unlink()
        jobs = start_all(stage, folder, "saving-brief")
        wait_for(stage, folder, jobs, "saved")
        for job in jobs:
            stage.wait_phase(job, "Failed")
    finally:
        stage.kubectl("delete", "queue", "saving-low", "saving-high", "saving-brief", "--ignore-not-found")
