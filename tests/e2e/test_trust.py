"""Who may log in to a job's workers: its launcher, and nobody else."""

import base64
import json
from typing import Final

import pytest

from bireme.control.keys import generate_keys
from support.manifests import WAIT, mpi_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

SSH: Final = ("ssh", "-F", "/bireme-ssh/config")
TRUSTING: Final = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
STRANGER: Final = ("ssh", "-F", "none", "-l", "bireme", "-p", "2222", "-o", "BatchMode=yes", *TRUSTING)


def test_one_jobs_key_opens_no_other_jobs_workers(stage: Stage) -> None:
    jobs = [mpi_job(name, stage.image("mpi4"), WAIT, workers=1) for name in ("ours", "theirs")]
    for job in jobs:
        stage.create(job)
    for job in jobs:
        stage.wait_phase(job, "Running")
    theirs = f"theirs-worker-0.theirs-workers.{stage.namespace}.svc.cluster.local"
    stage.execute("ours-launcher", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/key")

    def log_in(*command: str) -> tuple[bool, str]:
        result = stage.try_kubectl("exec", "ours-launcher", "-c", "mpi-launcher", "--", *command, "hostname")
        return result.code == 0, result.stdout + result.stderr

    assert log_in(*SSH, "ours-worker-0") == (True, "ours-worker-0\n")
    for command, refusal in (
        ((*SSH, theirs), "Host key verification failed"),
        ((*SSH, *TRUSTING, theirs), "Permission denied (publickey)"),
        ((*STRANGER, "-i", "/tmp/key", "ours-worker-0"), "Permission denied (publickey)"),
    ):
        entered, said = log_in(*command)
        assert not entered
        assert refusal in said


@pytest.mark.parametrize(
    ("key", "reason"),
    [("known_hosts", "host key not the expected one"), ("id_ed25519", "key refused")],
    ids=["impostor", "wrong-key"],
)
def test_a_job_whose_keys_do_not_fit_fails_and_says_so(stage: Stage, key: str, reason: str) -> None:
    """Seen from the launcher, a worker with another host key than was promised is an impostor."""
    patience = {"env": [{"name": "BIREME_REFUSED_SECONDS", "value": "3"}]}
    job = mpi_job("keys", stage.image("mpi4"), WAIT, workers=1, container=patience)
    stage.create(job)
    stage.wait_phase(job, "Running")
    stage.patch(job, {"runMode": {"pause": {"enabled": True}}})
    stage.wait_phase(job, "Paused")
    other = generate_keys()
    uid = stage.get("mpijobs.batch.tensorstack.dev", "keys")["metadata"]["uid"]
    text = {"known_hosts": f"{uid} {other.host_public}\n", "id_ed25519": other.client_private}[key]
    data = json.dumps({"data": {key: base64.b64encode(text.encode()).decode()}})
    stage.kubectl("patch", "secret", "keys-ssh", "-p", data)
    stage.patch(job, {"runMode": {"pause": {"enabled": False}}})
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert cause["message"].endswith(f"worker keys-worker-0 can't be reached: {reason}")
    assert (cause["replica"], cause["exitCode"]) == ("keys-launcher", 120)
