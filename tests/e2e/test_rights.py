"""What the installed controller may do: enough, and nothing that it was not given."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from support.fixtures import unavailable
from support.installed import NAMESPACE
from support.manifests import colossalai_job, generic_job, kubeflow_job, mpi_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:bireme-controller"


def requests(stage: Stage) -> Iterator[dict[str, Any]]:
    """What the controller has asked for so far, by the API server's own account."""
    assert stage.cluster.node is not None
    with stage.cluster.node.audit_log.open() as lines:
        for line in lines:
            event = json.loads(line) if line.endswith("\n") else {}
            if event.get("user", {}).get("username") == ACCOUNT:
                yield event


def test_a_job_of_each_kind_needs_nothing_that_the_controller_may_not_do(
    stage: Stage, controller: str
) -> None:
    if controller != "chart" or stage.cluster.node is None:
        raise unavailable("needs the chart's rights, and the API server's audit log")
    image = stage.image("mpi4")
    jobs = [
        generic_job(
            "one", image, {"worker": "exec sleep 600"}, service={"ports": [{"name": "x", "port": 1}]}
        ),
        mpi_job("two", image, "time.sleep(600)"),
        colossalai_job("three", image, ["train.py"]),
        kubeflow_job("four", image, "time.sleep(600)"),
    ]
    for job in jobs:
        stage.create(job)
    for job in (jobs[0], jobs[1], jobs[3]):
        stage.wait_phase(job, "Running")
    for job in jobs:
        stage.delete(job)
    seen = list(requests(stage))
    assert {"create", "patch", "watch"} <= {event["verb"] for event in seen}
    # By this word, not by the code: 403 is also what a namespace answers that is being deleted.
    allowed = "authorization.k8s.io/decision"
    refused = [event["requestURI"] for event in seen if event["annotations"][allowed] != "allow"]
    assert refused == []
