"""MPIJobs of Kubeflow's v1alpha2 API: mpirun reaches the workers by kubectl exec, with rights of its own."""

import pytest

from support.manifests import SUM, kubeflow_job, sums
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

KIND = "mpijobs.kubeflow.org"
DEFAULTS = ["kube-root-ca.crt", "default"]
"""What every namespace has."""


@pytest.mark.parametrize("image", ["mpi4", "mpi5"])
def test_ranks_compute_together_without_sshd(stage: Stage, image: str) -> None:
    stage.image("controller")
    job = kubeflow_job("sum", stage.image(image))
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    found = sums(stage.logs("sum-launcher"))
    assert [(total, size) for total, size, _, _ in found] == [(6, 4)] * 4
    assert {host for _, _, host, _ in found} == {"sum-worker-0", "sum-worker-1"}


def test_a_launcher_may_exec_into_its_own_workers_alone(stage: Stage) -> None:
    stage.image("controller")
    jobs = [
        kubeflow_job(name, stage.image("mpi4"), "time.sleep(600)", workers=1) for name in ("ours", "theirs")
    ]
    for job in jobs:
        stage.create(job)
    for job in jobs:
        stage.wait_phase(job, "Running")
    account = f"system:serviceaccount:{stage.namespace}:ours-launcher"

    def may(*question: str) -> bool:
        return stage.try_kubectl("auth", "can-i", *question, f"--as={account}", "-q").code == 0

    assert may("create", "pod/ours-worker-0", "--subresource=exec")
    assert not may("create", "pod/theirs-worker-0", "--subresource=exec")
    assert not may("create", "pods", "--subresource=exec")
    assert not may("list", "pods")
    assert not may("get", "secrets")


def test_the_failed_rank_ends_the_job_and_the_time_to_live_ends_it_all(stage: Stage) -> None:
    stage.image("controller")
    code = f"{SUM}if world.rank == 1: os._exit(4)\ntime.sleep(600)\n"
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 5}
    job = kubeflow_job("short", stage.image("mpi4"), code, workers=1, runPolicy=policy)
    stage.create(job)
    stage.wait_phase(job, "Failed")
    stage.until(lambda: stage.names(KIND) == [], "the job is gone")
    stage.until(lambda: stage.names("pods,configmaps,roles,serviceaccounts") == DEFAULTS, "all of it is gone")
