"""Which pods may run commands in which."""

from typing import Any

import pytest

from bireme.node.podman.callers import called_job, calling_job

MPI = ("batch.tensorstack.dev/v1beta1", "MPIJob")
KUBEFLOW = ("kubeflow.org/v1alpha2", "MPIJob")
COLOSSAL = ("batch.tensorstack.dev/v1beta1", "ColossalAIJob")
GENERIC = ("batch.tensorstack.dev/v1beta1", "GenericJob")


def pod(owner: tuple[str, str], role: str, label: str = "u", **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": owner[0], "kind": owner[1], "uid": "u", "controller": True, **more}
    labels = {"bireme.dev/replica-type": role, "bireme.dev/job-uid": label}
    return {"metadata": {"labels": labels, "ownerReferences": [reference]}}


@pytest.mark.parametrize("owner", [MPI, KUBEFLOW, COLOSSAL])
def test_a_launcher_calls_and_a_worker_is_called(owner: tuple[str, str]) -> None:
    assert (calling_job(pod(owner, "launcher")), called_job(pod(owner, "launcher"))) == ("u", "")
    assert (calling_job(pod(owner, "worker")), called_job(pod(owner, "worker"))) == ("", "u")


@pytest.mark.parametrize(
    "other",
    [
        pod(GENERIC, "launcher"),
        pod(GENERIC, "worker"),
        pod(MPI, "launcher", label="v"),
        pod(MPI, "worker", label=""),
        pod(MPI, "launcher", controller=False),
        pod(("batch.tensorstack.dev/v2", "MPIJob"), "launcher"),
        pod(("v1", "Pod"), "worker"),
        {"metadata": {"labels": {"bireme.dev/replica-type": "launcher", "bireme.dev/job-uid": "u"}}},
        {"metadata": {}},
    ],
)
def test_no_other_pod_calls_or_is_called(other: dict[str, Any]) -> None:
    assert calling_job(other) == called_job(other) == ""
