"""Keys and configuration by which a launcher logs in to its workers, and nobody else does."""

import base64
from typing import Final

from bireme.planning.actions import Manifest
from bireme.planning.identity import child_metadata
from bireme.planning.observed import BatchJob, Keys
from bireme.planning.scripts import script

_SAMPLE_FOLDER: Final = "/root/.ssh"
_SAMPLE_FILES: Final = "/etc/bireme"
_SAMPLE_UID: Final = "5b6c2f9e-8d0b-4a57-9d6c-2f6f3a1c7e10"
WORKER_KEYS: Final = ("host_key", "authorized_keys")
LAUNCHER_KEYS: Final = ("id_ed25519", "known_hosts")


def secret_name(job: BatchJob) -> str:
    return f"{job.metadata.name}-ssh"


def build_secret(job: BatchJob, keys: Keys) -> Manifest:
    """The job's keys; each pod mounts only those that it needs."""
    data = {
        "id_ed25519": keys.client_private,
        "authorized_keys": f"{keys.client_public.strip()}\n",
        "host_key": keys.host_private,
        "known_hosts": f"{job.metadata.uid} {keys.host_public.strip()}\n",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child_metadata(job, secret_name(job)),
        "type": "Opaque",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()},
    }


def build_sshd_config(folder: str, files: str, port: int) -> str:
    """The server's side: this key only, this command only, nothing forwarded."""
    values = {_SAMPLE_FOLDER: folder, _SAMPLE_FILES: files, "Port 2222": f"Port {port}"}
    return _fill_in("sshd_config.example", values)


def build_ssh_config(uid: str, folder: str, port: int) -> str:
    """The client's side: this host key only, under the name of the job."""
    values = {_SAMPLE_FOLDER: folder, _SAMPLE_UID: uid, "Port 2222": f"Port {port}"}
    return _fill_in("ssh_config.example", values)


def _fill_in(name: str, values: dict[str, str]) -> str:
    """The sample, whose comments give the reason of every line, with a job's own values."""
    lines = [line for line in script(name).splitlines() if line and not line.startswith("#")]
    text = "\n".join(lines) + "\n"
    for sample, value in values.items():
        assert sample in text, f"{name} has no {sample}"
        text = text.replace(sample, value)
    return text
