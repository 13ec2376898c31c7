"""Events, as `kubectl describe` shows them: the same thing said again is counted, not repeated."""

import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from bireme.kube.client import Client
from bireme.kube.errors import KubeError, NotFound
from bireme.kube.resources import EVENTS
from bireme.planning.actions import EmitEvent
from bireme.planning.observed import Job

COMPONENT = "bireme"
REMEMBERED = 4096
FORGOTTEN_AFTER = timedelta(minutes=10)
MAX_MESSAGE = 1024


class Said(NamedTuple):
    """An event that is on record."""

    name: str
    first: datetime
    last: datetime
    times: int


class EventRecorder:
    """Writes events of jobs. Losing one is no failure of the job: errors are counted, not raised."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._said: OrderedDict[tuple[str, str, str], Said] = OrderedDict()
        self.failures = 0

    async def record(self, job: Job, event: EmitEvent, now: datetime) -> None:
        """Write the event, or count it up if it was said a short while ago."""
        key = job.metadata.uid, event.reason, event.message
        said = self._said.get(key)
        try:
            if said is not None and now - said.last < FORGOTTEN_AFTER:
                said = await self._count_up(job, event, said, now)
            else:
                said = await self._write(job, event, now)
        except KubeError:
            self.failures += 1
            return
        self._said[key] = said
        self._said.move_to_end(key)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)

    async def _write(self, job: Job, event: EmitEvent, now: datetime) -> Said:
        name = _event_name(job, event, now)
        await self._client.create(EVENTS, job.metadata.namespace, build_event(job, event, name, now))
        return Said(name, now, now, 1)

    async def _count_up(self, job: Job, event: EmitEvent, said: Said, now: datetime) -> Said:
        body = {"count": said.times + 1, "lastTimestamp": _time(now)}
        try:
            await self._client.patch(EVENTS, job.metadata.namespace, said.name, body)
        except NotFound:
            return await self._write(job, event, now)
        return said._replace(last=now, times=said.times + 1)


def build_event(job: Job, event: EmitEvent, name: str, now: datetime) -> dict[str, Any]:
    """The Event object."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": job.metadata.namespace},
        "involvedObject": {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "uid": job.metadata.uid,
            "resourceVersion": job.metadata.resource_version,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:MAX_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
        "count": 1,
    }


def _event_name(job: Job, event: EmitEvent, now: datetime) -> str:
    """A name of its own for each thing said at one time; equal input gives equal names."""
    text = f"{job.metadata.uid}/{event.reason}/{event.message}/{now.isoformat()}"
    return f"{job.metadata.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _time(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
