"""A job that is deleted takes everything with it that was made for it."""

import pytest

from support.manifests import WAIT, colossalai_job, generic_job, kubeflow_job, mpi_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

OURS = "pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings"


@pytest.mark.parametrize("kind", ["generic", "mpi", "colossalai", "kubeflow"])
def test_deletion_leaves_nothing_behind(stage: Stage, kind: str) -> None:
    image = stage.image("mpi4")
    job = {
        "generic": lambda: generic_job(
            "gone", image, {"worker": "exec sleep 600"}, service={"ports": [{"name": "x", "port": 1}]}
        ),
        "mpi": lambda: mpi_job("gone", image, WAIT),
        "colossalai": lambda: colossalai_job("gone", image, ["train.py"]),
        "kubeflow": lambda: kubeflow_job("gone", image, WAIT),
    }[kind]()
    before = _names(stage)
    stage.create(job)
    stage.until(lambda: len(stage.names("pods")) >= 1, "a pod")
    made = set(_names(stage)) - set(before)
    assert made
    stage.delete(job)
    stage.until(lambda: _names(stage) == before, "as before")


def _names(stage: Stage) -> list[str]:
    found = stage.kubectl("get", OURS, "-o", "name")
    return sorted(found.split())
