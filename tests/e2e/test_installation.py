"""Bireme as the chart installs it, in pods of the cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.fixtures import unavailable
from support.installed import NAMESPACE
from support.manifests import mpi_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

BIREME = Path(sys.executable).parent / "bireme"


@pytest.fixture
def installed(stage: Stage, controller: str) -> Stage:
    if controller != "chart":
        raise unavailable("the controller was not installed by the chart")
    return stage


def test_the_webhook_refuses_a_bad_job_with_its_path_and_a_hint(installed: Stage) -> None:
    job = mpi_job("bad", "image", workers=2)
    job["spec"]["worker"]["extraMPIArgs"] = ["--host", "elsewhere"]
    result = installed.try_kubectl("create", "-f", "-", stdin=json.dumps(job))
    assert result.code != 0
    assert "spec.worker.extraMPIArgs[0]" in result.stderr
    assert installed.names("mpijobs.batch.tensorstack.dev") == []


def test_the_doctor_finds_nothing_wrong(installed: Stage) -> None:
    kubeconfig = str(installed.cluster.kubeconfig)
    command = [str(BIREME), "doctor", "--kubeconfig", kubeconfig, "-n", NAMESPACE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
