"""A job that has ended before its controller could tell of anything else: a crash can take any time."""

import msgspec
import pytest

from bireme.api.job import JobStatus, PauseMode, RunMode, condition
from bireme.api.kubeflow import MPIJobStatus
from bireme.planning.observed import Job
from bireme.testing.builders import colossalai_job, generic_job, kubeflow_job, mpi_job
from bireme.testing.model import ModelCluster

BATCH = {"generic": generic_job, "mpi": mpi_job, "colossalai": colossalai_job}


def end_unseen(cluster: ModelCluster) -> None:
    """Let the children come, run and end, while no status is written."""
    status = cluster.job.status
    # A launcher of Kubeflow's comes after its workers.
    for _ in range(2):
        cluster.reconcile()
    cluster.job = msgspec.structs.replace(cluster.job, status=status)
    cluster.run()
    for name in cluster.pods:
        if "worker" not in name or len(cluster.pods) == 1:
            cluster.finish(name)
    cluster.settle()


@pytest.mark.parametrize("make", BATCH.values(), ids=list(BATCH))
def test_all_children_are_said_to_have_been_there(make: object) -> None:
    job: Job = make()  # type: ignore[operator]
    cluster = ModelCluster(job)
    end_unseen(cluster)
    status = cluster.job.status
    assert isinstance(status, JobStatus)
    assert status.phase == "Succeeded"
    told = condition(status, "Initialized")
    assert told is not None
    assert (told.status, told.reason) == ("True", "ChildrenCreated")


def test_a_kubeflow_job_is_said_to_have_been_created() -> None:
    cluster = ModelCluster(kubeflow_job())
    end_unseen(cluster)
    status = cluster.job.status
    assert isinstance(status, MPIJobStatus)
    true = {c.type: c.reason for c in status.conditions if c.status == "True"}
    assert true == {"Created": "JobCreated", "Succeeded": "LauncherSucceeded"}


@pytest.mark.parametrize("make", BATCH.values(), ids=list(BATCH))
def test_a_resumed_job_is_no_longer_said_to_be_paused(make: object) -> None:
    job: Job = make()  # type: ignore[operator]
    cluster = ModelCluster(job)
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.edit(run_mode=RunMode(pause=PauseMode(enabled=True)))
    while cluster.pods:
        cluster.settle()
        cluster.remove()
    cluster.settle()
    cluster.edit(run_mode=RunMode(pause=PauseMode(enabled=False)))
    end_unseen(cluster)
    status = cluster.job.status
    assert isinstance(status, JobStatus)
    assert status.phase == "Succeeded"
    told = condition(status, "Paused")
    assert told is not None
    assert (told.status, told.reason) == ("False", "Resumed")
