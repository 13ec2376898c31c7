"""Jobs on a cluster succeed only if every rank has done its work, whatever is lost on the way."""

from collections.abc import Callable
from typing import Final

import pytest

from support.faults import ROUNDS, STEPS, cut_off, kill_daemon, kill_rank, kill_worker
from support.fixtures import unavailable
from support.manifests import colossalai_job, kubeflow_job, mpi_job
from support.stage import Object, Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

RANKS: Final = 4
AT_ONCE: Final = 4
"""How many jobs run at the same time."""
BATCHES: Final = [range(start, min(start + AT_ONCE, ROUNDS)) for start in range(0, ROUNDS, AT_ONCE)]
TORCHRUN: Final = """#!/bin/sh
# Starts two ranks, waits for them as torchrun does, and fails if one does.
printf torchrun >/proc/self/comm
for rank in 0 1; do
    python3 -c 'import time
for step in range(60):
    print("step", step, flush=True)
    time.sleep(0.1)
print("done 4", flush=True)' &
    ranks="$ranks $!"
done
for rank in $ranks; do
    wait "$rank" || { kill $ranks; exit 1; }
done
"""
KINDS: Final = ("MPIJob-4.1", "MPIJob-5.0", "Kubeflow-4.1", "Kubeflow-5.0", "ColossalAIJob")


def in_worker(play: Callable[[str], None]) -> Callable[[Stage, str], None]:
    return lambda stage, name: play(stage.get("pod", f"{name}-worker-1")["metadata"]["uid"])


def delete_worker(stage: Stage, name: str) -> None:
    stage.kubectl("delete", "pod", f"{name}-worker-1", "--wait=false")


def evict_all(stage: Stage, name: str) -> None:
    """Ask for an eviction of every pod, as `kubectl drain` does."""
    for pod in (f"{name}-worker-0", f"{name}-worker-1", f"{name}-launcher"):
        stage.evict(pod)


FAILURES: Final[dict[str, Callable[[Stage, str], None]]] = {
    "daemon killed": in_worker(kill_daemon),
    "rank killed": in_worker(kill_rank),
    "worker killed": in_worker(kill_worker),
    "network cut": in_worker(cut_off),
}
DISRUPTIONS: Final[dict[str, Callable[[Stage, str], None]]] = {
    "worker deleted": delete_worker,
    "node drained": evict_all,
}


def build(stage: Stage, kind: str, name: str) -> Object:
    image = stage.image("mpi5" if kind.endswith("5.0") else "mpi4")
    if kind.startswith("MPIJob"):
        return mpi_job(name, image, STEPS, slots=2, clean_up="unfinished")
    if kind.startswith("Kubeflow"):
        return kubeflow_job(name, image, STEPS)
    job = colossalai_job(name, image, ["train.py"])
    pod = job["spec"]["worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "tools", "configMap": {"name": "tools", "defaultMode": 0o555}}]
    pod["containers"][0] |= {
        "volumeMounts": [{"name": "tools", "mountPath": "/tools"}],
        "env": [{"name": "PATH", "value": "/tools:/usr/local/bin:/usr/bin:/bin"}],
    }
    return job


def start(stage: Stage, kind: str, batch: range) -> list[Object]:
    """Start a batch of jobs; return when each has done some steps."""
    if stage.cluster.node is None:
        raise unavailable("the node is not ours to break")
    stage.image("controller")  # from which Kubeflow launchers take kubectl
    tools = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tools"}}
    stage.create({**tools, "data": {"torchrun": TORCHRUN}})
    jobs = [build(stage, kind, f"certain-{number}") for number in batch]
    for job in jobs:
        stage.create(job)
    stage.until(lambda: all("step 4\n" in output(stage, job) for job in jobs), "all jobs have begun")
    return jobs


def output(stage: Stage, job: Object) -> str:
    return stage.try_kubectl("logs", f"{job['metadata']['name']}-launcher").stdout


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_part_of_its_program_has_failed(
    stage: Stage, kind: str, fault: str, batch: range
) -> None:
    jobs = start(stage, kind, batch)
    for job in jobs:
        FAILURES[fault](stage, job["metadata"]["name"])
    for job in jobs:
        status = stage.wait_phase(job, "Failed")
        # Ranks that torchrun starts do not wait for one another in this program.
        assert output(stage, job).count("done") <= (2 if kind == "ColossalAIJob" else 0)
        if fault == "rank killed" and kind != "ColossalAIJob":
            assert status["firstFailure"]["replica"] == f"{job['metadata']['name']}-worker-1"


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("fault", DISRUPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_pod_starts_again_and_succeeds(
    stage: Stage, kind: str, fault: str, batch: range
) -> None:
    jobs = start(stage, kind, batch)
    for job in jobs:
        DISRUPTIONS[fault](stage, job["metadata"]["name"])
    for job in jobs:
        assert stage.wait_phase(job, "Succeeded")["disruptions"] == 1
        assert output(stage, job).count(f"done {RANKS}\n") == RANKS
