"""Tells users of a pod's job what is not as its manifest says: Events, on the pod and once on the job."""

import contextlib
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.kube.resources import EVENTS
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
