"""A controller at work against a real API server, with the test in the place of scheduler and kubelet."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bireme.api.kinds import find_kind
from bireme.control.controller import Controller
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import KubeError
from bireme.kube.resources import EVENTS, NAMESPACES, PODS, Resource, resource_of
from bireme.kube.transport import HttpTransport
from support.control_plane import ControlPlane

# The garbage collector looks only every 30 s for kinds that it has not met, and takes no note of them before.
DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.03


class World:
    """A namespace of its own, and what a test does in it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    # ---- jobs

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create a job; any kind of ours."""
        return await self.client.create(self._resource(manifest), self.namespace, manifest)

    async def patch_job(self, manifest: dict[str, Any], spec: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        await self.client.patch(self._resource(manifest), self.namespace, name, {"spec": spec})

    async def delete_job(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        await self.client.delete(self._resource(manifest), self.namespace, name, propagation="Background")

    async def job(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return await self.client.get(self._resource(manifest), self.namespace, manifest["metadata"]["name"])

    def _resource(self, manifest: dict[str, Any]) -> Resource:
        kind = find_kind(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        return resource_of(kind)

    async def wait_phase(self, manifest: dict[str, Any], phase: str) -> dict[str, Any]:
        """Wait for a phase, or for a true condition of that name where a kind has no phases."""

        def reached(job: dict[str, Any]) -> bool:
            status = job.get("status") or {}
            if "phase" in status:
                return bool(status["phase"] == phase)
            return any(c["type"] == phase and c["status"] == "True" for c in status.get("conditions", ()))

        return await self.wait_job(manifest, reached, f"phase {phase}")

    async def wait_job(
        self, manifest: dict[str, Any], condition: Callable[[dict[str, Any]], bool], what: str
    ) -> dict[str, Any]:
        job: dict[str, Any] = {}

        async def look() -> bool:
            nonlocal job
            job = await self.job(manifest)
            return condition(job)

        try:
            await until(look)
        except TimeoutError:
            status = json.dumps(job.get("status"), indent=1)
            raise AssertionError(f"{manifest['metadata']['name']} never had {what}: {status}") from None
        return job

    # ---- pods

    async def pods(self) -> dict[str, dict[str, Any]]:
        listing = await self.client.list(PODS, self.namespace, type=dict)
        return {pod["metadata"]["name"]: pod for pod in listing.items}

    async def wait_pods(self, *names: str) -> dict[str, dict[str, Any]]:
        """Wait until there are exactly these pods, none of them on its way out."""
        found: dict[str, dict[str, Any]] = {}

        async def look() -> bool:
            nonlocal found
            found = await self.pods()
            leaving = [pod for pod in found.values() if "deletionTimestamp" in pod["metadata"]]
            return set(found) == set(names) and not leaving

        try:
            await until(look)
        except TimeoutError:
            raise AssertionError(f"pods are {sorted(found)}, not {sorted(names)}") from None
        return found

    async def run(self, *names: str) -> None:
        """Let pods run; all of them, when none is named."""
        for name in names or list(await self.pods()):
            pod = await self.client.get(PODS, self.namespace, name)
            statuses = [
                {**_container(c["name"]), "ready": True, "state": {"running": {"startedAt": _now()}}}
                for c in pod["spec"]["containers"]
            ]
            await self._status(name, {"phase": "Running", "containerStatuses": statuses})

    async def finish(self, name: str, exit_code: int = 0, message: str = "") -> None:
        """End the containers of a pod."""
        pod = await self.client.get(PODS, self.namespace, name)
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "finishedAt": _now()}
        statuses = [
            {**_container(c["name"]), "ready": False, "state": {"terminated": {**ended, "message": message}}}
            for c in pod["spec"]["containers"]
        ]
        phase = "Failed" if exit_code else "Succeeded"
        await self._status(name, {"phase": phase, "containerStatuses": statuses})

    async def finish_main(self, name: str, container: str) -> None:
        """End one container of a pod, the others going on."""
        pod = await self.client.get(PODS, self.namespace, name)
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": _now()}
        statuses = [
            {**status, "ready": False, "state": {"terminated": ended}}
            if status["name"] == container
            else status
            for status in pod["status"]["containerStatuses"]
        ]
        await self._status(name, {"containerStatuses": statuses})

    async def evict(self, name: str) -> None:
        await self.fail(name, "Evicted", "low on memory")

    async def fail(self, name: str, reason: str, message: str = "") -> None:
        """Have a pod fail for a reason of its node's."""
        await self._status(name, {"phase": "Failed", "reason": reason, "message": message})

    async def _status(self, name: str, status: dict[str, Any]) -> None:
        await self.client.patch(PODS, self.namespace, name, {"status": status}, subresource="status")

    # ---- the rest

    async def events(self) -> list[dict[str, Any]]:
        return (await self.client.list(EVENTS, self.namespace, type=dict)).items

    async def wait_event(self, reason: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        async def look() -> bool:
            nonlocal found
            found = [event for event in await self.events() if event["reason"] == reason]
            return bool(found)

        await until(look)
        return found[0]

    async def wait_gone(self, resource: Resource) -> None:
        """Wait until no object of that kind with our label is left."""

        async def look() -> bool:
            selector = "app.kubernetes.io/managed-by=bireme"
            return not (
                await self.client.list(resource, self.namespace, label_selector=selector, type=dict)
            ).items

        await until(look)


async def until(condition: Callable[[], Any], *, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until an asynchronous condition holds; TimeoutError after the deadline."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(POLL_SECONDS)


def _container(name: str) -> dict[str, Any]:
    return {"name": name, "image": "registry.example/x:1", "imageID": "", "restartCount": 0}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def connect(plane: ControlPlane, kubeconfig: str | None = None) -> AsyncIterator[Client]:
    """A client of the control plane, as its administrator unless told otherwise."""
    config = load_config(kubeconfig=kubeconfig or str(plane.kubeconfig), environ=os.environ)
    transport = HttpTransport(config)
    try:
        yield Client(transport)
    finally:
        await transport.close()


@asynccontextmanager
async def new_world(plane: ControlPlane, namespace: str) -> AsyncIterator[World]:
    """A fresh namespace; it is deleted in the background afterwards."""
    async with connect(plane) as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, None, body)
        try:
            yield World(client, namespace)
        finally:
            with contextlib.suppress(KubeError):
                await client.delete(NAMESPACES, None, namespace)


@asynccontextmanager
async def controller_at_work(client: Client, namespace: str, **options: Any) -> AsyncIterator[Controller]:
    """A controller of one namespace, in this process."""
    controller = Controller(client, namespace=namespace, **options)
    task = asyncio.create_task(controller.run())
    try:
        yield controller
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
