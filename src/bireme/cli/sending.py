"""Sends objects to an API server: jobs that are to run now, and what they need.

Nothing is sent before all of it was looked at: `plan_submissions` finds where each object goes, and the
jobs of earlier runs that have the same names. `send` then deletes those, and creates the new ones.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

from bireme.cli.failures import Failure, fail_with, say
from bireme.cli.lookup import Found, look_up
from bireme.cli.manifests import Object, is_job, with_annotations, with_metadata
from bireme.cli.places import current_directory
from bireme.cli.targets import FIELD_MANAGER, Connection
from bireme.cli.vocabulary import JOBS, NoSuchKind, find_resource
from bireme.kube.client import Client
from bireme.kube.errors import AlreadyExists, Conflict, Gone, NotFound
from bireme.kube.resources import PODS, Resource
from bireme.node.submitter import DIRECTORY
from bireme.run.jobs import is_finished, phase
from bireme.terminal_text import one_line

_GONE_SECONDS = 60.0


def for_target(connection: Connection, obj: Object, annotations: Mapping[str, str]) -> Object:
    """The object as it is sent; a job carries the annotations, and for this machine its directory."""
    if not is_job(obj):
        return obj
    job = with_annotations(obj, dict(annotations))
    if connection.target.daemon is None:
        return job
    if DIRECTORY not in job["metadata"]["annotations"]:
        return with_annotations(job, {DIRECTORY: str(current_directory())})
    return job


async def locate(connection: Connection, obj: Object, namespace: str | None) -> tuple[Resource, str | None]:
    """Where an object goes; `namespace` is what was asked for, which the object must not contradict."""
    try:
        resource = await find_resource(connection, obj["apiVersion"], obj["kind"])
    except NoSuchKind as error:
        raise NoSuchKind(f"{describe(obj)}: {error.message}", error.hint) from error
    if not resource.namespaced:
        return resource, None
    own = (obj.get("metadata") or {}).get("namespace")
    if own and namespace and own != namespace:
        raise Failure(
            f"{describe(obj)} is for namespace {own}, not {namespace}", "leave out -n, or change the manifest"
        )
    return resource, own or namespace or connection.namespace


async def locate_all(
    connection: Connection, objects: Sequence[Object], namespace: str | None
) -> list[tuple[Resource, str | None]]:
    """Where objects go; nothing need be sent where one of them can't be."""
    places: list[tuple[Resource, str | None]] = []
    failures: list[Failure] = []
    for obj in objects:
        try:
            places.append(await locate(connection, obj, namespace))
        except Failure as failure:
            failures.append(failure)
    fail_with(failures)
    return places


def describe(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    return f"{one_line(obj['kind'])} {one_line(name)}"


class Submission(NamedTuple):
    """An object to send, where it goes, and the jobs of earlier runs that it replaces."""

    object: Object
    resource: Resource
    namespace: str | None
    predecessors: tuple[Found, ...] = ()


async def plan_submissions(
    connection: Connection, objects: Sequence[Object], namespace: str | None
) -> list[Submission]:
    """Look at everything before anything is sent. Raises Failure where an object can't be sent."""
    places = await locate_all(connection, objects, namespace)
    submissions: list[Submission] = []
    failures: list[Failure] = []
    names: set[tuple[str | None, str]] = set()
    for obj, (resource, place) in zip(objects, places, strict=True):
        name = (obj.get("metadata") or {}).get("name")
        if not is_job(obj) or not name:
            submissions.append(Submission(obj, resource, place))
            continue
        try:
            if (place, name) in names:
                raise Failure(f"two jobs are named {name}", "their pods would have the same names")
            names.add((place, name))
            predecessors = await find_predecessors(connection, place or "default", name)
            submissions.append(Submission(obj, resource, place, tuple(predecessors)))
        except Failure as failure:
            failures.append(failure)
    fail_with(failures)
    return submissions


async def find_predecessors(connection: Connection, namespace: str, name: str) -> list[Found]:
    """Return the jobs of this name, of any kind, that a new one replaces.

    Pods are named after their job, whatever its kind, so jobs of two kinds can't share a name. Raises
    Failure if one of them has not finished, unless it is being deleted.
    """
    there = connection._replace(namespace=namespace)
    looked_up = await asyncio.gather(*(look_up(there, resource, name) for resource in JOBS))
    jobs = [found for found in looked_up if found is not None]
    for job in jobs:
        if not is_finished(job.object) and "deletionTimestamp" not in job.object["metadata"]:
            word = name if len(jobs) == 1 else job.title
            raise Failure(
                f"{describe_job(job)} already exists, and is {phase(job.object)}",
                f"see it with `bireme logs -f {word}`, stop it with `bireme delete {word}`,"
                " or choose another name with --name",
            )
    return jobs


def describe_job(job: Found) -> str:
    """Return kind and name, such as `GenericJob train`; with the group where two kinds share a name."""
    kind = job.resource.kind
    is_shared = sum(resource.kind == kind for resource in JOBS) > 1
    return f"{kind} {job.name}" + (f" ({job.resource.group})" if is_shared else "")


async def send(
    connection: Connection, submissions: Sequence[Submission], annotations: Mapping[str, str]
) -> list[Found]:
    """Send everything in its order, jobs with these annotations; return the jobs, which are new."""
    jobs = []
    for submission in submissions:
        obj, resource = submission.object, submission.resource
        if not is_job(obj):
            await apply(connection, resource, submission.namespace, obj)
            say(f"applied {describe(obj)}")
            continue
        job = await start_job(
            connection, submission._replace(object=for_target(connection, obj, annotations))
        )
        await warn_of_quota(connection, job)
        jobs.append(Found(resource, job))
    return jobs


async def start_job(connection: Connection, submission: Submission) -> Object:
    """Delete the jobs of earlier runs, and create the new one."""
    client, namespace = connection.client, submission.namespace or "default"
    for earlier in submission.predecessors:
        say(f"{describe_job(earlier)} of an earlier run ({phase(earlier.object)}) is replaced")
        with contextlib.suppress(NotFound):
            await remove(client, earlier.resource, namespace, earlier.object)
    job = with_metadata(submission.object, namespace=namespace)
    try:
        return await client.create(submission.resource, namespace, job)
    except AlreadyExists as error:
        hint = "another client has just created it: choose another name with --name"
        raise Failure(f"{describe(job)} already exists", hint) from error


async def remove(
    client: Client,
    resource: Resource,
    namespace: str | None,
    obj: Object,
    *,
    wait: bool = True,
) -> None:
    """Delete an object and what it owns, and wait until nothing is left of it."""
    metadata = obj["metadata"]
    await client.delete(
        resource,
        namespace,
        metadata["name"],
        uid=metadata["uid"],
        propagation="Foreground",
    )
    if wait:
        await wait_removed(client, resource, namespace, metadata["name"], metadata["uid"])


async def wait_removed(
    client: Client, resource: Resource, namespace: str | None, name: str, uid: str
) -> None:
    """Return when there is no object of this name, or another one; too long a wait is a failure."""
    try:
        async with (
            asyncio.timeout(_GONE_SECONDS),
            contextlib.aclosing(versions(client, resource, namespace, name)) as seen,
        ):
            async for obj in seen:
                if obj is None or obj["metadata"]["uid"] != uid:
                    return
    except TimeoutError:
        message = f"{resource.kind} {name} is still there after {_GONE_SECONDS:g} s"
        raise Failure(message, "--now kills its pods at once; a finalizer may hold it") from None


async def versions(
    client: Client, resource: Resource, namespace: str | None, name: str
) -> AsyncGenerator[Object | None, None]:
    """The object of this name as it is now, then each change of it, for ever; None while there is none."""
    selector = f"metadata.name={name}"
    while True:
        listing = await client.list(resource, namespace, type=dict, field_selector=selector)
        yield listing.items[0] if listing.items else None
        events = client.watch(
            resource,
            namespace,
            resource_version=listing.resource_version,
            type=dict,
            field_selector=selector,
        )
        with contextlib.suppress(Gone):
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object


async def apply(
    connection: Connection,
    resource: Resource,
    namespace: str | None,
    obj: Object,
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Object:
    """Server-side apply; what has no name yet is created. Fields that `bireme run` set are ours to change."""
    body = with_metadata(obj, namespace=namespace) if namespace else obj
    name, client = body["metadata"].get("name"), connection.client
    try:
        if not name:
            return await client.create(resource, namespace, body, dry_run=dry_run)
        return await client.patch(resource, namespace, name, body, kind="apply", force=force, dry_run=dry_run)
    except Conflict as error:
        if not force and _is_with_ourselves(error):
            return await apply(connection, resource, namespace, obj, force=True, dry_run=dry_run)
        hint = "`bireme apply --force-conflicts` takes those fields over"
        raise Failure(f"{describe(obj)}: {error.message}", hint) from error


def _is_with_ourselves(error: Conflict) -> bool:
    """To an API server, who creates an object and who applies it are two, even of one name."""
    told = [cause.get("message", "") for cause in error.causes]
    return bool(told) and all(each.startswith(f'conflict with "{FIELD_MANAGER}" ') for each in told)


async def warn_of_quota(connection: Connection, job: Object) -> None:
    """Say that no quota could hold a job; on a cluster its webhooks do."""
    scheduler = (job.get("spec") or {}).get("scheduler") or {}
    queue = (scheduler.get("t9kScheduler") or {}).get("queue")
    if connection.target.daemon is None or not queue:
        return
    from bireme.api.kinds import QUEUE
    from bireme.control.quotas import quota_warning
    from bireme.kube.resources import resource_of

    with contextlib.suppress(NotFound):
        found = await connection.client.get(resource_of(QUEUE), None, queue)
        if warning := quota_warning(job, found):
            say(f"warning: {describe(job)} {warning}")


async def kill_pods(client: Client, namespace: str, job_uid: str) -> None:
    """End all pods of a job at once."""
    selector = f"bireme.dev/job-uid={job_uid}"
    pods = await client.list(PODS, namespace, type=dict, label_selector=selector)
    for pod in pods.items:
        await client.delete(PODS, namespace, pod["metadata"]["name"], grace_seconds=0)
