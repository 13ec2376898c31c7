"""Where objects are kept: a table and a history for each kind, and one counter of versions for all."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import in_order
from bireme.apiserver.rules import Object
from bireme.apiserver.watch import Change, History


class TableSnapshot(msgspec.Struct, frozen=True):
    objects: dict[str, Object]
    changes: tuple[Change, ...]
    horizon: int


class Snapshot(msgspec.Struct, frozen=True):
    """All that a store holds at one moment. It shares the objects, which nobody changes."""

    version: int
    tables: dict[str, TableSnapshot]


class Table:
    """The objects of one kind, by key."""

    def __init__(self, history: int) -> None:
        self.objects: dict[str, Object] = {}
        self.history = History(history)
        self._sorted: list[str] | None = None

    def keys(self) -> list[str]:
        """In the order of lists."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        return self._sorted

    def at(self, version: int) -> Mapping[str, Object]:
        """The objects as they were; the horizon must not be behind the version."""
        changes = list(self.history.back_to(version))
        if not changes:
            return self.objects
        objects = dict(self.objects)
        for change in changes:
            if change.before is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.before
        return objects

    def put(self, key: str, obj: Object, version: int) -> None:
        before = self.objects.get(key)
        if before is None:
            self._sorted = None
        self.objects[key] = obj
        self.history.append(Change(version, key, before, obj))

    def remove(self, key: str, version: int) -> Object:
        before = self.objects.pop(key)
        self._sorted = None
        self.history.append(Change(version, key, before, None))
        return before

    def snapshot(self) -> TableSnapshot:
        return TableSnapshot(dict(self.objects), self.history.changes(), self.history.horizon)

    def restore(self, snapshot: TableSnapshot) -> None:
        self.objects, self._sorted = dict(snapshot.objects), None
        self.history.restore(snapshot.changes, snapshot.horizon)


class Tables:
    """The tables of all kinds."""

    def __init__(self, kinds: Iterable[Kind], history: int) -> None:
        self.version = 1
        self._tables = {kind.resource: Table(history) for kind in kinds}

    def __getitem__(self, kind: Kind) -> Table:
        return self._tables[kind.resource]

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def put(self, kind: Kind, obj: Object) -> Object:
        """Store an object under the next version, and return it as it is stored."""
        self.version += 1
        metadata = obj["metadata"] | {"resourceVersion": str(self.version)}
        stored = obj | {"metadata": in_order(metadata)}
        self[kind].put(kind.key_of(obj), stored, self.version)
        return stored

    def remove(self, kind: Kind, key: str) -> Object:
        """Remove an object under the next version, and return it as it last was."""
        self.version += 1
        return self[kind].remove(key, self.version)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.version, {name: table.snapshot() for name, table in self._tables.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Take up an earlier state; a kind that it does not know begins empty."""
        self.version = snapshot.version
        empty = TableSnapshot({}, (), snapshot.version)
        for name, table in self._tables.items():
            table.restore(snapshot.tables.get(name, empty))
