"""Bireme as the chart installs it, in pods of the cluster."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import ApiError
from bireme.kube.resources import resource_of
from bireme.kube.transport import HttpTransport
from support.fixtures import unavailable
from support.installed import NAMESPACE
from support.manifests import generic_job, mpi_job
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


def test_a_roll_out_refuses_no_webhook_call(installed: Stage) -> None:
    """Queued jobs are refused where their webhook can't be called, so each failed call is seen."""
    kubectl = installed.cluster.kubectl
    pods = ["-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=webhooks", "-o", "name"]

    def roll_out() -> None:
        old = kubectl.run(pods).stdout.split()
        for arguments in (
            ["rollout", "restart", "deployment/bireme-webhooks"],
            ["rollout", "status", "deployment/bireme-webhooks", "--timeout=600s"],
            ["wait", "--for=delete", *old, "--timeout=120s"],
        ):
            done = kubectl.run(["-n", NAMESPACE, *arguments], seconds=900)
            assert done.code == 0, done.stderr

    async def main() -> tuple[int, list[str]]:
        transport = HttpTransport(load_config(kubeconfig=str(installed.cluster.kubeconfig), environ={}))
        work = asyncio.create_task(asyncio.to_thread(roll_out))
        calls, unasked = 0, []
        try:
            while not work.done():
                calls += 1
                if (answer := await ask(Client(transport), installed.namespace)) is not None:
                    unasked.append(answer)
            await work
        finally:
            await transport.close()
        return calls, unasked

    calls, unasked = asyncio.run(main())
    print(f"{calls} calls")
    assert not unasked
    assert calls > 20


async def ask(client: Client, namespace: str) -> str | None:
    """Offer a job that names a queue, without effect; return the API server's words if it is refused.

    An administrator may use every queue, even one that does not exist: only a call that fails is a refusal.
    """
    job = generic_job("asked", "image", {"worker": "true"})
    job["spec"]["scheduler"] = {"t9kScheduler": {"queue": "not-there"}}
    try:
        await client.create(resource_of(GENERIC_JOB), namespace, job, dry_run=True)
    except ApiError as error:
        return error.message
    return None
