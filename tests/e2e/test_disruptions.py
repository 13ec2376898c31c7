"""What happens to running jobs when something below them breaks."""

from typing import Any

import pytest

from support.fixtures import unavailable
from support.manifests import SUM, WAIT, generic_job, mpi_job, sums
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]


def test_a_job_whose_worker_is_deleted_starts_again_whole(stage: Stage) -> None:
    job = mpi_job("lost", stage.image("mpi4"), SUM + WAIT)
    stage.create(job)
    stage.wait_phase(job, "Running")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.items("pods")}
    stage.kubectl("delete", "pod", "lost-worker-1", "--wait=false")

    def started_again() -> bool:
        pods = stage.items("pods")
        return len(pods) == 3 and not {pod["metadata"]["uid"] for pod in pods} & set(before.values())

    stage.until(started_again, "three new pods")
    status = stage.wait_phase(job, "Running")
    assert status["disruptions"] == 1
    assert [task["restartCount"] for task in status["tasks"]] == [0, 0]
    assert "firstFailure" not in status


def test_a_replica_whose_pod_is_deleted_is_replaced(stage: Stage) -> None:
    job = generic_job("lost", stage.image("busybox"), {"worker": "exec sleep 600", "other": "exec sleep 600"})
    stage.create(job)
    stage.wait_phase(job, "Running")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.items("pods")}
    stage.kubectl("delete", "pod", "lost-worker-0")
    stage.until(lambda: len(stage.names("pods")) == 2, "two pods")
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stage.items("pods")}
    assert after["lost-other-0"] == before["lost-other-0"]
    assert after["lost-worker-0"] != before["lost-worker-0"]


def test_a_running_job_does_not_notice_a_restart_of_the_kubelet(stage: Stage) -> None:
    if stage.cluster.node is None:
        raise unavailable("the node is not ours to break")
    code = f"{SUM}time.sleep(20)\n{SUM}"
    job = mpi_job("calm", stage.image("mpi4"), code)
    stage.create(job)
    stage.wait_phase(job, "Running")
    stage.cluster.node.restart("kubelet")
    status = stage.wait_phase(job, "Succeeded")
    assert "disruptions" not in status
    assert len(sums(stage.logs("calm-launcher"))) == 4


def test_an_image_that_can_not_be_pulled_is_named(stage: Stage) -> None:
    job = mpi_job("pull", "registry.example/not-there:1", workers=1)
    stage.create(job)

    def says_why(found: dict[str, Any]) -> bool:
        conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
        return "registry.example/not-there:1" in str(conditions.get("Running", {}).get("message"))

    status = stage.wait(("mpijobs.batch.tensorstack.dev", "pull"), says_why)["status"]
    assert status["phase"] == "Pending"
    replicas = [replica for task in status["tasks"] for replica in task["replicas"]]
    reasons = {container["reason"] for replica in replicas for container in replica["containers"]}
    assert reasons & {"ErrImagePull", "ImagePullBackOff"}
