"""The scheduler at work on a store in the same process: the real loop, no network."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.scheduler import GROUP_LABEL, SCHEDULER_NAME
from bireme.apiserver.kinds import NAMESPACE
from bireme.apiserver.local import LocalTransport
from bireme.apiserver.store import Store
from bireme.control.scheduler import Scheduler
from bireme.kube.client import Client
from bireme.kube.resources import NODES, PODS, resource_of
from bireme.kube.transport import Transport

TEAM = "team"


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class LocalCluster:
    """Nodes, queues and gangs, and what the scheduler makes of them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def add_node(self, name: str, cpu: int, **labels: str) -> None:
        body = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
        }
        await self.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", **body})

    async def add_queue(self, name: str, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, **spec}}
        whole = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, **body}
        await self.client.create(resource_of(QUEUE), None, whole)

    async def submit(
        self,
        name: str,
        queue: str,
        pods: int = 1,
        *,
        spec: dict[str, Any] | None = None,
        labels: Callable[[int], dict[str, str]] = lambda _: {},
    ) -> None:
        """A PodGroup and its pods, each of which asks for one CPU."""
        group = {"metadata": {"name": name}, "spec": {"minMember": pods, "queue": queue}}
        whole = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, **group}
        await self.client.create(resource_of(POD_GROUP), TEAM, whole)
        main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        for number in range(pods):
            pod = {
                "metadata": {"name": f"{name}-{number}", "labels": {GROUP_LABEL: name, **labels(number)}},
                "spec": {"schedulerName": SCHEDULER_NAME, "containers": [main], **(spec or {})},
                "status": {"phase": "Pending"},
            }
            await self.client.create(PODS, TEAM, {"apiVersion": "v1", "kind": "Pod", **pod})

    async def node_of(self, pod: str) -> str:
        found = await self.client.get(PODS, TEAM, pod)
        return str(found["spec"].get("nodeName") or "")

    async def waiting(self, group: str) -> dict[str, Any]:
        found = await self.client.get(resource_of(POD_GROUP), TEAM, group)
        return (found.get("status") or {}).get("waiting") or {}

    async def wait_reason(self, group: str, reason: str) -> dict[str, Any]:
        """Wait until a group waits for this reason; return all that is told."""
        told: dict[str, Any] = {}
        async with asyncio.timeout(60):
            while told.get("reason") != reason:
                await asyncio.sleep(0.02)
                told = await self.waiting(group)
        return told

    async def wait_told(self, pod: str) -> None:
        """Wait until a pod says why it waits."""
        async with asyncio.timeout(60):
            while not (await self.client.get(PODS, TEAM, pod))["status"].get("conditions"):
                await asyncio.sleep(0.05)

    async def seconds_to_start(self, pod: str) -> float:
        """How long it takes from now until a pod is bound, in CPU time of this process.

        On a free machine that is the time that passes while the scheduler is busy; other work on a busy one
        does not count.
        """
        start = time.process_time()
        async with asyncio.timeout(60):
            while not await self.node_of(pod):
                await asyncio.sleep(0.01)
        return time.process_time() - start


class Lag:
    """How late the event loop was at most, in seconds of CPU time of this process."""

    def __init__(self) -> None:
        self.largest = 0.0

    async def measure(self) -> None:
        while True:
            start = time.process_time()
            await asyncio.sleep(0.01)
            self.largest = max(self.largest, time.process_time() - start)


@contextlib.asynccontextmanager
async def measured_lag() -> AsyncIterator[Lag]:
    lag = Lag()
    task = asyncio.create_task(lag.measure())
    try:
        yield lag
    finally:
        task.cancel()


@contextlib.asynccontextmanager
async def local_scheduler(
    wrap: Callable[[LocalTransport], Transport] = lambda transport: transport, **options: Any
) -> AsyncIterator[tuple[LocalCluster, asyncio.Task[None]]]:
    """A scheduler at work; its calls go through the wrapped transport."""
    store = Store()
    for name in ("default", TEAM):
        store.create(NAMESPACE, {"metadata": {"name": name}}, now())
    transport = LocalTransport(store, now)
    work = asyncio.create_task(Scheduler(Client(wrap(transport)), with_volumes=False, **options).run())
    try:
        yield LocalCluster(Client(transport)), work
    finally:
        work.cancel()
        await asyncio.wait([work], timeout=60)
        await transport.close()
