"""Where objects are kept: a table and a history for each kind, and one counter of versions for all.

A write is *staged* first: later writes build on it, watchers do not hear of it. Then it is published, or
taken back. So a group of writes can be saved in between, and nobody is told what may be lost.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from bireme.apiserver.kinds import Kind
from bireme.apiserver.records import Record, seal
from bireme.apiserver.rules import Object
from bireme.apiserver.watch import Change, History


class TableSnapshot(msgspec.Struct, frozen=True):
    records: dict[str, Record]
    changes: tuple[Change, ...]
    horizon: int


class Snapshot(msgspec.Struct, frozen=True):
    """All that a store holds at one moment. It shares the records, which nobody changes."""

    version: int
    tables: dict[str, TableSnapshot]
    horizon: int | None = None
    """Since when nothing was forgotten of kinds that are not in `tables`; they begin now if it is None."""


class Staged(NamedTuple):
    """A change that is not published yet, and the table it is in."""

    resource: str
    change: Change


class Table:
    """The objects of one kind, by key."""

    def __init__(self, history: int, horizon: int = 0) -> None:
        self.records: dict[str, Record] = {}
        self.history = History(history, horizon)
        self._sorted: list[str] | None = None

    def keys(self) -> list[str]:
        """In the order of lists."""
        if self._sorted is None:
            self._sorted = sorted(self.records)
        return self._sorted

    def at(self, version: int) -> Mapping[str, Record]:
        """The objects as they were; the horizon must not be behind the version."""
        changes = list(self.history.back_to(version))
        if not changes:
            return self.records
        records = dict(self.records)
        for change in changes:
            if change.before is None:
                records.pop(change.key, None)
            else:
                records[change.key] = change.before
        return records

    def set(self, key: str, record: Record | None) -> Record | None:
        """Put a record in place, or remove it; return what was there."""
        before = self.records.get(key)
        if record is not None:
            self.records[key] = record
        else:
            self.records.pop(key, None)
        if self._sorted is not None and (before is None) != (record is None):
            place = bisect.bisect_left(self._sorted, key)
            if record is None:
                del self._sorted[place]
            else:
                self._sorted.insert(place, key)
        return before

    def snapshot(self) -> TableSnapshot:
        return TableSnapshot(dict(self.records), self.history.changes(), self.history.horizon)

    def restore(self, snapshot: TableSnapshot) -> None:
        self.records, self._sorted = dict(snapshot.records), None
        self.history.restore(snapshot.changes, snapshot.horizon)


class Tables:
    """The tables of all kinds."""

    def __init__(self, kinds: Iterable[Kind], history: int) -> None:
        self.version = 1
        """Of the latest write, staged or published."""
        self.published = 1
        self._history = history
        self._tables = {kind.resource: Table(history) for kind in kinds}
        self._places: dict[str, tuple[str, str]] = {}
        self._dependents: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        self._staged: list[Staged] = []

    def __getitem__(self, kind: Kind) -> Table:
        return self._tables[kind.resource]

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def add(self, kind: Kind) -> None:
        """Begin a table, unless there is one: its history begins now."""
        if kind.resource not in self._tables:
            self._tables[kind.resource] = Table(self._history, self.version)

    def drop(self, resource: str) -> None:
        """Forget a table, which must be empty; whoever watches it is cut off."""
        self._tables.pop(resource).history.close()

    def put(self, kind: Kind, obj: Object) -> Object:
        """Stage an object under the next version, and return it as it is stored."""
        self.version += 1
        record, stored = seal(kind, obj, self.version)
        self._stage(kind.resource, record.key, record)
        return stored

    def remove(self, kind: Kind, key: str) -> Record:
        """Stage the removal of an object under the next version, and return it as it last was."""
        self.version += 1
        before = self._stage(kind.resource, key, None)
        assert before is not None, "only what is there is removed"
        return before

    def place(self, uid: str) -> tuple[str, str] | None:
        """The resource and key of the object with a UID."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[tuple[str, str]]:
        """The resource and key of each object that names a UID as an owner."""
        return list(self._dependents.get(uid, ()))

    # ---- staged and published

    def staged(self) -> list[Staged]:
        return self._staged

    def publish(self) -> None:
        """Make what is staged final, and tell the watchers."""
        touched = {staged.resource for staged in self._staged}
        self._staged = []
        self.published = self.version
        for resource in sorted(touched):
            if (table := self._tables.get(resource)) is not None:
                table.history.publish()

    def take_back(self, kept: int = 0) -> None:
        """Undo what is staged, but for the first so many changes."""
        while len(self._staged) > kept:
            resource, change = self._staged.pop()
            table = self._tables[resource]
            table.history.take_back()
            self._set(resource, change.key, change.before)
        self.version = self._staged[-1].change.version if self._staged else self.published

    def snapshot(self) -> Snapshot:
        return Snapshot(self.version, {name: table.snapshot() for name, table in self._tables.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Take up an earlier state; a kind that it does not know begins empty."""
        self.version = self.published = snapshot.version
        self._staged = []
        horizon = snapshot.version if snapshot.horizon is None else snapshot.horizon
        empty = TableSnapshot({}, (), horizon)
        for name, table in self._tables.items():
            table.restore(snapshot.tables.get(name, empty))
        self._places.clear()
        self._dependents.clear()
        for name, table in self._tables.items():
            for record in table.records.values():
                self._index(name, record)

    def _stage(self, resource: str, key: str, record: Record | None) -> Record | None:
        before = self._set(resource, key, record)
        change = Change(self.version, key, before, record)
        self._tables[resource].history.append(change)
        self._staged.append(Staged(resource, change))
        return before

    def _set(self, resource: str, key: str, record: Record | None) -> Record | None:
        before = self._tables[resource].set(key, record)
        if before is not None:
            self._unindex(resource, before)
        if record is not None:
            self._index(resource, record)
        return before

    def _index(self, resource: str, record: Record) -> None:
        self._places[record.uid] = (resource, record.key)
        for owner in record.owners:
            self._dependents[owner][resource, record.key] = None

    def _unindex(self, resource: str, record: Record) -> None:
        del self._places[record.uid]
        for owner in record.owners:
            dependents = self._dependents[owner]
            dependents.pop((resource, record.key), None)
            if not dependents:
                del self._dependents[owner]
