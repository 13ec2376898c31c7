"""Jobs on a cluster succeed only if every rank has done its work, whatever is lost on the way."""

from collections.abc import Callable
from typing import Final

import pytest

from support.faults import (
    STEPS,
    batches,
    cut_off,
    has_begun,
    kill_daemon,
    kill_rank,
    kill_worker,
    play_at_once,
)
from support.fixtures import unavailable
from support.manifests import colossalai_job, kubeflow_job, mpi_job
from support.stage import Object, Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

RANKS: Final = 4
AT_ONCE: Final = 10
"""How many jobs run at the same time."""
BATCHES: Final = batches(AT_ONCE)
TORCHRUN: Final = """#!/bin/sh
# Starts two ranks, waits for them as torchrun does, and fails if one does.
printf torchrun >/proc/self/comm
for rank in 0 1; do
    python3 -c 'import os, time
for step in range(100):
    os.write(1, b"step %d\\n" % step)
    time.sleep(0.1)
os.write(1, b"done 4\\n")' &
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


@pytest.fixture
def tools(stage: Stage) -> None:
    """Give the namespace a stand-in for torchrun; skip where the node's processes are not ours to kill."""
    if stage.cluster.node is None:
        raise unavailable("the node is not ours to break")
    stage.image("controller")  # from which Kubeflow launchers take kubectl
    tools = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tools"}}
    stage.create({**tools, "data": {"torchrun": TORCHRUN}})


def start(stage: Stage, kind: str, number: int) -> Object:
    """Start a job; return when it has done some steps."""
    job = build(stage, kind, f"certain-{number}")
    stage.create(job)
    stage.wait_output(f"{job['metadata']['name']}-launcher", has_begun)
    return job


def output(stage: Stage, job: Object) -> str:
    return stage.try_kubectl("logs", f"{job['metadata']['name']}-launcher").stdout


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("fault", FAILURES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_part_of_its_program_has_failed(
    stage: Stage, kind: str, fault: str, batch: range
) -> None:
    def play(number: int) -> None:
        job = start(stage, kind, number)
        FAILURES[fault](stage, job["metadata"]["name"])
        status = stage.wait_phase(job, "Failed")
        told = f"{status}\n{output(stage, job)}"
        # Ranks that torchrun starts do not wait for one another in this program: all others may end well.
        assert output(stage, job).count("done") < (RANKS if kind == "ColossalAIJob" else 1), told
        if fault == "rank killed" and kind != "ColossalAIJob":
            assert status["firstFailure"]["replica"] == f"{job['metadata']['name']}-worker-1", told

    play_at_once(play, batch)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("fault", DISRUPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_lost_a_pod_starts_again_and_succeeds(
    stage: Stage, kind: str, fault: str, batch: range
) -> None:
    def play(number: int) -> None:
        job = start(stage, kind, number)
        DISRUPTIONS[fault](stage, job["metadata"]["name"])
        status = stage.wait_phase(job, "Succeeded")
        told = f"{status}\n{output(stage, job)}"
        assert status["disruptions"] == 1, told
        assert output(stage, job).count(f"done {RANKS}\n") == RANKS, told

    play_at_once(play, batch)
