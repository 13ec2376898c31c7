"""The history of a kind, and those who follow it.

Nothing is pushed: a watcher is asked for what is new to it (`poll`), and may leave word to be called when
there is something. So it needs no thread, and a simulation decides when a watcher hears of a change.
"""

import bisect
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.kinds import Kind
from bireme.apiserver.records import Record
from bireme.apiserver.rules import Object
from bireme.apiserver.selectors import Selection

MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one kind's history: a large object that changes often must not fill the memory."""
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Event(NamedTuple):
    """What a watcher is told; an ERROR carries a Status and is the last one."""

    type: EventType
    raw: bytes

    @property
    def object(self) -> Object:
        """Decoded anew at each call."""
        decoded: Object = _decode(self.raw)
        return decoded

    @property
    def line(self) -> bytes:
        """As it goes over the wire."""
        return b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.raw)


class Change(msgspec.Struct):
    """One write: `before` is None for a creation, `after` for a removal."""

    version: int
    key: str
    before: Record | None
    after: Record | None
    _departed: Record | None = None

    @property
    def weight(self) -> int:
        """The bytes that are kept for its sake alone."""
        return 0 if self.before is None else len(self.before.raw)

    def departed(self) -> Record:
        """What was there before, with the version of this change; there must have been something."""
        if self._departed is None:
            assert self.before is not None, "nothing was there before"
            self._departed = self.before.at_version(self.version)
        return self._departed


class History:
    """The last changes of one kind, oldest first, and the watchers that follow them."""

    def __init__(self, limit: int, horizon: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self.limit = limit
        self.horizon = horizon
        """The version of the last change that is forgotten: nothing before it can be told any more."""
        self._most_bytes, self._bytes = most_bytes, 0
        self._changes: list[Change] = []
        self._watchers: dict[Watcher, None] = {}

    def append(self, change: Change) -> None:
        """Add a change; watchers are woken when it is published."""
        self._changes.append(change)
        self._bytes += change.weight

    def publish(self) -> None:
        """Forget what is too old, and tell the watchers that there is something new."""
        # Forgetting one change at a time would move the whole list each time.
        if len(self._changes) >= 2 * self.limit:
            self._forget(self.limit)
        elif len(self._changes) > self.limit:
            self.horizon = self._changes[-self.limit - 1].version
        if self._bytes > self._most_bytes:
            self._forget(self._lighter())
        for watcher in tuple(self._watchers):
            watcher.wake()

    def take_back(self) -> None:
        """Forget the latest change, as if it had not been: nobody must have heard of it."""
        self._bytes -= self._changes.pop().weight

    def compact(self) -> None:
        """Forget everything: whoever is behind has to list again."""
        self._forget(0)

    def since(self, version: int) -> Iterator[Change]:
        """The changes after a version, oldest first; the horizon must not be behind it."""
        start = bisect.bisect_right(self._changes, version, key=lambda change: change.version)
        for place in range(start, len(self._changes)):
            yield self._changes[place]

    def back_to(self, version: int) -> Iterator[Change]:
        """The changes after a version, newest first."""
        for change in reversed(self._changes):
            if change.version <= version:
                return
            yield change

    def changes(self) -> tuple[Change, ...]:
        return tuple(change for change in self._changes if change.version > self.horizon)

    def restore(self, changes: tuple[Change, ...], horizon: int) -> None:
        """Take up an earlier history; whoever watches is cut off, as by a restart."""
        self._changes, self.horizon = list(changes), horizon
        self._bytes = sum(change.weight for change in changes)
        self.close()

    def close(self) -> None:
        """Cut off whoever watches."""
        for watcher in list(self._watchers):
            watcher.close()
            watcher.wake()

    def follow(self, watcher: "Watcher") -> None:
        self._watchers[watcher] = None

    def leave(self, watcher: "Watcher") -> None:
        self._watchers.pop(watcher, None)

    def _lighter(self) -> int:
        """How many of the last changes weigh half of what all may weigh."""
        weight = 0
        for kept, change in enumerate(reversed(self._changes)):
            weight += change.weight
            if weight > self._most_bytes // 2:
                return kept
        return len(self._changes)

    def _forget(self, kept: int) -> None:
        gone = len(self._changes) - kept
        if gone > 0:
            self._bytes -= sum(change.weight for change in self._changes[:gone])
            self.horizon = max(self.horizon, self._changes[gone - 1].version)
            del self._changes[:gone]


class Watcher:
    """One who follows a kind from a version on. Close it, or the history keeps it."""

    def __init__(
        self,
        kind: Kind,
        history: History,
        selection: Selection,
        version: int,
        current: Callable[[], int],
        initial: list[Event],
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.closed = False
        self.version = version
        """All changes up to this one were told."""
        self.kind = kind
        self._history, self._selection = history, selection
        self._current, self._pending, self._wake = current, initial, wake
        history.follow(self)

    def poll(self) -> list[Event]:
        """What is new since the last time. One who fell behind the history gets an ERROR, 410 Expired."""
        events, self._pending = self._pending, []
        if self.closed:
            return events
        if self.version < self._history.horizon:
            self.close()
            expired = errors.expired_version(self.version, self._history.horizon)
            return [*events, Event("ERROR", _encode(expired.status))]
        current = self._current()
        for change in self._history.since(self.version):
            if change.version > current:
                break
            if (event := self._event(change)) is not None:
                events.append(event)
        self.version = max(self.version, current)
        return events

    def bookmark(self) -> Event:
        """Up to which version all was told."""
        return bookmark(self.kind, self.version)

    def close(self) -> None:
        """Hear of nothing more; twice is once."""
        self.closed = True
        self._history.leave(self)

    def wake(self) -> None:
        if self._wake is not None:
            self._wake()

    def _event(self, change: Change) -> Event | None:
        before, after = change.before, change.after
        was = before is not None and self._selection.matches(before)
        if after is not None and self._selection.matches(after):
            return Event("MODIFIED" if was else "ADDED", after.raw)
        # Also for one that only stopped to match: as the watcher knew it, not as it is.
        return Event("DELETED", change.departed().raw) if was else None


def bookmark(kind: Kind, version: int, *, ends_initial: bool = False) -> Event:
    metadata: Object = {"resourceVersion": str(version)}
    if ends_initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    marked = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return Event("BOOKMARK", _encode(marked))
