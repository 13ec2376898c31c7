"""A node of a real API server that only pretends: what is there runs, ends when told, and goes when asked."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import Gone, KubeError
from bireme.kube.resources import NODES, PODS
from bireme.kube.transport import HttpTransport
from support.cluster_world import World
from support.kubelets import node
from support.places.jobs import GATE
from support.places.place import Program

NODE: Final = "pretended"


class PlayedNode:
    """Scheduler and kubelet of one namespace, in a thread of their own."""

    image = "registry.example/x:1"

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._kubeconfig, self._namespace = kubeconfig, namespace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: set[str] = set()

    @contextlib.contextmanager
    def at_work(self) -> Iterator["PlayedNode"]:
        self._thread.start()
        self._do(self._begin())
        work = asyncio.run_coroutine_threadsafe(self._run(), self._loop)
        try:
            yield self
        finally:
            work.cancel()
            self._do(self._finish())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def command(self, name: str) -> list[str]:
        return [name]

    def end(self, program: Program, code: int) -> None:
        if program.container == GATE:
            self._open.add(program.pod)
            self._do(self._world.run(program.pod))
        else:
            self._do(self._end(program.pod, code))

    async def _end(self, name: str, code: int) -> None:
        """Not before it runs, as a program could not either."""
        async with asyncio.timeout(120):
            while (await self._client.get(PODS, self._namespace, name))["status"].get("phase") != "Running":
                await asyncio.sleep(0.02)
        await self._world.finish(name, code)

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(150)

    async def _begin(self) -> None:
        config = load_config(kubeconfig=str(self._kubeconfig), environ={})
        self._client = Client(HttpTransport(config))
        self._world = World(self._client, self._namespace)
        await self._client.create(NODES, None, node(NODE, NODE, pods="500", cpu="100"))

    async def _finish(self) -> None:
        await self._client.delete(NODES, None, NODE)
        await self._client.close()

    async def _run(self) -> None:
        while True:
            listing = await self._client.list(PODS, self._namespace, type=dict)
            for pod in listing.items:
                await self._tend(pod)
            version = listing.resource_version
            events = self._client.watch(PODS, self._namespace, resource_version=version, type=dict)
            with contextlib.suppress(Gone):
                async with contextlib.aclosing(events):
                    async for event in events:
                        if event.type in ("ADDED", "MODIFIED"):
                            await self._tend(event.object)

    async def _tend(self, pod: dict[str, Any]) -> None:
        """What a pod needs next; one that has changed meanwhile is seen again."""
        with contextlib.suppress(KubeError):
            await self._step(pod)

    async def _step(self, pod: dict[str, Any]) -> None:
        metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
        name, uid, phase = metadata["name"], metadata["uid"], status.get("phase")
        if not spec.get("nodeName"):
            await self._client.bind(self._namespace, name, NODE, uid=uid)
        elif "deletionTimestamp" in metadata:
            await self._client.delete(PODS, self._namespace, name, uid=uid, grace_seconds=0)
        elif phase == "Pending" and not self._is_held(pod):
            await self._world.run(name)
        elif phase == "Running" and "activeDeadlineSeconds" in spec:
            await self._world.fail(name, "DeadlineExceeded")

    def _is_held(self, pod: dict[str, Any]) -> bool:
        gates = [each for each in pod["spec"].get("initContainers") or () if each["name"] == GATE]
        return bool(gates) and pod["metadata"]["name"] not in self._open
