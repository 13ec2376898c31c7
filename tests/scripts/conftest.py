"""Jobs in namespaces; each test gets pods of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.jobs import Job, MakeJob
from scripts.pods import Network, need, need_namespaces


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    need_namespaces()
    network = Network()
    yield network
    network.close()


@pytest.fixture
def make_job(network: Network, tmp_path: Path) -> Iterator[MakeJob]:
    """Make jobs with `workers` workers; /bin/sh in them is `shell`, and `uid` runs them."""
    need("bash", "busybox", "dash", "ssh", "ssh-keygen", "sshd")
    jobs: list[Job] = []
    numbers = itertools.count()

    def make(shell: str = "dash", uid: int = 0, workers: int = 2) -> Job:
        folder = tmp_path / f"job-{next(numbers)}"
        folder.mkdir()
        jobs.append(Job(network, folder, shell, uid, workers))
        return jobs[-1]

    yield make
    for job in jobs:
        job.stop()
