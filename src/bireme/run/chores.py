"""What the daemon does by the clock: forget jobs that ended long ago, and end when nobody needs it."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bireme.api.kinds import JOB_KINDS
from bireme.kube.client import Client, Object
from bireme.kube.errors import KubeError
from bireme.kube.resources import PODS, Resource, resource_of
from bireme.node.submitter import SUBMITTER, sweep
from bireme.run.jobs import finished_at, is_finished

log = logging.getLogger("bireme")

JOBS: Final = tuple(resource_of(kind) for kind in JOB_KINDS)
_ENDED: Final = ("Succeeded", "Failed")
_LEAST_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 5


async def list_jobs(client: Client) -> list[tuple[Resource, Object]]:
    """All jobs of all kinds."""
    return [(resource, job) for resource in JOBS for job in (await client.list(resource, type=dict)).items]


async def forget_finished(client: Client, keep: timedelta, now: Callable[[], datetime]) -> None:
    """Delete jobs some time after their end, with their pods; for ever."""
    while True:
        wait = keep
        for resource, job in await list_jobs(client):
            ended = finished_at(job)
            if ended is None:
                continue
            left = ended + keep - now()
            if left > timedelta(0):
                wait = min(wait, left)
                continue
            metadata = job["metadata"]
            log.info("the job ended long ago and is forgotten", extra={"job": metadata["name"]})
            await client.delete(resource, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        await asyncio.sleep(max(_LEAST_SECONDS, wait.total_seconds()))


async def sweep_submitters(client: Client, folder: Path) -> None:
    """Remove what submitters have left of whom no job is there any more."""
    annotations = [job["metadata"].get("annotations") or {} for _, job in await list_jobs(client)]
    named = [each[SUBMITTER] for each in annotations if SUBMITTER in each]
    await asyncio.to_thread(sweep, folder, named)


async def wait_until_idle(client: Client, quiet_seconds: Callable[[], float], idle_seconds: float) -> None:
    """Return when for so long there was neither a client nor anything left to run."""
    while True:
        left = idle_seconds - quiet_seconds()
        if left > 0:
            await asyncio.sleep(left)
        elif await has_work(client):
            await asyncio.sleep(idle_seconds)
        else:
            return


async def has_work(client: Client) -> bool:
    """Whether a job is unfinished, or a pod that belongs to none."""
    if any(not is_finished(job) for _, job in await list_jobs(client)):
        return True
    pods = (await client.list(PODS, type=dict)).items
    return any(not has_ended(pod) and not pod["metadata"].get("ownerReferences") for pod in pods)


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


async def stop_pods(client: Client, grace_seconds: int = _GRACE_SECONDS) -> list[Object]:
    """Ask all pods that run to go; return them. Those of unfinished jobs come again."""
    pods = [pod for pod in (await client.list(PODS, type=dict)).items if not has_ended(pod)]
    for pod in pods:
        metadata = pod["metadata"]
        asked = pod["spec"].get("terminationGracePeriodSeconds")
        grace = grace_seconds if asked is None else min(asked, grace_seconds)
        await client.delete(
            PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=grace
        )
    return pods


async def wait_stopped(client: Client) -> None:
    """Return when no pod runs any more."""
    while True:
        listing = await client.list(PODS, type=dict)
        running = {pod["metadata"]["uid"] for pod in listing.items if not has_ended(pod)}
        if await _drained(client, running, listing.resource_version):
            return


async def _drained(client: Client, running: set[str], version: str) -> bool:
    if not running:
        return True
    events = client.watch(PODS, resource_version=version, type=dict)
    try:
        async for event in events:
            if event.type == "BOOKMARK":
                continue
            uid = event.object["metadata"]["uid"]
            if event.type == "DELETED" or has_ended(event.object):
                running.discard(uid)
            else:
                running.add(uid)
            if not running:
                return True
    except KubeError as error:
        log.warning("can't follow pods: %s", error)
    finally:
        await events.aclose()
    return False
