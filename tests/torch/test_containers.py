"""ColossalAIJobs with the real torchrun in real containers, which see this machine's PyTorch as a volume."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.manifests import Manifest, colossalai_job
from support.stage import Stage
from support.stage import stage as new_stage
from support.torch import PROGRAM, torch_bin

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("e2e")]


@pytest.fixture
def stage(cluster: Cluster, controller: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    with new_stage(cluster, f"torch-{request.node.name.split('_')[1]}") as new:
        yield new


def build(stage: Stage, name: str, *arguments: str) -> Manifest:
    """Two workers of two processes; what a virtual environment links to is mounted where it is."""
    tools = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}}
    stage.create({**tools, "data": {"train.py": PROGRAM}})
    job = colossalai_job(name, stage.image("mpi4"), ["/program/train.py", *arguments])
    job["spec"]["launcher"]["env"] = [{"name": "OMP_NUM_THREADS", "value": "1"}]
    environment = torch_bin().parent
    python = (environment / "bin/python").resolve().parents[1]
    folders = {"torch": environment, "python": python}
    pod = job["spec"]["worker"]["template"]["spec"]
    pod["volumes"] = [
        {"name": "program", "configMap": {"name": "program"}},
        *({"name": key, "hostPath": {"path": str(path)}} for key, path in folders.items()),
    ]
    pod["containers"][0] |= {
        "workingDir": "/tmp",
        "env": [{"name": "PATH", "value": f"{environment}/bin:/usr/bin:/bin"}],
        "volumeMounts": [
            {"name": "program", "mountPath": "/program"},
            *(
                {"name": key, "mountPath": str(path), "readOnly": True}
                for key, path in folders.items()
                if path != Path("/usr")
            ),
        ],
    }
    return job


def test_four_ranks_in_two_pods_compute_together(stage: Stage) -> None:
    job = build(stage, "train")
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    lines = sorted(line for line in stage.logs("train-launcher").splitlines() if line.startswith("sum"))
    assert lines == [f"sum 6 4 {rank} {rank % 2} train-worker-{rank // 2}" for rank in range(4)]


def test_rank_that_raises_fails_the_job_and_its_worker_is_named(stage: Stage) -> None:
    job = build(stage, "hurt", "3")
    stage.create(job)
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert (cause["replica"], cause["exitCode"]) == ("hurt-worker-1", 1)
    assert "RuntimeError: the loss is not a number" in stage.logs("hurt-launcher")
