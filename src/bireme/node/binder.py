"""A scheduler for one node: whatever waits is bound to it, while there are devices enough.

CPU and memory are oversubscribed: a laptop must run what a cluster would. Devices are not.
Pods that are bound to a node which is not there are deleted, because nothing else here could end them.
"""

import asyncio
import contextlib
import logging
from typing import Final

import msgspec

from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import SCHEDULER_NAME
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, KubeError, ServerError
from bireme.kube.resources import NODES, PODS
from bireme.node.machine import Machine
from bireme.scheduling.requests import pod_requests

log = logging.getLogger("bireme.node")

_FINISHED: Final = ("Succeeded", "Failed")
_RETRY_SECONDS: Final = 1.0


class _Resources(msgspec.Struct, frozen=True, gc=False):
    limits: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()
    scheduling_gates: tuple[dict[str, str], ...] = ()


class _Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class Binder:
    """Binds pods to the one node there is; those that wait in a queue are left to its scheduler.

    `queued` is set when there is the first such pod.
    """

    def __init__(self, client: Client, machine: Machine, queued: asyncio.Event | None = None) -> None:
        self._client, self._machine = client, machine
        self._wake = asyncio.Event()
        self._queued = queued or asyncio.Event()
        self._pods: Cache[WaitingPod] = Cache(
            client, PODS, WaitingPod, index_by_owner=False, on_change=lambda *_: self._wake.set()
        )
        self._told: dict[str, str] = {}
        self._bound: set[str] = set()

    async def run(self) -> None:
        """Bind until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            await self._pods.wait_synced()
            while True:
                self._wake.clear()
                if await self._round():
                    await self._wake.wait()
                else:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_RETRY_SECONDS):
                            await self._wake.wait()

    async def _round(self) -> bool:
        """Bind all that can be bound, oldest first; False if something is to be tried again."""
        pods = self._pods.all()
        if any(pod.spec.scheduler_name == SCHEDULER_NAME for pod in pods):
            self._queued.set()
        free = self._free(pods)
        done = await self._delete_orphans(pods)
        waiting = [pod for pod in pods if self._waits(pod)]
        self._bound &= {pod.metadata.uid for pod in waiting}
        for pod in sorted(
            waiting, key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name)
        ):
            wanted = devices(pod)
            lacking = [name for name, count in wanted.items() if count > free.get(name, 0)]
            if lacking:
                await self._tell(pod, self._shortage(lacking, wanted))
                continue
            if await self._bind(pod):
                for name, count in wanted.items():
                    free[name] -= count
            else:
                done = False
        return done

    async def _delete_orphans(self, pods: list[WaitingPod]) -> bool:
        """Delete pods that are bound to a node which is not there, as a cluster's PodGC does.

        Only their kubelet could report their end, so they could be neither run nor stopped. False if that is
        to be tried again.
        """
        elsewhere = [pod for pod in pods if pod.spec.node_name not in ("", self._machine.name)]
        if not elsewhere:
            return True
        try:
            nodes = {node["metadata"]["name"] for node in (await self._client.list(NODES, type=dict)).items}
            for pod in elsewhere:
                metadata = pod.metadata
                if pod.spec.node_name not in nodes:
                    log.info("a pod's node is not there: deleted", extra={"pod": metadata.name})
                    await self._client.delete(
                        PODS, metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=0
                    )
        except KubeError as error:
            log.warning("pods of missing nodes are not deleted yet: %s", error)
            return False
        return True

    def _shortage(self, lacking: list[str], wanted: dict[str, int]) -> str:
        """As a kube-scheduler says it, and whether waiting can help."""
        all_there = self._free([])
        never = [
            f"{all_there.get(name, 0)} {name}" for name in lacking if wanted[name] > all_there.get(name, 0)
        ]
        hint = f" This machine has {', '.join(never)}: the pod can't start here." if never else ""
        return f"0/1 nodes are available: 1 Insufficient {', '.join(lacking)}.{hint}"

    def _waits(self, pod: WaitingPod) -> bool:
        return (
            not pod.spec.node_name
            and pod.spec.scheduler_name != SCHEDULER_NAME
            and not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
            and pod.metadata.uid not in self._bound
        )

    def _free(self, pods: list[WaitingPod]) -> dict[str, int]:
        free = {"nvidia.com/gpu": len(self._machine.gpus)}
        for pod in pods:
            held = pod.spec.node_name or pod.metadata.uid in self._bound
            if held and pod.status.phase not in _FINISHED:
                for name, count in devices(pod).items():
                    free[name] = free.get(name, 0) - count
        return free

    async def _bind(self, pod: WaitingPod) -> bool:
        metadata = pod.metadata
        try:
            await self._client.bind(metadata.namespace, metadata.name, self._machine.name, uid=metadata.uid)
        except KubeError as error:
            # A refusal is final, but not a server that could not do it, as with a full disk.
            if isinstance(error, ServerError) or not isinstance(error, ApiError):
                log.warning("a pod is not bound yet", extra={"pod": metadata.name, "why": str(error)})
                return False
            log.info("a pod is not bound", extra={"pod": metadata.name, "why": error.message})
        self._bound.add(metadata.uid)
        return True

    async def _tell(self, pod: WaitingPod, why: str) -> None:
        """Say once why a pod waits."""
        if self._told.get(pod.metadata.uid) == why:
            return
        self._told[pod.metadata.uid] = why
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        patch = {"status": {"conditions": [condition]}}
        with contextlib.suppress(KubeError):
            await self._client.patch(
                PODS, pod.metadata.namespace, pod.metadata.name, patch, kind="strategic", subresource="status"
            )


def devices(pod: WaitingPod) -> dict[str, int]:
    """The extended resources that a pod asks for."""
    every = (*pod.spec.init_containers, *pod.spec.containers)
    if not any(_is_device(name) for container in every for name in container.resources.limits):
        return {}
    wanted = pod_requests(msgspec.to_builtins(pod.spec))
    return {name: count for name, count in wanted.items() if _is_device(name)}


def _is_device(resource: str) -> bool:
    return "/" in resource and not resource.startswith("hugepages-")
