"""Tells users what is not as a manifest says, and what ails a container: Events, on pods and on jobs."""

import contextlib
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bireme.kube.client import Client
from bireme.kube.errors import AlreadyExists, KubeError
from bireme.kube.resources import EVENTS
from bireme.node.ailments import Report
from bireme.node.seen import Object
from bireme.node.times import write_time

REASON: Final = "Substituted"
_COMPONENT: Final = "bireme-node"


async def announce(
    client: Client, pod: Object, job: Object | None, notices: Sequence[str], now: datetime
) -> None:
    """Write the Events; of those of one job that say the same there is one. A lost one is no failure."""
    for about in (pod, job):
        for text in notices if about is not None else ():
            assert about is not None
            # Also one that is there already: another pod of the job has said it.
            with contextlib.suppress(KubeError):
                await client.create(EVENTS, pod["metadata"]["namespace"], build_event(about, text, now))


async def report(
    client: Client, pod: Object, container: str, reports: Sequence[Report], now: datetime
) -> None:
    """Write what ails a container, or the pod where none is named; what was said before is counted up.

    A lost one is no failure.
    """
    namespace = pod["metadata"]["namespace"]
    first = any(each["name"] == container for each in pod["spec"].get("initContainers") or ())
    field = "initContainers" if first else "containers"
    for each in reports:
        event = build_event(pod, each.message, now) | {"type": each.type, "reason": each.reason}
        if container:
            event["involvedObject"] |= {"fieldPath": f"spec.{field}{{{container}}}"}
        with contextlib.suppress(KubeError):
            try:
                await client.create(EVENTS, namespace, event)
            except AlreadyExists:
                await _count_up(client, event)


async def _count_up(client: Client, event: Object) -> None:
    name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
    there: Object = await client.get(EVENTS, namespace, name)
    patch = {"count": (there.get("count") or 1) + 1, "lastTimestamp": event["lastTimestamp"]}
    await client.patch(EVENTS, namespace, name, patch)


def build_event(about: Object, text: str, now: datetime) -> Object:
    """An Event whose name follows from what it is about and says."""
    metadata, moment = about["metadata"], write_time(now)
    digest = hashlib.sha256(f"{metadata['uid']}/{text}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            **{field: metadata[field] for field in ("name", "namespace", "uid")},
        },
        "type": "Warning",
        "reason": REASON,
        "message": text,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
