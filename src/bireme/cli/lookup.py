"""Finds the job, or the pod, that a user names: NAME or KIND/NAME."""

import asyncio
from typing import NamedTuple

from bireme.cli.failures import Failure
from bireme.cli.targets import Connection
from bireme.cli.vocabulary import JOBS, qualified, resources_for
from bireme.kube.client import Object
from bireme.kube.errors import Forbidden, NotFound
from bireme.kube.resources import PODS, Resource


class Found(NamedTuple):
    """An object, and the collection that it is in."""

    resource: Resource
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def title(self) -> str:
        """As `-o name` prints it."""
        return f"{qualified(self.resource)}/{self.name}"


async def find_job(connection: Connection, word: str) -> Found:
    """The one job of that name. Fails if there is none, or several."""
    return only(await find(connection, word), word, "job")


async def find_job_or_pod(connection: Connection, word: str) -> Found:
    """The job of that name, or else the pod."""
    found = await find(connection, word)
    if not found and "/" not in word:
        found = await find(connection, f"pod/{word}")
    return only(found, word, "job or pod")


async def find(connection: Connection, word: str) -> list[Found]:
    """All objects that the word may mean; without a kind it means jobs."""
    kind, slash, name = word.rpartition("/")
    resources = await resources_for(connection, kind) if slash else list(JOBS)
    tried = await asyncio.gather(*(look_up(connection, resource, name) for resource in resources))
    return [found for found in tried if found is not None]


def only(found: list[Found], word: str, sort: str) -> Found:
    if len(found) == 1:
        return found[0]
    if not found:
        raise Failure(f"there is no {sort} {word}", "`bireme get` lists the jobs")
    raise Failure(
        f"{word} is the name of several jobs",
        f"say which: {' or '.join(each.title for each in found)}",
    )


async def look_up(connection: Connection, resource: Resource, name: str) -> Found | None:
    """The object of that name in a collection, if it is there, and may be seen."""
    namespace = connection.namespace if resource.namespaced else None
    try:
        return Found(resource, await connection.client.get(resource, namespace, name))
    except NotFound:
        return None
    except Forbidden:
        # A cluster may hide one of the kinds; a pod that may not be read is another matter.
        if resource is PODS:
            raise
        return None
