"""A victim with a daemon, a job and a Secret; an attacker; a check that an attack had no effect."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fixtures import unavailable
from support.two_users import MARK, Attacker, Outcome, Victim, victim_with_daemon

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "precious"},
    "stringData": {"password": MARK},
}
JOB = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "GenericJob",
    "metadata": {"name": "precious"},
    "spec": {
        "replicaSpecs": [
            {
                "type": "worker",
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "image": "none",
                                "command": ["/bin/sh", "-c", f"echo {MARK}; exec sleep 1000"],
                                "env": [{"name": "PASSWORD", "value": MARK}],
                            }
                        ],
                    }
                },
            }
        ]
    },
}


def _home(prefix: str) -> Path:
    """A folder that everybody can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """Runs one job, which waits, and keeps a Secret."""
    home = _home("bireme-victim-")
    try:
        with victim_with_daemon(home) as made:
            for number, manifest in enumerate((SECRET, JOB)):
                path = home / f"{number}.yaml"
                path.write_text(json.dumps(manifest))
                made("apply", "-f", str(path))
            made("wait", "precious", "--for", "running")
            yield made
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def attacker() -> Iterator[Attacker]:
    if os.getuid() != 0:
        raise unavailable("only root can be somebody else: run the tests as root")
    home = _home("bireme-attacker-")
    made = Attacker(home)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(home)


@pytest.fixture
def unharmed(victim: Victim, attacker: Attacker) -> Iterator[None]:
    """The victim's processes, files and answers are the same after an attack as before it."""
    before = _state(victim)
    yield
    attacker("release")
    assert _state(victim) == before


def _state(victim: Victim) -> dict[str, object]:
    """What must not change. The request goes over TCP, with the token."""
    names = {path.name for path in victim.data.iterdir()}
    return {
        "processes": victim.is_alive(),
        "files": names - {"daemon.log"},
        "token": victim.token,
        "secret": victim.ask("GET", "/api/v1/namespaces/default/secrets/precious"),
    }


def assert_nothing_gained(outcome: Outcome, victim: Victim) -> None:
    """No data of the victim's is in an attack's outcome."""
    told = json.dumps(outcome.value)
    assert MARK not in told
    assert victim.token not in told
