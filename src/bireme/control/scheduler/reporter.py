"""Tells what is: the status of Queues and PodGroups, and the PodScheduled condition of pods that wait."""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.scheduler import PodGroupStatus, QueueStatus, Waiting
from bireme.control.queue import WorkQueue
from bireme.control.scheduler.mirror import Mirror
from bireme.kube.cancelling import raise_if_cancelled
from bireme.kube.client import Client
from bireme.kube.errors import Conflict, KubeError, NotFound
from bireme.kube.resources import PODS, resource_of
from bireme.scheduling.decisions import Decisions
from bireme.scheduling.reasons import LACK_OF_NODES, Reason
from bireme.scheduling.reasons import Waiting as Verdict
from bireme.scheduling.status import group_status, queue_status
from bireme.scheduling.units import Key, Tracked, Unit, lacking

log = logging.getLogger("bireme.scheduler")

REST_SECONDS: Final = 0.5
"""A status rests for so long before it is written again: a gang's thousand pods change one by one."""
PATIENCE_SECONDS: Final = 1.0
"""Pods that wait for less are not told so."""
UNSCHEDULABLE: Final = "Unschedulable"
"""The word that a cluster autoscaler looks for."""
_FEW: Final = 100

Subject = Key | str
"""A unit, or the name of a queue."""


class Reporter:
    """Writes what differs from what is there, and nothing else."""

    def __init__(self, client: Client, mirror: Mirror) -> None:
        self._client, self._mirror = client, mirror
        self.queue: WorkQueue[Subject] = WorkQueue()
        self._waiting: dict[Key, Verdict] = {}
        self._positions: dict[Key, int] = {}
        self._told: dict[str, Reason] = {}

    def heard(self, decisions: Decisions) -> None:
        """Take note of what a round found; what changed is told after a moment."""
        before, self._waiting = self._waiting, dict(decisions.waiting)
        self._positions = self._number(decisions.waiting)
        changed = {key for key in {*before, *self._waiting} if before.get(key) != self._waiting.get(key)}
        for key in changed:
            self.queue.add_after(key, PATIENCE_SECONDS if key in self._waiting else REST_SECONDS)

    def reasons(self) -> Iterator[tuple[str, str]]:
        """The queue and the reason of each group that waits."""
        for key, verdict in self._waiting.items():
            unit = self._mirror.state.units.get(key)
            if unit is not None:
                yield unit.queue, verdict.reason.value

    def touch(self, subject: Subject) -> None:
        """Something of it changed."""
        self.queue.add_after(subject, REST_SECONDS)

    def _number(self, waiting: Mapping[Key, Verdict]) -> dict[Key, int]:
        counts: dict[str, int] = {}
        positions = {}
        for key in waiting:
            unit = self._mirror.state.units.get(key)
            if unit is not None:
                positions[key] = counts[unit.queue] = counts.get(unit.queue, 0) + 1
        return positions

    async def work(self, now: Callable[[], datetime]) -> None:
        """Write statuses until cancelled."""
        while (subject := await self.queue.get()) is not None:
            try:
                await self._report(subject, now())
                self.queue.forget(subject)
            except NotFound:
                self.queue.forget(subject)
            except Conflict:
                self.queue.retry(subject)
            except KubeError as error:
                log.warning("the status of %s is not written: %s", subject, error)
                self.queue.retry(subject)
            finally:
                self.queue.done(subject)
            raise_if_cancelled()

    async def _report(self, subject: Subject, now: datetime) -> None:
        if isinstance(subject, str):
            await self._report_queue(subject, now)
            return
        unit = self._mirror.state.units.get(subject)
        if unit is None:
            return
        if unit.group is not None:
            await self._report_group(unit, now)
        await self._report_pods(unit)

    async def _report_group(self, unit: Unit, now: datetime) -> None:
        assert unit.group is not None
        metadata, old = unit.group.metadata, unit.group.status
        begun = self._mirror.is_being_bound(unit) or lacking(unit, unit.settled())[0]
        binding = old.binding if old is not None and begun else None
        status = group_status(unit, self._waiting_status(unit), binding, now)
        if old is not None and _same(old, status):
            return
        # Of that version and no other: a plan that was written down meanwhile must stay.
        version = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        await self._client.patch(
            resource_of(POD_GROUP),
            metadata.namespace,
            metadata.name,
            {"metadata": version, "status": _whole(status)},
            subresource="status",
        )

    def _waiting_status(self, unit: Unit) -> Waiting | None:
        verdict = self._waiting.get(unit.key)
        if verdict is None:
            return None
        return Waiting(
            reason=verdict.reason.value,
            message=verdict.message,
            position=self._positions.get(unit.key),
            earliest_start=verdict.earliest_start,
        )

    async def _report_queue(self, name: str, now: datetime) -> None:
        state = self._mirror.state
        queue = state.queues.get(name)
        if queue is None:
            return
        units = state.by_queue.get(name, {}).values()
        status = queue_status(queue, units, state.held.get(name, {}), now)
        if queue.status is None or not _same(queue.status, status):
            body = {"metadata": {"uid": queue.metadata.uid}, "status": _whole(status)}
            await self._client.patch(resource_of(QUEUE), None, name, body, subresource="status")

    # Pods.

    async def _report_pods(self, unit: Unit) -> None:
        """PodScheduled is False with the reason Unschedulable for a lack of nodes, and for that alone."""
        verdict = self._waiting.get(unit.key)
        if verdict is None:
            return
        for tracked in unit.waiting():
            if self._is_news(tracked, verdict):
                await self._tell_pod(tracked, verdict)
        self._forget_the_gone()

    def _is_news(self, tracked: Tracked, verdict: Verdict) -> bool:
        """Whether a pod says something else; numbers that change are not worth a write to every pod."""
        told = self._told.get(tracked.uid)
        if told is not None:
            return told is not _told_as(verdict.reason)
        reason, message = _says(tracked)
        return reason != _word(verdict) or (reason == UNSCHEDULABLE and message != verdict.message)

    def _forget_the_gone(self) -> None:
        """Drop what was told of pods that are gone, once those are the most of them."""
        pods = self._mirror.state.pods
        if len(self._told) > 2 * len(pods) + _FEW:
            self._told = {uid: told for uid, told in self._told.items() if uid in pods}

    async def _tell_pod(self, tracked: Tracked, verdict: Verdict) -> None:
        metadata, reason = tracked.pod.metadata, _word(verdict)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": verdict.message}
        body = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            PODS, metadata.namespace, metadata.name, body, kind="strategic", subresource="status"
        )
        self._told[metadata.uid] = _told_as(verdict.reason)


def _word(verdict: Verdict) -> str:
    return UNSCHEDULABLE if verdict.reason in LACK_OF_NODES else verdict.reason.value


def _told_as(reason: Reason) -> Reason:
    """What pods tell apart: free room goes to pieces and back all the time, and means the same to them."""
    return Reason.WAITING_FOR_RESOURCES if reason is Reason.FRAGMENTED else reason


def _says(tracked: Tracked) -> tuple[str, str]:
    conditions = tracked.pod.status.conditions
    return next(((each.reason, each.message) for each in conditions if each.type == "PodScheduled"), ("", ""))


def _same(old: PodGroupStatus | QueueStatus, new: PodGroupStatus | QueueStatus) -> bool:
    return msgspec.json.encode(old) == msgspec.json.encode(new)


def _whole(status: PodGroupStatus | QueueStatus) -> dict[str, object]:
    """As a merge patch that also takes away what is no longer there."""
    written = msgspec.to_builtins(status)
    return {"waiting": None, "binding": None, **written} if isinstance(status, PodGroupStatus) else written
