"""What controllers of a real cluster do by themselves, as steps: collect garbage, empty namespaces.

Each step is one round over all objects, in a fixed order, and returns how many writes it took; 0 means that
nothing is left to do now. Pods with a grace and objects with finalizers take more than one round.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal, NamedTuple

from bireme.apiserver.deletion import DeleteOptions, Preconditions
from bireme.apiserver.kinds import NAMESPACE, Kind
from bireme.apiserver.namespaces import is_terminating
from bireme.apiserver.objects import FOREGROUND, ORPHAN
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.subresources import finalize

_MOST_ROUNDS: Final = 100
_Standing = Literal["solid", "waiting", "gone", "unknown"]


class DidNotSettleError(AssertionError):
    """Round after round found something to do."""


class _Item(NamedTuple):
    """An object as it was when the round began."""

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
    _Round(store, now).run()
    return store.version - before


def finish_namespaces(store: Store, now: datetime) -> int:
    """One round over terminating namespaces: what is in them is deleted; an empty one goes."""
    before = store.version
    for namespace in store.all(NAMESPACE):
        if is_terminating(namespace):
            _finish(store, namespace["metadata"]["name"], now)
    return store.version - before


def settle(store: Store, now: datetime) -> int:
    """Both, until nothing is left to do at this moment."""
    before = store.version
    for _ in range(_MOST_ROUNDS):
        if not collect(store, now) + finish_namespaces(store, now):
            return store.version - before
    raise DidNotSettleError(f"still writing after {_MOST_ROUNDS} rounds")


def _finish(store: Store, namespace: str, now: datetime) -> None:
    options = DeleteOptions(propagation_policy="Background")
    inside = [kind for kind in store.kinds if kind.namespaced]
    for kind in inside:
        store.delete_collection(kind, now, options, namespace=namespace)
    if not any(store.list(kind, namespace=namespace).items for kind in inside):
        finalize(store, namespace)


class _Round:
    def __init__(self, store: Store, now: datetime) -> None:
        self._store, self._now = store, now
        self._items = [_Item(kind, obj) for kind in store.kinds for obj in store.all(kind)]
        self._dependents: dict[str, list[_Item]] = defaultdict(list)
        for item in self._items:
            for owner in item.owners:
                self._dependents[owner["uid"]].append(item)

    def run(self) -> None:
        for seen in self._items:
            item = self._now_at(seen)
            if item is None:
                continue
            if item.waits_for(ORPHAN):
                self._orphan_dependents(item)
            elif item.waits_for(FOREGROUND):
                self._finish_foreground(item)
            elif item.owners and "deletionTimestamp" not in item.obj["metadata"]:
                self._judge(item)

    def _now_at(self, seen: _Item) -> _Item | None:
        """The same object as it is by now; None if it is gone."""
        obj = self._store.find(seen.kind, seen.obj["metadata"]["name"], namespace=seen.namespace)
        return _Item(seen.kind, obj) if obj is not None and obj["metadata"]["uid"] == seen.uid else None

    def _dependents_of(self, owner: _Item) -> Iterator[tuple[_Item, Object]]:
        """Who still refers to an owner, and by which reference."""
        for seen in self._dependents[owner.uid]:
            if (item := self._now_at(seen)) is not None:
                yield from ((item, each) for each in item.owners if each["uid"] == owner.uid)

    def _orphan_dependents(self, owner: _Item) -> None:
        for dependent, _ in list(self._dependents_of(owner)):
            self._drop_references(dependent, {owner.uid})
        self._drop_finalizer(owner, ORPHAN)

    def _finish_foreground(self, owner: _Item) -> None:
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
        obj = self._store.find(kind, reference["name"], namespace=item.namespace)
        if obj is None or obj["metadata"]["uid"] != reference["uid"]:
            return "gone"
        return "waiting" if _Item(kind, obj).waits_for(FOREGROUND) else "solid"

    def _unblock_a_circle(self, item: _Item) -> None:
        """Objects that own each other would wait for each other for ever."""
        if any(dependent.waits_for(FOREGROUND) for dependent, _ in self._dependents_of(item)):
            free = [owner | {"blockOwnerDeletion": False} for owner in item.owners]
            self._write(item, {"ownerReferences": free})

    def _drop_references(self, item: _Item, uids: set[str]) -> None:
        self._write(item, {"ownerReferences": [each for each in item.owners if each["uid"] not in uids]})

    def _drop_finalizer(self, item: _Item, finalizer: str) -> None:
        rest = [each for each in item.obj["metadata"]["finalizers"] if each != finalizer]
        self._write(item, {"finalizers": rest})

    def _write(self, item: _Item, metadata: Object) -> None:
        name = item.obj["metadata"]["name"]
        self._store.patch(item.kind, name, {"metadata": metadata}, namespace=item.namespace)

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
