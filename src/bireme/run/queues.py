"""A cluster's queues as a user sees them: the scheduler's own picture, made from what may be read."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from bireme.api.core import ConfigMap
from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.scheduler import PodGroup, Queue
from bireme.control.scheduler.mirror import SHAPES, read_profiles
from bireme.kube.client import Client
from bireme.kube.errors import Forbidden, NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Resource,
    resource_of,
)
from bireme.scheduling import Policy, State
from bireme.scheduling.objects import Claim, Namespace, Node, Pod, Profiles, StorageClass, Volume
from bireme.scheduling.reasons import Reason


async def load_state(client: Client, home: str) -> State:
    """Read all that the scheduler looks at. Raises Forbidden where nodes, pods or queues may not be read."""
    nodes, pods, queues, groups, namespaces, claims, volumes, classes = await asyncio.gather(
        _list(client, NODES, Node),
        _list(client, PODS, Pod),
        _list(client, resource_of(QUEUE), Queue),
        _list(client, resource_of(POD_GROUP), PodGroup),
        _list_if_allowed(client, NAMESPACES, Namespace),
        _list_if_allowed(client, PERSISTENT_VOLUME_CLAIMS, Claim),
        _list_if_allowed(client, PERSISTENT_VOLUMES, Volume),
        _list_if_allowed(client, STORAGE_CLASSES, StorageClass),
    )
    state = State()
    puts: list[tuple[list[Any], Callable[[Any], None]]] = [
        (nodes, state.put_node),
        (queues, state.put_queue),
        (groups, state.put_group),
        (namespaces, state.put_namespace),
        (pods, state.put_pod),
    ]
    for items, put in puts:
        for item in items:
            put(item)
    state.storage.claims = {(each.metadata.namespace, each.metadata.name): each for each in claims}
    state.storage.volumes = {each.metadata.name: each for each in volumes}
    state.storage.classes = {each.metadata.name: each for each in classes}
    state.profiles = await _profiles(client, home)
    return state


async def _list(client: Client, resource: Resource, type_: type[Any]) -> list[Any]:
    return (await client.list(resource, type=type_)).items


async def _list_if_allowed(client: Client, resource: Resource, type_: type[Any]) -> list[Any]:
    try:
        return await _list(client, resource, type_)
    except (Forbidden, NotFound):
        return []


async def _profiles(client: Client, home: str) -> Profiles:
    try:
        return read_profiles((await client.get(CONFIG_MAPS, home, SHAPES, type=ConfigMap)).data)
    except (Forbidden, NotFound):
        return Profiles()


def policy_of(state: State) -> Policy:
    """The scheduler's policy as far as it shows: whether it asks queues' namespaceSelector."""
    groups = [unit.group.status for unit in state.units.values() if unit.group is not None]
    told = {status.waiting.reason for status in groups if status is not None and status.waiting is not None}
    return Policy(permissions=Reason.NOT_PERMITTED.value in told)


def decode_pod(manifest: dict[str, Any]) -> Pod:
    """A pod that is not there yet, as the scheduler would see it."""
    return msgspec.convert(manifest, Pod)


def decode_group(manifest: dict[str, Any]) -> PodGroup:
    return msgspec.convert(manifest, PodGroup)
