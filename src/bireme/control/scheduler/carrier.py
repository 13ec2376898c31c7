"""Carries out what a round decided."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from bireme.api.kinds import POD_GROUP
from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import GangBinding
from bireme.control.events import EventRecorder
from bireme.control.scheduler.mirror import Mirror
from bireme.kube.client import Client
from bireme.kube.clock import Clock, within
from bireme.kube.errors import KubeError
from bireme.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, resource_of
from bireme.planning.actions import EmitEvent
from bireme.scheduling.decisions import Decisions, Start
from bireme.scheduling.objects import Pod
from bireme.scheduling.units import Key, Tracked

log = logging.getLogger("bireme.scheduler")

AT_ONCE: Final = 64
"""Calls under way at a time."""
PROVISION_SECONDS: Final = 100.0
"""How long a provisioner may take to make the volumes of a pod that is about to be bound."""
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class About(msgspec.Struct, frozen=True):
    """What an event is about."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class Carrier:
    """Binds, evicts and deletes; what fails is decided anew in the next round."""

    def __init__(self, client: Client, mirror: Mirror, clock: Clock) -> None:
        self._client, self._mirror, self._clock = client, mirror, clock
        self._events = EventRecorder(client)
        self._calls = asyncio.Semaphore(AT_ONCE)
        self.bound = 0
        self.failed = 0

    async def carry_out(self, decisions: Decisions, now: datetime) -> bool:
        """Do all of it, every gang by itself; return whether all went well."""
        results = await asyncio.gather(
            *(self._expire(each.pod, each.queue, now) for each in decisions.expirations),
            *(self._make_anew(each.unit, each.pods, now) for each in decisions.made_anew),
            *(self._evict(each.unit, each.pods, now) for each in decisions.evictions),
            *(self._start(each, now) for each in decisions.starts),
        )
        return all(results)

    # Starting.

    async def _start(self, start: Start, now: datetime) -> bool:
        pods = [(self._mirror.state.pods[uid], node) for uid, node in start.nodes.items()]
        for uid, node in start.nodes.items():
            self._mirror.assume(uid, node)
        if start.plan is not None and not await self._write_plan(start.unit, start.plan):
            for uid in start.nodes:
                self._mirror.forget(uid)
            return False
        await self._provide_volumes(pods)
        results = await asyncio.gather(*(self._bind(tracked, node) for tracked, node in pods))
        if all(results) and start.plan is not None:
            await self._tell(start.unit, "Normal", "Scheduled", f"{len(pods)} pods are bound", now)
        return all(results)

    async def _write_plan(self, unit: Key, plan: GangBinding) -> bool:
        """Write the plan down before its first pod is bound: whoever comes next then knows what was begun."""
        known = self._mirror.state.units.get(unit)
        group = known.group if known is not None else None
        if group is None:
            return False
        if group.status is not None and group.status.binding == plan:
            return True
        body = {
            "metadata": {"uid": group.metadata.uid},
            "status": {"binding": msgspec.to_builtins(plan, str_keys=True)},
        }
        async with self._calls:
            try:
                await self._client.patch(
                    resource_of(POD_GROUP), unit.namespace, unit.group, body, subresource="status"
                )
            except KubeError as error:
                log.warning("the plan of %s can't be written down: %s", unit, error)
                return False
        return True

    async def _bind(self, tracked: Tracked, node: str) -> bool:
        metadata = tracked.pod.metadata
        async with self._calls:
            try:
                await self._client.bind(metadata.namespace, metadata.name, node, uid=metadata.uid)
            except KubeError as error:
                self.failed += 1
                log.info("%s is not bound to %s: %s", metadata.name, node, error)
                await self._look_again(metadata)
                return False
        self.bound += 1
        return True

    async def _look_again(self, metadata: ObjectMeta) -> None:
        """See where a pod is that could not be bound: an answer was lost, or somebody else was faster."""
        node = ""
        with contextlib.suppress(KubeError):
            pod = await self._client.get(PODS, metadata.namespace, metadata.name, type=Pod)
            node = pod.spec.node_name if pod.metadata.uid == metadata.uid else ""
        if node:
            self._mirror.assume(metadata.uid, node)
        else:
            self._mirror.forget(metadata.uid)

    async def _provide_volumes(self, pods: Sequence[tuple[Tracked, str]]) -> None:
        """Tell provisioners the node of each claim that waits for one, and wait for the volumes."""
        waiting = []
        for tracked, node in pods:
            namespace, *names = tracked.shape.claims
            for name in names:
                if self._mirror.state.storage.needs_node(namespace, name):
                    waiting.append((namespace, name))
                    await self._select_node(namespace, name, node)
        if waiting:
            with contextlib.suppress(TimeoutError):
                await within(self._clock, PROVISION_SECONDS, self._await_claims(waiting))

    async def _select_node(self, namespace: str, name: str, node: str) -> None:
        body = {"metadata": {"annotations": {_SELECTED_NODE: node}}}
        with contextlib.suppress(KubeError):
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, namespace, name, body)

    async def _await_claims(self, waiting: Sequence[tuple[str, str]]) -> None:
        for namespace, name in waiting:
            while (claim := self._mirror.claims.get(namespace, name)) and not claim.spec.volume_name:
                await self._clock.sleep(0.2)

    # Ending.

    async def _expire(self, uid: str, queue: str, now: datetime) -> bool:
        message = f"exists for longer than queue {queue} allows"
        return await self._end(uid, "MaxDurationExceeded", message, now)

    async def _evict(self, unit: Key, uids: Sequence[str], now: datetime) -> bool:
        message = f"makes way for {unit.short}, of a queue of higher priority"
        ended = await self._end_all(uids, "PreemptionByScheduler", message, now)
        await self._tell(unit, "Normal", "Preempting", f"{len(uids)} pods make way", now)
        return ended

    async def _make_anew(self, unit: Key, uids: Sequence[str], now: datetime) -> bool:
        message = "only a part of its group could be bound; all of its pods are made anew"
        ended = await self._end_all(uids, "GangNotWhole", message, now)
        await self._tell(unit, "Warning", "GangNotWhole", message, now)
        return ended

    async def _end_all(self, uids: Sequence[str], reason: str, message: str, now: datetime) -> bool:
        return all(await asyncio.gather(*(self._end(uid, reason, message, now) for uid in uids)))

    async def _end(self, uid: str, reason: str, message: str, now: datetime) -> bool:
        """Say why, then delete: a controller that sees the pod go knows that its program did not fail."""
        tracked = self._mirror.state.pods.get(uid)
        if tracked is None:
            return True
        metadata = tracked.pod.metadata
        self._mirror.assume_leaving(uid, now)
        async with self._calls:
            try:
                await self._mark(metadata, reason, message, now)
                await self._client.delete(PODS, metadata.namespace, metadata.name, uid=uid)
            except KubeError as error:
                log.warning("%s is not ended: %s", metadata.name, error)
                self._mirror.forget_leaving(uid)
                return False
        about = About("v1", "Pod", metadata)
        await self._record(about, EmitEvent("Normal", reason, message), now)
        return True

    async def _mark(self, metadata: ObjectMeta, reason: str, message: str, now: datetime) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body: dict[str, Any] = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            PODS, metadata.namespace, metadata.name, body, kind="strategic", subresource="status"
        )

    # Telling.

    async def _tell(self, unit: Key, kind: Any, reason: str, message: str, now: datetime) -> None:
        known = self._mirror.state.units.get(unit)
        if known is not None and known.group is not None:
            about = About(POD_GROUP.api_version, POD_GROUP.kind, known.group.metadata)
            await self._record(about, EmitEvent(kind, reason, message), now)

    async def _record(self, about: About, event: EmitEvent, now: datetime) -> None:
        await self._events.record(about, event, now)  # type: ignore[arg-type]
