"""Carries out what a round decided."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import msgspec

from bireme.api.kinds import POD_GROUP
from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import GangBinding
from bireme.api.stop_signal import ENDS_AT_ANNOTATION
from bireme.control.events import EventRecorder
from bireme.control.scheduler.mirror import Mirror
from bireme.kube.client import Client
from bireme.kube.clock import Clock, within
from bireme.kube.errors import KubeError
from bireme.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, resource_of
from bireme.planning.actions import STOP_DEADLINE_SECONDS, EmitEvent
from bireme.scheduling.decisions import Decisions, Start
from bireme.scheduling.durations import end_after, longest
from bireme.scheduling.objects import Pod, bound_at
from bireme.scheduling.units import Key, Tracked

log = logging.getLogger("bireme.scheduler")

AT_ONCE: Final = 64
"""Calls under way at a time."""
RETRY_SECONDS: Final = 1.0
"""How long what could not be done counts as done, before it is decided anew."""
PROVISION_SECONDS: Final = 100.0
"""How long a provisioner may take to make the volumes of a pod that is about to be bound."""
Places = Sequence[tuple[Tracked, str]]
"""Pods, each with the node that it goes to."""
Stop = Callable[[ObjectMeta], Coroutine[Any, Any, None]]
"""Ends a pod that has been told why."""
Begin = Callable[[Coroutine[Any, Any, None]], object]
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class About(msgspec.Struct, frozen=True):
    """What an event is about."""

    api_version: str
    kind: str
    metadata: ObjectMeta


class Carrier:
    """Binds, evicts and deletes, while rounds go on; what fails is decided anew after a moment."""

    def __init__(self, client: Client, mirror: Mirror, clock: Clock) -> None:
        self._client, self._mirror, self._clock = client, mirror, clock
        self._events = EventRecorder(client)
        self._calls = asyncio.Semaphore(AT_ONCE)
        self.bound = 0
        self.failed = 0

    def carry_out(self, decisions: Decisions, now: datetime, begin: Begin) -> None:
        """Take all of it into the picture at once, and begin with it; every gang goes by itself."""
        for expired in decisions.expirations:
            begin(self._expire(self._leaving([expired.pod], now), expired.queue, now))
        for anew in decisions.made_anew:
            begin(self._make_anew(anew.unit, self._leaving(anew.pods, now), now))
        for evict in decisions.evictions:
            begin(self._evict(evict.unit, self._leaving(evict.pods, now), now))
        for _, starts in groupby(decisions.starts, key=lambda start: start.unit):
            begin(self._start_unit([(start, self._assumed(start, now)) for start in starts], now))

    def _assumed(self, start: Start, now: datetime) -> Places:
        """The pods to be bound, each with its node, which count as bound from now on."""
        pods = [(self._mirror.state.pods[uid], node) for uid, node in start.nodes.items()]
        for uid, node in start.nodes.items():
            self._mirror.assume(uid, node, now)
        return pods

    def _leaving(self, uids: Iterable[str], now: datetime) -> list[ObjectMeta]:
        """The pods that are to go, which count as leaving from now on."""
        found = [self._mirror.state.pods[uid].pod.metadata for uid in uids]
        for metadata in found:
            self._mirror.assume_leaving(metadata.uid, now)
        return found

    # Starting.

    async def _start_unit(self, starts: Sequence[tuple[Start, Places]], now: datetime) -> None:
        """Bind what makes a unit whole, and only then what may follow: alone it would be a part of a gang."""
        (start, pods), *others = starts
        if await self._start(start, pods, now):
            await asyncio.gather(*(self._start(start, pods, now) for start, pods in others))
        else:
            self._forget(uid for start, _ in others for uid in start.nodes)

    async def _start(self, start: Start, pods: Places, now: datetime) -> bool:
        if start.plan is not None and not await self._write_plan(start.unit, start.plan):
            await self._clock.sleep(RETRY_SECONDS)
            self._forget(start.nodes)
            return False
        await self._provide_volumes(pods)
        results = await asyncio.gather(*(self._bind(tracked, node, now) for tracked, node in pods))
        if all(results) and start.plan is not None:
            await self._tell(start.unit, "Normal", "Scheduled", f"{len(pods)} pods are bound", now)
        return all(results)

    def _forget(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._mirror.forget(uid)

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

    async def _bind(self, tracked: Tracked, node: str, now: datetime) -> bool:
        metadata, annotations = tracked.pod.metadata, self._when_it_ends(tracked, now)
        async with self._calls:
            try:
                await self._client.bind(
                    metadata.namespace, metadata.name, node, uid=metadata.uid, annotations=annotations
                )
            except KubeError as error:
                self.failed += 1
                log.info("%s is not bound to %s: %s", metadata.name, node, error)
            else:
                self.bound += 1
                return True
        await self._look_again(metadata, now)
        return False

    def _when_it_ends(self, tracked: Tracked, now: datetime) -> dict[str, str]:
        """Return the annotation that tells a pod when its queue's maxDuration is over, if it has one."""
        state = self._mirror.state
        unit = state.units.get(tracked.key) if tracked.key is not None else None
        end = end_after(now, longest(state.queues.get(unit.queue))) if unit is not None else None
        return {} if end is None else {ENDS_AT_ANNOTATION: str(int(end.timestamp()))}

    async def _look_again(self, metadata: ObjectMeta, now: datetime) -> None:
        """See where a pod is that could not be bound: an answer was lost, or somebody else was faster."""
        node, since = "", now
        with contextlib.suppress(KubeError):
            pod = await self._client.get(PODS, metadata.namespace, metadata.name, type=Pod)
            node = pod.spec.node_name if pod.metadata.uid == metadata.uid else ""
            since = bound_at(pod) or now
        if node:
            self._mirror.found_on(metadata.uid, node, since)
        else:
            await self._clock.sleep(RETRY_SECONDS)
            self._mirror.forget(metadata.uid)

    async def _provide_volumes(self, pods: Places) -> None:
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

    async def _expire(self, pods: Sequence[ObjectMeta], queue: str, now: datetime) -> None:
        message = f"was bound for longer than queue {queue} allows"
        await self._end_all(pods, "MaxDurationExceeded", message, now, stop=self._stop)

    async def _evict(self, unit: Key, pods: Sequence[ObjectMeta], now: datetime) -> None:
        message = f"makes way for {unit}{self._in_queue(unit)}, which has a higher priority"
        await self._end_all(pods, "PreemptionByScheduler", message, now)
        await self._tell(unit, "Normal", "Preempting", f"{len(pods)} pods make way", now)

    def _in_queue(self, unit: Key) -> str:
        known = self._mirror.state.units.get(unit)
        return f" of queue {known.queue}" if known is not None else ""

    async def _make_anew(self, unit: Key, pods: Sequence[ObjectMeta], now: datetime) -> None:
        message = "only a part of its group could be bound; all of its pods are made anew"
        await self._end_all(pods, "GangNotWhole", message, now)
        await self._tell(unit, "Warning", "GangNotWhole", message, now)

    async def _end_all(
        self,
        pods: Sequence[ObjectMeta],
        reason: str,
        message: str,
        now: datetime,
        *,
        stop: Stop | None = None,
    ) -> None:
        stop = stop or self._delete
        await asyncio.gather(*(self._end(metadata, reason, message, now, stop) for metadata in pods))

    async def _end(self, metadata: ObjectMeta, reason: str, message: str, now: datetime, stop: Stop) -> None:
        """Say why, then stop: a controller that sees the pod go knows that its program did not fail."""
        async with self._calls:
            try:
                await self._mark(metadata, reason, message, now)
                await stop(metadata)
            except KubeError as error:
                log.warning("%s is not ended: %s", metadata.name, error)
                await self._clock.sleep(RETRY_SECONDS)
                self._mirror.forget_leaving(metadata.uid)
                return
        about = About("v1", "Pod", metadata)
        await self._record(about, EmitEvent("Normal", reason, message), now)

    async def _delete(self, metadata: ObjectMeta) -> None:
        await self._client.delete(PODS, metadata.namespace, metadata.name, uid=metadata.uid)

    async def _stop(self, metadata: ObjectMeta) -> None:
        """Let the kubelet end a pod by its deadline, gracefully: the pod stays, and its output with it."""
        body = {"metadata": {"uid": metadata.uid}, "spec": {"activeDeadlineSeconds": STOP_DEADLINE_SECONDS}}
        await self._client.patch(PODS, metadata.namespace, metadata.name, body)

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
