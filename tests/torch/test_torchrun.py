"""ColossalAIJobs with the real torchrun, on processes of this machine. `make torch` installs it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.here import PATH, Here, Object
from support.torch import PROGRAM, torch_bin

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Here]:
    here = Here(tmp_path)
    here.start()
    yield here
    here.stop()


def job(here: Here, name: str, *arguments: str) -> Object:
    (here.work / "train.py").write_text(PROGRAM)
    container = {"name": "worker", "image": "none", "workingDir": "/workspace/train"}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "ColossalAIJob",
        "metadata": {"name": name, "annotations": {"bireme.dev/path": f"{torch_bin()}:{PATH}"}},
        "spec": {
            "launcher": {"image": "none", "env": [{"name": "OMP_NUM_THREADS", "value": "1"}]},
            "worker": {
                "replicas": 2,
                "procPerWorker": 2,
                "command": ["train.py", *arguments],
                "template": {"spec": {"containers": [container]}},
            },
            "runPolicy": {"cleanUpWorkers": True},
        },
    }


def test_four_ranks_on_two_workers_compute_together(place: Here) -> None:
    body = job(place, "train")
    status = place.play(body)
    output = place.output("train-launcher", "launcher")
    assert status["phase"] == "Succeeded", output
    lines = sorted(line for line in output.splitlines() if line.startswith("sum"))
    assert lines == [f"sum 6 4 {rank} {rank % 2} train-worker-{rank // 2}" for rank in range(4)]
    place.delete(body)


def test_two_jobs_at_once_are_not_in_each_others_way(place: Here) -> None:
    jobs = [place.create(job(place, name)) for name in ("one", "two")]
    for created in jobs:
        assert place.end_of(created)["phase"] == "Succeeded"
        place.delete(created)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_raises_fails_the_job_soon_and_its_worker_is_named(place: Here, rank: int) -> None:
    body = job(place, "hurt", str(rank))
    status = place.play(body)
    took = time.time() - float((place.work / "raised").read_text())
    assert (status["phase"], status["firstFailure"]["replica"]) == ("Failed", f"hurt-worker-{rank // 2}")
    assert (status["firstFailure"]["rank"], status["firstFailure"]["exitCode"]) == (rank, 1)
    assert f"[rank{rank}]: RuntimeError: the loss is not a number" in status["firstFailure"]["message"]
    # On a machine that has other work, as much longer as that work leaves it less.
    assert took < 15 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert "RuntimeError: the loss is not a number" in place.output("hurt-launcher", "launcher")
    place.delete(body)
