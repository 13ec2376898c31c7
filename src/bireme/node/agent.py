"""The node agent: registers this machine as a Node, and keeps the pods that are bound to it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from bireme.api.meta import ObjectMeta
from bireme.kube.cache import Cache
from bireme.kube.cancelling import raise_if_cancelled
from bireme.kube.client import Client
from bireme.kube.errors import AlreadyExists
from bireme.kube.resources import NODES, PODS
from bireme.kube.retry import Backoff
from bireme.node import shims
from bireme.node.cgroups import Limits
from bireme.node.departed import Departed
from bireme.node.drivers import PROCESS, Drivers
from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.keeper import Keeper
from bireme.node.machine import Machine, node_info
from bireme.node.networks import Networks
from bireme.node.nursery import Nursery
from bireme.node.podman import driver as podman
from bireme.node.seen import Object
from bireme.node.shim import wire

log = logging.getLogger("bireme.node")

_READY: Final = "NodeAgentReady"
_NULL: Final = msgspec.Raw(b"null")
_AGAIN: Final = Backoff(1.0, 60.0)


class BoundPod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod of this node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = _NULL
    status: msgspec.Raw = _NULL

    def object(self) -> Object:
        """As plain data."""
        metadata = msgspec.to_builtins(self.metadata)
        kept = {key: value for key, value in metadata.items() if value not in (None, "", {}, [])}
        spec, status = msgspec.json.decode(self.spec), msgspec.json.decode(self.status)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec, "status": status or {}}


class Agent:
    """Runs the pods that are bound to a node. `now` is the wall clock."""

    def __init__(
        self,
        client: Client,
        machine: Machine,
        folder: Path,
        *,
        now: Callable[[], datetime],
        environment: Mapping[str, str],
        directory: Path,
        driver: str = PROCESS,
    ) -> None:
        self._client, self._machine, self.now = client, machine, now
        self.folder = NodeFolder(folder)
        self._driver = Drivers(self.folder, machine, environment, directory, driver)
        self._networks = Networks(folder / "networks", machine)
        self._nursery = Nursery(folder)
        self._keepers: dict[str, Keeper] = {}
        self._departed = Departed(time.monotonic)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._cache: Cache[BoundPod] = Cache(
            client,
            PODS,
            BoundPod,
            field_selector=f"spec.nodeName={machine.name}",
            index_by_owner=False,
            on_change=self._on_change,
        )

    def keeper(self, uid: str) -> Keeper | None:
        """Who keeps a pod, or has kept it until a moment ago, by its UID."""
        return self._keepers.get(uid) or self._departed.keeper(uid)

    async def wait_synced(self) -> None:
        """Wait until the agent knows the pods of its node; at once if it does."""
        await self._cache.wait_synced()

    def departed(self, namespace: str, name: str) -> Object | None:
        """A pod that is gone, while what it wrote is still there."""
        for keeper in self._keepers.values():
            if (keeper.namespace, keeper.name) == (namespace, name):
                return keeper.pod
        return self._departed.find(namespace, name)

    async def run(self) -> None:
        """Keep pods until cancelled; what runs then goes on, and is found again by the next agent."""
        self.folder.prepare()
        # Now, as the first pod shall not wait until Python has started.
        self._nursery.open()
        try:
            await self._register()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cache.run())
                group.create_task(self._clear_strays())
                group.create_task(self._departed.run())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._nursery.close()

    # ---- the node

    async def _register(self) -> None:
        amounts = self._machine.allocatable()
        body: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._machine.name, "labels": self._machine.labels()},
        }
        await self._delete_former_nodes()
        try:
            await self._client.create(NODES, None, body)
        except AlreadyExists:
            # An earlier version may have registered the node with fewer labels; those of the user stay.
            patch: Object = {"metadata": {"labels": self._machine.labels()}}
            await self._client.patch(NODES, None, self._machine.name, patch)
        moment = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": _READY,
            "message": "this machine runs pods as processes",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": self._machine.address},
                {"type": "Hostname", "address": self._machine.name},
            ],
            "nodeInfo": node_info(),
        }
        body = {"status": status}
        await self._client.patch(NODES, None, self._machine.name, body, subresource="status")

    async def _delete_former_nodes(self) -> None:
        """Delete the Nodes of this machine's earlier host names, or pods would be taken to run there."""
        for node in (await self._client.list(NODES, type=dict)).items:
            name, conditions = node["metadata"]["name"], (node.get("status") or {}).get("conditions") or ()
            if name != self._machine.name and any(each.get("reason") == _READY for each in conditions):
                await self._client.delete(NODES, None, name, uid=node["metadata"]["uid"])

    # ---- the pods

    def _on_change(self, old: BoundPod | None, new: BoundPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            left = self._keepers.get(old.metadata.uid)
            if left is not None:
                left.forget()
        if new is None:
            return
        keeper = self._keepers.get(new.metadata.uid)
        if keeper is None:
            keeper = self._make_keeper(new.object())
            self._tasks[keeper.uid] = asyncio.get_running_loop().create_task(self._keep(keeper))
        else:
            keeper.update(new.object())

    def _make_keeper(self, pod: Object) -> Keeper:
        keeper = Keeper(
            pod,
            self._client,
            self.folder,
            self._driver,
            self._networks,
            self._nursery,
            self.now,
            self._machine.allocatable(),
        )
        self._keepers[keeper.uid] = keeper
        return keeper

    async def _keep(self, keeper: Keeper) -> None:
        """Keep a pod until it is gone; after an error by another keeper, which finds what there is."""
        uid, failures = keeper.uid, 0
        try:
            while not await self._kept(keeper):
                raise_if_cancelled()
                failures += 1
                await asyncio.sleep(_AGAIN.delay(failures, self._client.random()))
                keeper = self._replace(keeper)
        finally:
            self._keepers.pop(uid, None)
            self._tasks.pop(uid, None)
            if keeper.is_departed:
                self._departed.add(keeper)

    async def _kept(self, keeper: Keeper) -> bool:
        try:
            await keeper.run()
        except Exception:
            log.exception("a pod was left alone after an error", extra={"pod": keeper.name})
            return False
        return True

    def _replace(self, keeper: Keeper) -> Keeper:
        """Another keeper of a pod, which knows it as it is on the API server, or that it is gone."""
        found = self._cache.get(keeper.namespace, keeper.name)
        if found is not None and found.metadata.uid == keeper.uid:
            return self._make_keeper(found.object())
        other = self._make_keeper(keeper.pod)
        other.forget()
        return other

    async def _clear_strays(self) -> None:
        """End what is left of pods that the API server does not know any more."""
        await self._cache.wait_synced()
        known = {pod.metadata.uid for pod in self._cache.all()}
        for folder in self.folder.pods():
            if folder.path.name not in known:
                await asyncio.to_thread(_clear, folder)
        jobs = {owner.uid for pod in self._cache.all() for owner in pod.metadata.owner_references}
        self._networks.clear(jobs)


def _clear(folder: PodFolder) -> None:
    state = shims.read_state(folder)
    with contextlib.suppress(OSError):
        wire.Channel(wire.connect(str(folder.path))).send({"do": "end"})
    shims.clear(folder.path.name, state)
    podman.remove(podman.containers(folder))
    Limits().clear(folder.path.name)
    podman.remove_folder(folder)
