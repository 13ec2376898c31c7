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


def test_a_job_whose_secret_is_deleted_right_after_the_start_runs_again(stage: Stage) -> None:
    """Pods that were created again waited for their Secret without end."""
    job = mpi_job("keys", stage.image("mpi4"), SUM + WAIT)
    stage.create(job)
    stage.wait_phase(job, "Running")
    before = {pod["metadata"]["uid"] for pod in stage.items("pods")}
    stage.kubectl("delete", "secret", "keys-ssh")
    stage.kubectl("delete", "pod", "keys-worker-0", "--wait=false")

    def started_again() -> bool:
        pods = stage.items("pods")
        return len(pods) == 3 and not {pod["metadata"]["uid"] for pod in pods} & before

    stage.until(started_again, "three new pods")
    stage.wait_phase(job, "Running")
    assert "keys-ssh" in stage.names("secret")


def test_a_volume_that_is_missing_is_pointed_at(stage: Stage) -> None:
    job = generic_job("lacks", stage.image("busybox"), {"worker": "true"})
    spec = job["spec"]["replicaSpecs"][0]["template"]["spec"]
    spec["volumes"] = [{"name": "settings", "configMap": {"name": "not-there"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "settings", "mountPath": "/settings"}]
    stage.create(job)

    def says_why(found: dict[str, Any]) -> bool:
        conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
        return str(conditions.get("Running", {}).get("reason")) == "PodSandboxNotReady"

    stage.wait(("genericjobs.batch.tensorstack.dev", "lacks"), says_why)
    events = [event["message"] for event in stage.items("events") if event["reason"] == "PodSandboxNotReady"]
    assert len(events) == 1
    assert "kubectl describe pod lacks-worker-0" in events[0]


def test_pods_in_debug_mode_end_when_they_are_told_to(stage: Stage) -> None:
    """Not after their grace period, which is longer than this test waits."""
    job = generic_job("look", stage.image("busybox"), {"worker": "true"})
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    job["spec"]["runMode"] = {"debug": {"enabled": True}}
    stage.create(job)
    stage.wait_phase(job, "Running")
    stage.patch(job, {"runMode": {"debug": {"enabled": False}}})
    stage.wait_phase(job, "Succeeded")
