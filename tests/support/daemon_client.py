"""Jobs on a daemon, by its API."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import NotFound
from bireme.kube.resources import PODS, Resource, resource_of
from bireme.kube.transport import HttpTransport

Object = dict[str, Any]
JOB = resource_of(GENERIC_JOB)
NAMESPACE = "default"
PATIENCE_SECONDS = 240.0
_PAUSE_SECONDS = 0.05


def generic_job(name: str, command: list[str], replicas: int = 1, **spec: Any) -> Object:
    """A GenericJob with one container in each pod; `grace` and others are fields of its pods' spec."""
    container = {"name": "main", "image": "none", "command": command}
    template = {"spec": {"containers": [container], **spec}}
    return {
        "apiVersion": GENERIC_JOB.api_version,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [{"type": "worker", "replicas": replicas, "template": template}]},
    }


def python(program: str, *args: str) -> list[str]:
    return [sys.executable, "-c", program, *args]


class Jobs:
    """A client, and what tests want to know."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, job: Object, resource: Resource = JOB) -> None:
        await self.client.create(resource, NAMESPACE, job)

    async def get(self, name: str, resource: Resource = JOB) -> Object:
        job: Object = await self.client.get(resource, NAMESPACE, name)
        return job

    async def delete(self, name: str, resource: Resource = JOB) -> None:
        await self.client.delete(resource, NAMESPACE, name, propagation="Background")

    async def pods(self, prefix: str = "") -> list[Object]:
        listed = await self.client.list(PODS, NAMESPACE, type=dict)
        return [pod for pod in listed.items if pod["metadata"]["name"].startswith(prefix)]

    async def wait(self, name: str, holds: Callable[[Object], bool], resource: Resource = JOB) -> Object:
        """The job, once this holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(job := await self.get(name, resource)):
            assert time.monotonic() < deadline, job.get("status")
            await asyncio.sleep(_PAUSE_SECONDS)
        return job

    async def wait_phase(self, name: str, *phases: str, resource: Resource = JOB) -> Object:
        return await self.wait(name, lambda job: (job.get("status") or {}).get("phase") in phases, resource)

    async def wait_gone(self, name: str, resource: Resource = JOB) -> None:
        """Until the job and its pods are gone."""
        await wait_until(lambda: self._is_gone(name, resource))

    async def _is_gone(self, name: str, resource: Resource) -> bool:
        with contextlib.suppress(NotFound):
            await self.get(name, resource)
            return False
        return not await self.pods(f"{name}-")

    async def output(self, pod: str) -> bytes:
        return b"".join([chunk async for chunk in self.client.log(NAMESPACE, pod)])


async def wait_until(holds: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Ask until it holds; a coroutine function may be asked too."""
    deadline = time.monotonic() + seconds
    while True:
        answer = holds()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(_PAUSE_SECONDS)


@contextlib.asynccontextmanager
async def jobs_of(data: Path) -> AsyncIterator[Jobs]:
    """The jobs of the daemon of a data folder."""
    config = load_config(kubeconfig=str(data / "kubeconfig"), environ={})
    client = Client(HttpTransport(config))
    try:
        yield Jobs(client)
    finally:
        await client.close()


def first_failure(job: Object) -> Object:
    told: Object = job["status"].get("firstFailure") or {}
    return told
