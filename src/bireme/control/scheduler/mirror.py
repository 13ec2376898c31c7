"""The scheduler's picture of the cluster, fed by watches and by what it has just done itself."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from bireme.api.core import ConfigMap
from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.quantity import QuantityError
from bireme.api.scheduler import PodGroup, Queue
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    resource_of,
)
from bireme.scheduling import State
from bireme.scheduling.objects import (
    Claim,
    Namespace,
    Node,
    Pod,
    Profiles,
    StorageClass,
    Volume,
    with_binding,
)
from bireme.scheduling.requests import read_available
from bireme.scheduling.units import Key, Unit

SHAPES: Final = "resource-shapes"
"""The ConfigMap with the queues' shape profiles."""


class Mirror:
    """Keeps a State in step. Changes wait in line until `catch_up`, so that a round sees one picture."""

    def __init__(
        self,
        client: Client,
        home: str,
        on_change: Callable[[], None],
        on_touch: Callable[[Key | str], None],
        *,
        with_volumes: bool = True,
    ) -> None:
        self.state = State()
        self._on_change, self._on_touch = on_change, on_touch
        self._news: deque[Callable[[], None]] = deque()
        self._assumed: dict[str, tuple[str, datetime]] = {}
        self._ended: dict[str, datetime] = {}
        self.claims = Cache(client, PERSISTENT_VOLUME_CLAIMS, Claim, on_change=self._heard(self._put_claim))
        self.caches: list[Cache[Any]] = [
            Cache(client, NODES, Node, on_change=self._heard(self._put_node)),
            Cache(client, PODS, Pod, on_change=self._heard(self._put_pod)),
            Cache(client, resource_of(QUEUE), Queue, on_change=self._heard(self._put_queue)),
            Cache(client, resource_of(POD_GROUP), PodGroup, on_change=self._heard(self._put_group)),
            Cache(client, NAMESPACES, Namespace, on_change=self._heard(self._put_namespace)),
            self.claims,
            Cache(
                client,
                CONFIG_MAPS,
                ConfigMap,
                namespace=home,
                field_selector=f"metadata.name={SHAPES}",
                on_change=self._heard(self._put_shapes),
            ),
        ]
        self.state.storage.is_local = not with_volumes
        if with_volumes:
            self.caches += [
                Cache(client, PERSISTENT_VOLUMES, Volume, on_change=self._heard(self._put_volume)),
                Cache(client, STORAGE_CLASSES, StorageClass, on_change=self._heard(self._put_class)),
            ]

    def _heard(self, take: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def on_change(old: Any, new: Any) -> None:
            self._later(lambda: take(old, new))

        return on_change

    def catch_up(self, most: int) -> bool:
        """Let the state follow what was heard, at most so many changes; return whether there are more."""
        for _ in range(min(most, len(self._news))):
            self._news.popleft()()
        return bool(self._news)

    # What we did, before a watch tells it.

    def assume(self, uid: str, node: str, since: datetime) -> None:
        """Count a pod as bound while the call is under way, and until the watch shows it."""
        tracked = self.state.pods.get(uid)
        if tracked is not None:
            self._assumed[uid] = node, since
            self.state.put_pod(with_binding(tracked.pod, node, since))
            self._touch(tracked.key)

    def forget(self, uid: str) -> None:
        """The pod was not bound after all."""
        self._later(lambda: self._forget(uid))

    def _forget(self, uid: str) -> None:
        tracked = self.state.pods.get(uid)
        if self._assumed.pop(uid, None) is not None and tracked is not None:
            self.state.put_pod(_on(tracked.pod, ""))

    def found_on(self, uid: str, node: str, since: datetime) -> None:
        """The pod is on a node, but perhaps on another one than was decided."""
        self._later(lambda: self.assume(uid, node, since))

    def is_being_bound(self, unit: Unit) -> bool:
        """Whether a pod counts as bound that no watch has shown on its node."""
        return any(uid in self._assumed for uid in unit.pods)

    def assume_leaving(self, uid: str, since: datetime) -> None:
        """Count a pod as leaving until the watch shows it, so that nobody else is asked to go instead."""
        tracked = self.state.pods.get(uid)
        if tracked is not None:
            self._ended[uid] = since
            self.state.put_pod(_leaving(tracked.pod, since))

    def forget_leaving(self, uid: str) -> None:
        """The pod was not deleted after all."""
        self._later(lambda: self._forget_leaving(uid))

    def _forget_leaving(self, uid: str) -> None:
        tracked = self.state.pods.get(uid)
        if self._ended.pop(uid, None) is not None and tracked is not None:
            self.state.put_pod(_leaving(tracked.pod, None))

    def _later(self, take: Callable[[], None]) -> None:
        """Change the picture between two rounds: one may be looking at it."""
        self._news.append(take)
        self._on_change()

    # What watches tell.

    def _put_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._assumed.pop(old.metadata.uid, None)
            self._ended.pop(old.metadata.uid, None)
            tracked = self.state.pods.get(old.metadata.uid)
            self._touch(tracked.key if tracked is not None else None)
            self.state.remove_pod(old.metadata.uid)
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._put_pod(old, None)
        assumed = self._assumed.get(new.metadata.uid)
        if assumed is not None and not new.spec.node_name:
            new = with_binding(new, *assumed)
        else:
            self._assumed.pop(new.metadata.uid, None)
        since = self._ended.get(new.metadata.uid)
        if since is not None and new.metadata.deletion_timestamp is None:
            new = _leaving(new, since)
        else:
            self._ended.pop(new.metadata.uid, None)
        self.state.put_pod(new)
        self._touch(self.state.pods[new.metadata.uid].key)

    def _touch(self, key: Key | None) -> None:
        """The status of a unit and of its queue may have changed."""
        if key is not None:
            self._on_touch(key)
            unit = self.state.units.get(key)
            if unit is not None:
                self._on_touch(unit.queue)

    def _put_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self.state.put_node(new)
        elif old is not None:
            self.state.remove_node(old.metadata.name)

    def _put_queue(self, old: Queue | None, new: Queue | None) -> None:
        if new is not None:
            self.state.put_queue(new)
            self._on_touch(new.metadata.name)
        elif old is not None:
            self.state.remove_queue(old.metadata.name)

    def _put_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        known = new or old
        assert known is not None
        key = Key(known.metadata.namespace, known.metadata.name)
        self._touch(key)
        if new is not None:
            self.state.put_group(new)
        else:
            self.state.remove_group(key.namespace, key.group)
        self._touch(key)

    def _put_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.state.put_namespace(new)
        elif old is not None:
            self.state.remove_namespace(old.metadata.name)

    def _put_claim(self, old: Claim | None, new: Claim | None) -> None:
        known = new or old
        assert known is not None
        _set(self.state.storage.claims, (known.metadata.namespace, known.metadata.name), new)

    def _put_volume(self, old: Volume | None, new: Volume | None) -> None:
        known = new or old
        assert known is not None
        _set(self.state.storage.volumes, known.metadata.name, new)

    def _put_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        known = new or old
        assert known is not None
        _set(self.state.storage.classes, known.metadata.name, new)

    def _put_shapes(self, _old: ConfigMap | None, new: ConfigMap | None) -> None:
        self.state.profiles = read_profiles(new.data if new is not None else {})


def read_profiles(data: dict[str, str]) -> Profiles:
    """The shape profiles of a ConfigMap; one that can't be read is kept by name, and its queues say so."""
    most, unreadable = {}, set()
    for key, text in data.items():
        try:
            most[key] = read_available(msgspec.yaml.decode(text, type=dict[str, str | int | float]))
        except (msgspec.MsgspecError, QuantityError, ValueError):
            unreadable.add(key)
    return Profiles(most, frozenset(unreadable))


def _on(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def _leaving(pod: Pod, since: datetime | None) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=since)
    return msgspec.structs.replace(pod, metadata=metadata)


def _set(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value
