"""The cluster of a run: a store, its clock, and everybody who hears of each write."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import Context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

from bireme.apiserver.kinds import LEASE, NAMESPACE, Kind
from bireme.apiserver.lists import Query
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Watcher
from bireme.testing.simulation.loop import VirtualLoop
from bireme.testing.simulation.trace import Trace

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE_OF_JOBS: Final = "work"
NAMESPACE_OF_LEASES: Final = "system"


class Write(NamedTuple):
    """One committed write: `before` is None for a creation, `after` for a removal."""

    number: int
    actor: str
    kind: Kind
    before: Object | None
    after: Object | None

    @property
    def object(self) -> Object:
        obj = self.after if self.after is not None else self.before
        assert obj is not None
        return obj


class Cluster:
    """What is written here is told to all that `listeners` holds, in order, at the moment of the commit.

    A listener must not write itself: it says what it will do later (`later`).
    """

    def __init__(self, loop: VirtualLoop, random: Random, trace: Trace) -> None:
        self.loop, self.random, self.trace = loop, random, trace
        self.store = Store()
        self.listeners: list[Callable[[Write], None]] = []
        self.actor = "server"
        self.writes = 0
        self.stirred_at = 0.0
        """When something happened that may have consequences, in the loop's time; leases have none."""
        self.pending = 0
        """How much is about to be done by somebody other than a controller."""
        self._known: dict[str, dict[str, Object]] = {kind.resource: {} for kind in self.store.kinds}
        self._watchers = [self._follow(kind) for kind in self.store.kinds]
        for name in (NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES):
            self.store.create(NAMESPACE, {"metadata": {"name": name}}, self.now())

    def now(self) -> datetime:
        """The server's clock, in whole seconds."""
        return START + timedelta(seconds=int(self.loop.time()))

    def later(self, low: float, high: float, work: Callable[..., object], *args: Any) -> None:
        """Do something after a while between these seconds, in nobody's process."""
        self.pending += 1
        delay = low + (high - low) * self.random.random()
        self.loop.call_later(delay, self._do, work, args, context=Context())

    def _do(self, work: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.pending -= 1
        work(*args)

    def stir(self) -> None:
        """The cluster is not at rest now."""
        self.stirred_at = self.loop.time()

    @contextlib.contextmanager
    def acting(self, who: str) -> Iterator[None]:
        """Everything that is written inside was written by them."""
        before, self.actor = self.actor, who
        try:
            yield
        finally:
            self.actor = before

    def _follow(self, kind: Kind) -> Watcher:
        watcher = self.store.watch(
            kind, Query(resource_version=str(self.store.version)), wake=lambda: self._tell(kind, watcher)
        )
        return watcher

    def _tell(self, kind: Kind, watcher: Watcher) -> None:
        known = self._known[kind.resource]
        for event in watcher.poll():
            key = kind.key_of(event.object)
            before = known.get(key)
            after = None if event.type == "DELETED" else event.object
            if after is None:
                known.pop(key, None)
            else:
                known[key] = after
            self._wrote(kind, event.type, before, after, event.object)

    def _wrote(
        self, kind: Kind, verb: str, before: Object | None, after: Object | None, told: Object
    ) -> None:
        self.writes += 1
        if kind.resource != LEASE.resource:
            self.stir()
        self.trace.add(self.actor, f"  {verb} {kind.kind} {told['metadata']['name']}", told)
        write = Write(self.writes, self.actor, kind, before, after)
        for listener in self.listeners:
            listener(write)

    def objects(self, kind: Kind) -> list[Object]:
        """All objects of a kind, by name."""
        known = self._known[kind.resource]
        return [known[key] for key in sorted(known)]
