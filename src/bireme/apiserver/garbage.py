"""What controllers of a real cluster do by themselves: collect garbage, empty namespaces and CRDs.

    collect, finish_namespaces, settle   whole rounds over all objects, as steps of a simulation
    Collector                            the same by and by, from the changes: work grows with those alone

A step returns how many writes it took; 0 means that nothing is left to do now. Pods with a grace and objects
with finalizers take more than one.
"""

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, Literal, NamedTuple

from bireme.apiserver.crds import cleaned, cleanup_needed
from bireme.apiserver.deletion import DeleteOptions, Preconditions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from bireme.apiserver.namespaces import is_terminating
from bireme.apiserver.objects import FOREGROUND, ORPHAN
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.subresources import finalize
from bireme.apiserver.tables import Staged

_MOST_ROUNDS: Final = 100
_BACKGROUND: Final = DeleteOptions(propagation_policy="Background")
_Standing = Literal["solid", "waiting", "gone", "unknown"]
Place = tuple[str, str]
"""The resource and the key of an object."""


class DidNotSettleError(AssertionError):
    """Round after round found something to do."""


class _Item(NamedTuple):
    kind: Kind
    obj: Object

    @property
    def uid(self) -> str:
        uid: str = self.obj["metadata"]["uid"]
        return uid

    @property
    def namespace(self) -> str:
        namespace: str = self.obj["metadata"].get("namespace", "")
        return namespace

    @property
    def owners(self) -> list[Object]:
        owners: list[Object] = self.obj["metadata"].get("ownerReferences", [])
        return owners

    def waits_for(self, finalizer: str) -> bool:
        """Whether it is being deleted, and this finalizer holds it."""
        metadata = self.obj["metadata"]
        return "deletionTimestamp" in metadata and finalizer in metadata.get("finalizers", ())


def collect(store: Store, now: datetime) -> int:
    """One round of ownerReference garbage collection.

    A dependent all of whose owners are gone is deleted; one whose owner waits for it (foreground) too; one
    whose owner leaves it behind (orphan) loses the reference. An owner of a kind that is not served is left
    in doubt: nothing is done.
    """
    before = store.version
    visit = _Visit(store, now)
    for kind in store.kinds:
        for obj in store.all(kind):
            visit.at((kind.resource, kind.key_of(obj)), uid=obj["metadata"]["uid"])
    return store.version - before


def finish_namespaces(store: Store, now: datetime) -> int:
    """One round over terminating namespaces: what is in them is deleted; an empty one goes."""
    before = store.version
    for namespace in store.all(NAMESPACE):
        if is_terminating(namespace):
            _empty(store, namespace["metadata"]["name"], now)
            _finish(store, namespace["metadata"]["name"])
    return store.version - before


def settle(store: Store, now: datetime) -> int:
    """Both, until nothing is left to do at this moment."""
    before = store.version
    for _ in range(_MOST_ROUNDS):
        if not collect(store, now) + finish_namespaces(store, now):
            return store.version - before
    raise DidNotSettleError(f"still writing after {_MOST_ROUNDS} rounds")


class Collector:
    """Finds out from each change what there is to do, and does it a little at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[Place, None] = {}
        for kind in store.kinds:
            for record in store.records(kind):
                if record.owners or record.is_going:
                    self._waiting[kind.resource, record.key] = None

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def notice(self, changes: Iterable[Staged]) -> None:
        """Look at what was written."""
        for resource, change in changes:
            before, after = change.before, change.after
            if after is None:
                self._notice_removal(resource, change.key)
            elif after.is_going or after.owners:
                self._waiting[resource, change.key] = None
            if before is not None and (after is None or after.is_going):
                self._add(self._store.dependents(before.uid))
            for uid in (*(before.owners if before else ()), *(after.owners if after else ())):
                self._add_going(self._store.place(uid))

    def step(self, now: datetime, most: int = 64) -> int:
        """Visit at most so many of the objects that wait."""
        before = self._store.version
        visit = _Visit(self._store, now)
        for place in list(self._waiting)[:most]:
            del self._waiting[place]
            # What one object can't have must not keep the others waiting.
            with contextlib.suppress(StatusError), self._store.attempt():
                visit.at(place)
                self._finish(place, now)
        return self._store.version - before

    def _notice_removal(self, resource: str, key: str) -> None:
        namespace, _, _ = key.rpartition("/")
        if namespace:
            self._add_going((NAMESPACE.resource, namespace))
        self._add_going((CUSTOM_RESOURCE_DEFINITION.resource, resource))

    def _add(self, places: Iterable[Place]) -> None:
        self._waiting |= dict.fromkeys(places)

    def _add_going(self, place: Place | None) -> None:
        if place is not None and self._is_going(place):
            self._waiting[place] = None

    def _is_going(self, place: Place) -> bool:
        kind = self._store.registry.of(place[0])
        if kind is None:
            return False
        record = self._store.record_at(kind, place[1])
        return record is not None and record.is_going

    def _finish(self, place: Place, now: datetime) -> None:
        resource, name = place
        if resource == NAMESPACE.resource and self._is_going(place):
            _empty(self._store, name, now)
            _finish(self._store, name)
        elif resource == CUSTOM_RESOURCE_DEFINITION.resource and self._is_going(place):
            _clean_up(self._store, name, now)


def _empty(store: Store, namespace: str, now: datetime) -> None:
    for kind in store.kinds:
        if kind.namespaced:
            _delete_all(store, kind, now, namespace)


def _delete_all(store: Store, kind: Kind, now: datetime, namespace: str = "") -> None:
    """Ask all of a kind to go that was not asked before."""
    for record in store.list(kind, namespace=namespace).records:
        if not record.is_going:
            place, name = kind.place(record.key)
            store.delete(kind, name, now, _BACKGROUND, namespace=place)


def _finish(store: Store, namespace: str) -> None:
    if all(store.is_empty(kind, namespace=namespace) for kind in store.kinds if kind.namespaced):
        finalize(store, namespace)


def _clean_up(store: Store, crd_name: str, now: datetime) -> None:
    """Delete what a CRD defines, then let the CRD go."""
    crd = store.get(CUSTOM_RESOURCE_DEFINITION, crd_name)
    kind = store.registry.of(crd_name)
    if not cleanup_needed(crd):
        return
    if kind is not None:
        _delete_all(store, kind, now)
    if kind is None or store.is_empty(kind):
        store.commit(CUSTOM_RESOURCE_DEFINITION, crd, cleaned(crd))


class _Visit:
    """Looks at one object after the other, and does what its owners or its finalizers ask for."""

    def __init__(self, store: Store, now: datetime) -> None:
        self._store, self._now = store, now

    def at(self, place: Place, uid: str = "") -> None:
        """Visit what stands at a place, if it is still there, and still the one with the UID."""
        item = self._item(place)
        if item is None or (uid and item.uid != uid):
            return
        if item.waits_for(ORPHAN):
            self._orphan_dependents(item)
        elif item.waits_for(FOREGROUND):
            self._finish_foreground(item)
        elif item.owners and "deletionTimestamp" not in item.obj["metadata"]:
            self._judge(item)

    def _item(self, place: Place) -> _Item | None:
        kind = self._store.registry.of(place[0])
        if kind is None or not kind.collected:
            return None
        record = self._store.record_at(kind, place[1])
        return None if record is None else _Item(kind, record.object())

    def _dependents_of(self, owner: _Item) -> Iterator[tuple[_Item, Object]]:
        """Who refers to an owner, and by which reference."""
        for place in self._store.dependents(owner.uid):
            if (item := self._item(place)) is not None:
                yield from ((item, each) for each in item.owners if each["uid"] == owner.uid)

    def _orphan_dependents(self, owner: _Item) -> None:
        for dependent, _ in list(self._dependents_of(owner)):
            self._drop_references(dependent, {owner.uid})
        self._drop_finalizer(owner, ORPHAN)

    def _finish_foreground(self, owner: _Item) -> None:
        # Those that do not block are judged too while their owner still waits.
        for dependent, _ in list(self._dependents_of(owner)):
            if "deletionTimestamp" not in dependent.obj["metadata"]:
                self._judge(dependent)
        if not any(reference.get("blockOwnerDeletion") for _, reference in self._dependents_of(owner)):
            self._drop_finalizer(owner, FOREGROUND)

    def _judge(self, item: _Item) -> None:
        standings = [self._standing(item, reference) for reference in item.owners]
        if "unknown" in standings:
            return
        if "solid" in standings:
            pairs = zip(item.owners, standings, strict=True)
            self._drop_references(item, {each["uid"] for each, standing in pairs if standing != "solid"})
        elif "waiting" in standings and any(True for _ in self._dependents_of(item)):
            self._unblock_a_circle(item)
            self._delete(item, "Foreground")
        else:
            self._delete(item, _policy_of(item))

    def _standing(self, item: _Item, reference: Object) -> _Standing:
        """What an owner is to a dependent."""
        group = reference["apiVersion"].rpartition("/")[0]
        kind = next((k for k in self._store.kinds if (k.group, k.kind) == (group, reference["kind"])), None)
        if kind is None or (kind.namespaced and not item.namespace):
            return "unknown"
        record = self._store.record(kind, reference["name"], namespace=item.namespace)
        if record is None or record.uid != reference["uid"]:
            return "gone"
        # To decode a job with a thousand replicas for each change of one of its pods would be too much.
        waits = record.is_going and _Item(kind, record.object()).waits_for(FOREGROUND)
        return "waiting" if waits else "solid"

    def _unblock_a_circle(self, item: _Item) -> None:
        """Objects that own each other would wait for each other for ever."""
        if any(dependent.waits_for(FOREGROUND) for dependent, _ in self._dependents_of(item)):
            free = [owner | {"blockOwnerDeletion": False} for owner in item.owners]
            self._write(item, {"ownerReferences": free})

    def _drop_references(self, item: _Item, uids: set[str]) -> None:
        if uids:
            self._write(item, {"ownerReferences": [each for each in item.owners if each["uid"] not in uids]})

    def _drop_finalizer(self, item: _Item, finalizer: str) -> None:
        rest = [each for each in item.obj["metadata"]["finalizers"] if each != finalizer]
        self._write(item, {"finalizers": rest})

    def _write(self, item: _Item, metadata: Object) -> None:
        """Write metadata past all admission: an object that is invalid by now must be able to go."""
        changed = {key: value for key, value in (item.obj["metadata"] | metadata).items() if value != []}
        self._store.amend(item.kind, item.obj, item.obj | {"metadata": changed}, self._now)

    def _delete(self, item: _Item, policy: str) -> None:
        options = DeleteOptions(preconditions=Preconditions(item.uid), propagation_policy=policy)
        name = item.obj["metadata"]["name"]
        self._store.delete(item.kind, name, self._now, options, namespace=item.namespace)


def _policy_of(item: _Item) -> str:
    """A finalizer that is there already says how its dependents are to go."""
    finalizers = item.obj["metadata"].get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
