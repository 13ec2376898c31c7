"""Queued jobs on a real API server: nodes that pretend, the controller, and the scheduler in this process."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from bireme.api.kinds import GENERIC_JOB, POD_GROUP, QUEUE
from bireme.control.scheduler import Scheduler
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import NotFound
from bireme.kube.protocol import Response
from bireme.kube.resources import PODS, resource_of
from bireme.kube.transport import HttpTransport
from support.cluster_world import World, controller_at_work, new_world, until
from support.control_plane import ControlPlane
from support.kubelets import NODE_LABEL, Kubelets, kubelets, node

PATIENCE_SECONDS = 120.0


def queued(name: str, queue: str, count: int, cpu: str = "1", **fields: Any) -> dict[str, Any]:
    """A GenericJob whose pods start together."""
    requests = {"requests": {"cpu": cpu}}
    main = {"name": "main", "image": "registry.example/x:1", "command": ["x"], "resources": requests}
    replica = {
        "type": "worker",
        "replicas": count,
        "restartPolicy": {"policy": "Never"},
        "template": {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}},
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"scheduler": {"t9kScheduler": {"queue": queue, **fields}}, "replicaSpecs": [replica]},
    }


class QueuedWorld(World):
    """A world with nodes and queues of its own, which are named after its namespace."""

    kubelets: Kubelets

    def queue_name(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def add_queue(self, name: str, **spec: Any) -> str:
        """Make a queue of the world's nodes; return its full name."""
        full = self.queue_name(name)
        selector = {"matchLabels": {NODE_LABEL: self.namespace}}
        body = {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.kind,
            "metadata": {"name": full},
            "spec": {"namespaceSelector": {}, "nodeSelector": selector, **spec},
        }
        await self.client.create(resource_of(QUEUE), None, body)
        return full

    async def queue(self, full: str) -> dict[str, Any]:
        return await self.client.get(resource_of(QUEUE), None, full)

    async def group(self, name: str) -> dict[str, Any]:
        """The PodGroup of a job; empty while there is none."""
        try:
            return await self.client.get(resource_of(POD_GROUP), self.namespace, name)
        except NotFound:
            return {}

    async def bound(self, job: str) -> list[str]:
        """The pods of a job that are on nodes and stay."""
        return [
            name
            for name, pod in (await self.pods()).items()
            if name.startswith(f"{job}-worker-")
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") in ("Pending", "Running")
        ]

    async def wait_bound(self, job: str, count: int) -> None:
        async def whole() -> bool:
            return len(await self.bound(job)) == count

        await self.wait(whole, f"{job} has {count} bound pods")

    async def wait_reason(self, job: str, reason: str) -> dict[str, Any]:
        """Wait until a group waits for this reason; return all that is told."""
        told: dict[str, Any] = {}

        async def look() -> bool:
            nonlocal told
            told = ((await self.group(job)).get("status") or {}).get("waiting") or {}
            return told.get("reason") == reason

        await self.wait(look, f"{job} waits for {reason}")
        return told

    async def wait_told(self, pod: str, words: str) -> None:
        """Wait until a pod's PodScheduled condition says these words."""

        async def told() -> bool:
            found = (await self.pods()).get(pod, {}).get("status", {}).get("conditions", ())
            return any(each["type"] == "PodScheduled" and words in each.get("message", "") for each in found)

        await self.wait(told, f"{pod} says {words!r}")

    async def wait(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            await until(condition, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            groups = (await self.client.list(resource_of(POD_GROUP), self.namespace, type=dict)).items
            told = {each["metadata"]["name"]: each.get("status") for each in groups}
            nodes = {name: pod["spec"].get("nodeName") for name, pod in (await self.pods()).items()}
            raise AssertionError(f"it never came to this: {what}; {nodes}; {told}") from None

    async def finish_all(self, job: str) -> None:
        for name in await self.bound(job):
            await self.finish(name)


@contextlib.asynccontextmanager
async def queued_world(plane: ControlPlane, namespace: str, *cpus: str) -> AsyncIterator[QueuedWorld]:
    """A namespace, and a node for each of `cpus`; the controller works."""
    nodes = [node(f"{namespace}-{number}", namespace, cpu=cpu) for number, cpu in enumerate(cpus)]
    async with new_world(plane, namespace) as plain, kubelets(plain.client, *nodes) as pretended:
        world = QueuedWorld(plain.client, namespace)
        world.kubelets = pretended
        async with controller_at_work(world.client, namespace):
            yield world
            await _clear(world)


async def _clear(world: QueuedWorld) -> None:
    """Delete the pods while kubelets are there to let them go, and the queues."""
    for manifest in (await world.client.list(resource_of(GENERIC_JOB), world.namespace, type=dict)).items:
        await world.client.delete(resource_of(GENERIC_JOB), world.namespace, manifest["metadata"]["name"])

    async def empty() -> bool:
        for name in await world.pods():
            await world.client.delete(PODS, world.namespace, name, grace_seconds=0)
        return not await world.pods()

    await world.wait(empty, "no pod is left")
    for each in (await world.client.list(resource_of(QUEUE), type=dict)).items:
        if each["metadata"]["name"].startswith(f"{world.namespace}-"):
            await world.client.delete(resource_of(QUEUE), None, each["metadata"]["name"])


class MortalTransport(HttpTransport):
    """Carries so many writes; with the answer to the last of them, whoever uses it is dead."""

    def __init__(self, plane: ControlPlane, writes: int | None) -> None:
        super().__init__(load_config(kubeconfig=str(plane.kubeconfig), environ=os.environ))
        self._left = writes
        self.died = asyncio.Event()
        self.sent: list[str] = []

    async def request(self, method: str, path: str, **options: Any) -> Response:
        if method == "GET":
            return await super().request(method, path, **options)
        if self._left == 0:
            await asyncio.Event().wait()
        if self._left is not None:
            self._left -= 1
        self.sent.append(f"{method} {path}")
        response = await super().request(method, path, **options)
        if self._left == 0:
            self.died.set()
            await asyncio.Event().wait()
        return response


@contextlib.asynccontextmanager
async def scheduling(
    plane: ControlPlane, writes: int | None = None, **options: Any
) -> AsyncIterator[tuple[Scheduler, MortalTransport]]:
    """A scheduler of the whole cluster in this process, which dies after so many writes."""
    transport = MortalTransport(plane, writes)
    scheduler = Scheduler(Client(transport, field_manager="bireme-scheduler"), **options)
    work = asyncio.create_task(scheduler.run())
    try:
        yield scheduler, transport
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await transport.close()


def conditions(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    listed: Sequence[dict[str, Any]] = (obj.get("status") or {}).get("conditions") or ()
    return {each["type"]: each for each in listed}
