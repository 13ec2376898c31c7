"""A watch on its way to a controller: late, twice, cut off, silent, or from a server that is behind."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextvars import Context
from typing import Final, Protocol

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.watch import Event, Watcher
from bireme.kube.errors import TransportError
from bireme.testing.simulation.cluster import Cluster
from bireme.testing.simulation.tape import Fault, Place

_encode: Final = msgspec.json.Encoder().encode


class Process(Protocol):
    """Who follows."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...


class Network(Protocol):
    """What a stream must know of the way that it takes."""

    cluster: Cluster
    events: int

    def fault_at(self, at: Place, number: int) -> Fault | None: ...
    def fire(self, fault: Fault, who: str) -> None: ...
    def latency(self) -> float: ...
    def lag(self, process: str, seconds: float) -> None: ...
    def lags_for(self, process: str) -> float: ...


class Stream:
    """One watch: events are polled from the store some time after they happen, and handed on in order."""

    def __init__(self, network: Network, process: Process, kind: str) -> None:
        self._network, self._process, self._kind = network, process, kind
        self._loop = network.cluster.loop
        self._watcher: Watcher | None = None
        self._polled: deque[Event] = deque()
        self._chunks: deque[bytes | TransportError | None] = deque()
        self._ready = asyncio.Event()
        self._pump_due = False
        self._bookmark_due = False
        self._closed = False

    def follow(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.wake()

    def wake(self) -> None:
        """There may be something new; it arrives after a while, behind whatever is on its way already."""
        if not self._pump_due and not self._closed:
            self._pump_due = True
            self._pump_in(self._network.latency())

    def _pump_in(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._pump, context=Context())

    def _pump(self) -> None:
        if self._closed or self._watcher is None:
            return
        if held := self._network.lags_for(self._process.name):
            self._pump_in(held)
            return
        self._pump_due = False
        self._polled.extend(self._watcher.poll())
        while self._polled and not self._closed:
            event = self._polled.popleft()
            if not self._hand_on(event):
                return
        if self._bookmark_due and not self._closed:
            self._bookmark_due = False
            self._put(self._watcher.bookmark().line)

    def _hand_on(self, event: Event) -> bool:
        """Send an event on its way; False if the rest must wait."""
        network = self._network
        network.events += 1
        line = event.line
        fault = network.fault_at("watch", network.events)
        if fault is None:
            self._put(line)
            return True
        network.fire(fault, f"{self._process.identity} {self._kind}")
        match fault.name:
            case "drop":
                self.fail("connection reset by peer")
            case "cut":
                self._put(line[: len(line) // 2])
                self.fail("connection reset by peer")
            case "close":
                self._finish()
            case "duplicate":
                self._put(line + line)
            case "gone":
                # Truly gone: to ask again from the same version gives the same answer.
                network.cluster.store.compact()
                self._put(Event("ERROR", _encode(errors.expired_version(1, 2).status)).line)
                self._finish()
            case "silence":
                self.close()
            case "delay" | "lag":
                self._hold(event, fault)
                return False
        return True

    def _hold(self, event: Event, fault: Fault) -> None:
        network = self._network
        network.events -= 1
        self._polled.appendleft(event)
        if fault.name == "lag":
            network.lag(self._process.name, fault.seconds)
        self._pump_due = True
        self._pump_in(fault.seconds)

    def send_bookmark(self) -> None:
        self._bookmark_due = True
        self.wake()

    def end_after(self, seconds: float) -> None:
        self._loop.call_later(seconds, self._finish, context=Context())

    def fail(self, why: str) -> None:
        """Break the connection."""
        self._put(TransportError(why))
        self.close()

    def _finish(self) -> None:
        self._put(None)
        self.close()

    def _put(self, chunk: bytes | TransportError | None) -> None:
        if not self._closed:
            self._chunks.append(chunk)
            self._ready.set()

    def close(self) -> None:
        """Send nothing more; what is on its way arrives."""
        self._closed = True
        if self._watcher is not None:
            self._watcher.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                if chunk is None:
                    return
                if isinstance(chunk, TransportError):
                    raise chunk
                yield chunk
            self._ready.clear()
            await self._ready.wait()
