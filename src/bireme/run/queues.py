"""A cluster's queues as a user sees them: the scheduler's own picture, made from what may be read."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from bireme.api.core import ConfigMap
from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import PodGroup, Queue, Waiting
from bireme.control.scheduler.mirror import SHAPES, read_profiles
from bireme.kube.client import Client
from bireme.kube.errors import Forbidden, NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    LEASES,
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
from bireme.scheduling.requests import Amounts, read_available

LEASE_NAME: Final = "bireme-scheduler"
POLICY_ANNOTATION: Final = "bireme.dev/scheduler-policy"
"""On the lease: what the leader decides by, for `bireme why` and others who decide the same."""


class Scheduler(NamedTuple):
    """The scheduler of a cluster, as far as it decides what others want to know."""

    home: str = "default"
    policy: Policy = Policy()
    local_volumes: bool = False
    """Whether claims are folders of the machine, and need no volume."""


EMBEDDED: Final = Scheduler(policy=Policy(permissions=False), local_volumes=True)


async def find_scheduler(client: Client, home: str | None) -> Scheduler:
    """The one whose lease is found, in a namespace or in any; where none can be seen, the usual one."""
    leases = await _list_if_allowed(
        client, LEASES, _Lease, namespace=home, field_selector=f"metadata.name={LEASE_NAME}"
    )
    for lease in sorted(leases, key=lambda lease: lease.spec.renew_time, reverse=True):
        # One that was written by somebody else, or by another version, may say nothing we understand.
        with contextlib.suppress(KeyError, msgspec.DecodeError):
            policy = msgspec.json.decode(lease.metadata.annotations[POLICY_ANNOTATION], type=Policy)
            return Scheduler(lease.metadata.namespace, policy)
    return Scheduler(home or "default", Policy(permissions=False))


class _LeaseSpec(msgspec.Struct, rename="camel"):
    renew_time: str = ""


class _Lease(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


async def load_state(client: Client, scheduler: Scheduler) -> State:
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
    state.storage.is_local = scheduler.local_volumes
    state.profiles = await _profiles(client, scheduler.home)
    return state


class Visible(NamedTuple):
    """The objects that a user who may read Queues and one namespace can see."""

    namespace: str
    queues: list[Queue]
    groups: list[PodGroup]

    def held(self, queue: Queue) -> Amounts:
        """What the queue's pods hold, as the scheduler wrote it down."""
        return read_available(queue.status.allocated) if queue.status is not None else {}

    def waiting_in(self, queue: str) -> list[tuple[PodGroup, Waiting]]:
        """The groups of the namespace that wait in a queue, by position."""
        waiting = [
            (group, group.status.waiting)
            for group in self.groups
            if group.spec.queue == queue and group.status is not None and group.status.waiting is not None
        ]
        return sorted(waiting, key=lambda each: (each[1].position or 0, each[0].metadata.name))


async def load_visible(client: Client, namespace: str) -> Visible:
    """Read what a role in one namespace lets see. Raises Forbidden where Queues may not be read."""
    queues, groups = await asyncio.gather(
        _list(client, resource_of(QUEUE), Queue),
        _list_if_allowed(client, resource_of(POD_GROUP), PodGroup, namespace=namespace),
    )
    return Visible(namespace, queues, groups)


async def _list(client: Client, resource: Resource, type_: type[Any]) -> list[Any]:
    return (await client.list(resource, type=type_)).items


async def _list_if_allowed(
    client: Client,
    resource: Resource,
    type_: type[Any],
    *,
    namespace: str | None = None,
    field_selector: str = "",
) -> list[Any]:
    try:
        listing = await client.list(resource, namespace, type=type_, field_selector=field_selector)
        return listing.items
    except (Forbidden, NotFound):
        return []


async def _profiles(client: Client, home: str) -> Profiles:
    try:
        return read_profiles((await client.get(CONFIG_MAPS, home, SHAPES, type=ConfigMap)).data)
    except (Forbidden, NotFound):
        return Profiles()


def decode_pod(manifest: dict[str, Any]) -> Pod:
    """A pod that is not there yet, as the scheduler would see it."""
    return msgspec.convert(manifest, Pod)


def decode_group(manifest: dict[str, Any]) -> PodGroup:
    return msgspec.convert(manifest, PodGroup)
