"""The objects of one collection, as they last were."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from bireme.api.meta import ObjectMeta

Key = tuple[str, str]
"""Namespace, empty where objects have none, and name."""


class HasMetadata(Protocol):
    """What is kept must say who it is."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata)


class Change(NamedTuple, Generic[T]):
    """An object came (no old), changed, or went (no new); `old` is the last that is known of it."""

    old: T | None
    new: T | None


def key_of(obj: HasMetadata) -> Key:
    return obj.metadata.namespace, obj.metadata.name


class Store(Generic[T]):
    """A dictionary with an index by owner. Its methods tell what has changed by them."""

    def __init__(self, *, index_by_owner: bool = True) -> None:
        self._objects: dict[Key, T] = {}
        self._owned: dict[str, dict[Key, T]] | None = {} if index_by_owner else None

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def all(self) -> list[T]:
        return list(self._objects.values())

    def by_owner(self, uid: str) -> list[T]:
        """The objects with this UID among their owners."""
        if self._owned is None:
            raise LookupError("this store has no index by owner")
        return list(self._owned.get(uid, {}).values())

    def put(self, obj: T) -> list[Change[T]]:
        """Keep an object. One that is known in this version changes nothing.

        One with another UID than its predecessor of that name is another object: two changes.
        """
        key = key_of(obj)
        old = self._objects.get(key)
        if old is None:
            self._keep(key, obj)
            return [Change(None, obj)]
        if old.metadata.uid != obj.metadata.uid:
            self._drop(key)
            self._keep(key, obj)
            return [Change(old, None), Change(None, obj)]
        if old.metadata.resource_version == obj.metadata.resource_version:
            return []
        self._disown(key, old)
        self._keep(key, obj)
        return [Change(old, obj)]

    def remove(self, last: T) -> list[Change[T]]:
        """Forget an object, given as it last was; one that is not known changes nothing."""
        key = key_of(last)
        known = self._objects.get(key)
        if known is None or known.metadata.uid != last.metadata.uid:
            return []
        self._drop(key)
        return [Change(last, None)]

    def replace(self, objects: Iterable[T]) -> list[Change[T]]:
        """Keep these and no others; what has vanished comes first among the changes."""
        listed = {key_of(obj): obj for obj in objects}
        vanished = [key for key in self._objects if key not in listed]
        changes: list[Change[T]] = [Change(self._drop(key), None) for key in vanished]
        for obj in listed.values():
            changes += self.put(obj)
        return changes

    def _keep(self, key: Key, obj: T) -> None:
        self._objects[key] = obj
        if self._owned is not None:
            for owner in obj.metadata.owner_references:
                self._owned.setdefault(owner.uid, {})[key] = obj

    def _drop(self, key: Key) -> T:
        obj = self._objects.pop(key)
        self._disown(key, obj)
        return obj

    def _disown(self, key: Key, obj: T) -> None:
        if self._owned is None:
            return
        for owner in obj.metadata.owner_references:
            owned = self._owned.get(owner.uid, {})
            owned.pop(key, None)
            if not owned:
                self._owned.pop(owner.uid, None)
