"""Nodes of a real API server whose kubelets only pretend: what is bound runs, and goes when asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.kube.resources import NODES, PODS
from bireme.scheduling.objects import Pod
from bireme.scheduling.requests import read_available
from bireme.scheduling.shape import Shapes

NODE_LABEL = "bireme.dev/test"


def node(name: str, label: str, **has: str) -> dict[str, Any]:
    """A node for one test; its pods and queues choose it by the label."""
    capacity = {"cpu": "1", "memory": "4Gi", "pods": "20", **has}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {NODE_LABEL: label}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Pretended"}],
        },
    }


class Kubelets:
    """The kubelets of all nodes of a test. `refuse` names pods that are to be refused once, as OutOfcpu."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed: asyncio.Queue[Pod] = asyncio.Queue()
        self._shapes = Shapes()
        self._free: dict[str, int] = {}
        self._held: dict[str, tuple[str, int]] = {}
        self.refuse: set[str] = set()
        self.overfull: list[str] = []
        """Pods for which there was no room: somebody counted wrong."""
        self.slow = False
        """Whether pods that are asked to go take their time, until `go` is set."""
        self.go = asyncio.Event()

    async def add(self, *nodes: dict[str, Any]) -> None:
        for each in nodes:
            await self._client.create(NODES, None, each)
            self._free[each["metadata"]["name"]] = read_available(each["status"]["allocatable"])["cpu"]

    async def run(self) -> None:
        cache = Cache(self._client, PODS, Pod, on_change=self._hear)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cache.run())
            while True:
                pod = await self._changed.get()
                with contextlib.suppress(KubeError):
                    await self._tend(pod)

    def _hear(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._release(old.metadata.uid)
        elif new is not None and new.spec.node_name in self._free:
            self._changed.put_nowait(new)

    def _release(self, uid: str) -> None:
        node, asked = self._held.pop(uid, ("", 0))
        if node:
            self._free[node] += asked

    async def _tend(self, pod: Pod) -> None:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None:
            if self.slow:
                await self.go.wait()
            await self._client.delete(
                PODS, metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=0
            )
        elif pod.status.phase in ("Succeeded", "Failed"):
            self._release(metadata.uid)
        elif metadata.uid not in self._held:
            await self._admit(pod)

    async def _admit(self, pod: Pod) -> None:
        asked = self._shapes.of(pod).requests.get("cpu", 0)
        node, name = pod.spec.node_name, pod.metadata.name
        if name in self.refuse or asked > self._free[node]:
            if name not in self.refuse:
                self.overfull.append(name)
            self.refuse.discard(name)
            refusal = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: OutOfcpu"}
            await self._report(pod, refusal)
            return
        self._held[pod.metadata.uid] = node, asked
        self._free[node] -= asked
        started = {"startedAt": "2026-01-01T00:00:00Z"}
        container = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": True}
        statuses = [{**container, "state": {"running": started}}]
        await self._report(pod, {"phase": "Running", "containerStatuses": statuses})

    async def _report(self, pod: Pod, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._client.patch(PODS, pod.metadata.namespace, pod.metadata.name, body, subresource="status")


@contextlib.asynccontextmanager
async def kubelets(client: Client, *nodes: dict[str, Any]) -> AsyncIterator[Kubelets]:
    """Nodes with kubelets at work; they are gone afterwards."""
    made = Kubelets(client)
    await made.add(*nodes)
    work = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        for each in nodes:
            await client.delete(NODES, None, each["metadata"]["name"])
