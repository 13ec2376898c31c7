"""The way from a controller to the cluster: what is lost, delayed, refused and told twice on it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextvars import Context
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD
from bireme.apiserver.routes import Answer, Request, answer, find_target, open_watch, watch_seconds
from bireme.apiserver.rules import Object
from bireme.kube.errors import TransportError, error_from
from bireme.kube.transport import Response
from bireme.testing.simulation.cluster import Cluster
from bireme.testing.simulation.streams import Stream
from bireme.testing.simulation.tape import Fault, Place, Tape

BOOKMARK_SECONDS: Final = 60.0
LATE: Final = "a late call"
"""Who writes what is done after its sender gave up."""
_HEADERS: Final[dict[str, str]] = {"Content-Type": "application/json"}
_SLOWEST: Final = 0.02
"""Seconds that a call or an event is on its way, at most."""
_REFUSALS: Final = {
    "throttled": (429, "TooManyRequests", "the server is busy"),
    "error": (500, "InternalError", "etcdserver: leader changed"),
    "conflict": (409, "Conflict", "the object has been modified"),
}
_encode: Final = msgspec.json.Encoder().encode


class Process(Protocol):
    """Who is at the other end."""

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    def kill(self, seconds: float) -> None: ...


class Call(NamedTuple):
    """One call of a controller, as it is sent."""

    number: int
    process: str
    identity: str
    request: Request
    fault: Fault | None

    @property
    def writes(self) -> bool:
        return self.request.method != "GET"

    def __str__(self) -> str:
        method, path = self.request.method, self.request.path
        return f"call {self.number} {method} {path.removeprefix('/apis/').removeprefix('/api/')}"


class Listener(Protocol):
    """Who judges the calls."""

    def sent(self, call: Call) -> None: ...
    def served(self, call: Call, *, changed: bool) -> None: ...
    def answered(self, call: Call, code: int, body: Object) -> None: ...


class Network:
    """All connections, and the faults that the tape has for them."""

    def __init__(self, cluster: Cluster, tape: Tape, listener: Listener) -> None:
        self.cluster, self.listener = cluster, listener
        self._faults = {(fault.at, fault.number): fault for fault in tape.faults}
        self._spent: set[Fault] = set()
        self.fired: list[Fault] = []
        self.calls = 0
        self.events = 0
        self.connections: list[Connection] = []
        self._cut_until: dict[str, float] = {}
        self._lags_until: dict[str, float] = {}
        self.quota_until = 0.0
        self.written: list[int] = []
        """The numbers of the calls that write something other than a lease."""
        cluster.loop.call_later(BOOKMARK_SECONDS, self._send_bookmarks, context=Context())

    def connect(self, process: Process) -> "Connection":
        connection = Connection(self, process)
        self.connections.append(connection)
        return connection

    def fault_at(self, at: Place, number: int) -> Fault | None:
        """The fault that strikes there, if it has not done so before."""
        fault = self._faults.get((at, number))
        return None if fault in self._spent else fault

    def fire(self, fault: Fault, who: str) -> None:
        """Take note that a fault of the tape has come true."""
        self.fired.append(fault)
        self._spent.add(fault)
        self.cluster.stir()
        self.cluster.trace.add(who, f"!! {fault}")

    def time(self) -> float:
        return self.cluster.loop.time()

    def latency(self) -> float:
        return self.cluster.random.random() * _SLOWEST

    # ---- what lasts

    def cut(self, process: str, seconds: float) -> None:
        """Let nothing through for a while; whatever was followed is broken afterwards."""
        self._cut_until[process] = max(self.time() + seconds, self._cut_until.get(process, 0.0))
        self._later(seconds, self._break, process)

    def cut_for(self, process: str) -> float:
        """The seconds for which nothing comes through."""
        return max(0.0, self._cut_until.get(process, 0.0) - self.time())

    def break_all(self) -> None:
        """Let everybody's watches end: they ask to go on from where they were."""
        # Not a set of names: its order would be another in each run.
        for process in dict.fromkeys(connection.process.name for connection in self.connections):
            self._break(process)

    def _break(self, process: str) -> None:
        for connection in self.connections:
            if connection.process.name == process:
                for stream in list(connection.streams):
                    stream.fail("the connection was reset")

    def lag(self, process: str, seconds: float) -> None:
        """Let all that a process follows come from a server that is behind."""
        self._lags_until[process] = self.time() + seconds

    def lags_for(self, process: str) -> float:
        return max(0.0, self._lags_until.get(process, 0.0) - self.time(), self.cut_for(process))

    def _later(self, seconds: float, work: Callable[..., None], *args: Any) -> None:
        self.cluster.loop.call_later(seconds, work, *args, context=Context())

    def _send_bookmarks(self) -> None:
        for connection in self.connections:
            for stream in list(connection.streams):
                stream.send_bookmark()
        self._later(BOOKMARK_SECONDS, self._send_bookmarks)


class Connection:
    """A bireme.kube.transport.Transport of one life of one process."""

    def __init__(self, network: Network, process: Process) -> None:
        self.process = process
        self.streams: dict[Stream, None] = {}
        self._network, self._cluster = network, network.cluster
        self._identity = process.identity
        self._dead = False

    def die(self) -> None:
        """Let nothing of the process through any more; twice is once."""
        if not self._dead:
            self._dead = True
            self._network.connections.remove(self)

    async def close(self) -> None:
        """Nothing is kept that had to be closed."""

    # ---- calls

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = 30,
    ) -> Response:
        call = self._send(Request(method, path, params or {}, body or b"", content_type))
        made = await self._faulty(call, timeout_seconds or 30.0)
        if made is None:
            made = await self._commit(call, self._network.latency(), timeout_seconds or 30.0)
        made = await self._after(call, made)
        self._told(call, made)
        return Response(made.code, _headers(call, made), _encode(made.body))

    def _send(self, request: Request) -> Call:
        if self._dead:
            raise TransportError("this process is dead", ambiguous=False)
        network = self._network
        network.calls += 1
        fault = network.fault_at("call", network.calls)
        if fault is not None and not applies(fault, request):
            fault = None
        call = Call(network.calls, self.process.name, self._identity, request, fault)
        network.listener.sent(call)
        if call.writes and "/leases" not in request.path:
            network.written.append(call.number)
        if fault is not None:
            network.fire(fault, self._identity)
        return call

    def _told(self, call: Call, made: Answer) -> None:
        self._cluster.trace.add(self._identity, f"{call} -> {made.code} {made.body.get('reason', '')}")
        self._network.listener.answered(call, made.code, made.body)

    async def _faulty(self, call: Call, timeout: float) -> Answer | None:
        """What a fault makes of a call before it reaches the server; None if it gets there."""
        fault = call.fault
        if fault is not None:
            match fault.name:
                case "crash-before":
                    await self._crash(fault)
                case "refused":
                    raise TransportError(f"{call}: connection refused", ambiguous=False)
                case "partition":
                    self._network.cut(self.process.name, fault.seconds)
                case "late":
                    return await self._commit(call, fault.seconds, timeout)
                case name if name in _REFUSALS:
                    return _refusal(*_REFUSALS[name])
        cut = (
            timeout
            if fault is not None and fault.name == "lost"
            else self._network.cut_for(self.process.name)
        )
        if cut:
            await asyncio.sleep(min(cut, timeout))
            raise TransportError(f"{call}: timed out")
        return None

    async def _commit(self, call: Call, seconds: float, timeout: float) -> Answer:
        """Let the server do it after so long, whether or not somebody still waits for the answer."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        # What is done after its sender gave up is nobody's doing any more.
        who = call.identity if seconds < timeout else LATE
        loop.call_later(seconds, self._serve, call, who, answered, context=Context())
        if seconds < timeout:
            return await answered
        await asyncio.sleep(timeout)
        raise TransportError(f"{call}: timed out")

    def _serve(self, call: Call, who: str, answered: asyncio.Future[Answer]) -> None:
        store = self._cluster.store
        before = store.version
        with self._cluster.acting(who):
            made = self._over_quota(call) or answer(store, call.request, self._cluster.now())
        if call.writes and made.code < 300:
            self._network.listener.served(call, changed=store.version != before)
        loop = self._cluster.loop
        loop.call_later(self._network.latency(), _give, answered, made, context=Context())

    def _over_quota(self, call: Call) -> Answer | None:
        if self._network.time() >= self._network.quota_until or call.request.method != "POST":
            return None
        if not call.request.path.endswith("/pods"):
            return None
        name = msgspec.json.decode(call.request.body)["metadata"]["name"]
        refused = errors.forbidden(POD, name, "exceeded quota: pods, requested: 1, used: 4, limited: 4")
        return Answer(refused.code, refused.status)

    async def _after(self, call: Call, made: Answer) -> Answer:
        """The answer that comes back, once the server has done it."""
        fault = call.fault
        match fault.name if fault is not None else "":
            case "crash-after":
                assert fault is not None
                await self._crash(fault)
            case "timeout":
                raise TransportError(f"{call}: no answer")
            case "error-after":
                return _refusal(500, "InternalError", "etcdserver: request timed out")
        return made

    async def _crash(self, fault: Fault) -> None:
        self.process.kill(fault.seconds)
        await asyncio.get_running_loop().create_future()

    # ---- watches

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        call = self._send(Request("GET", path, params))
        made = await self._faulty(call, 30.0)
        if made is not None:
            self._told(call, made)
            raise error_from(made.code, _headers(call, made), _encode(made.body))
        await asyncio.sleep(self._network.latency())
        stream = self._open(call)
        self.streams[stream] = None
        try:
            await self._after(call, Answer(200, {}))
            async with contextlib.aclosing(stream.chunks()) as chunks:
                yield chunks
        finally:
            self.streams.pop(stream, None)
            stream.close()

    def _open(self, call: Call) -> Stream:
        stream = Stream(
            self._network, self.process, find_target(self._cluster.store, call.request.path)[0].kind
        )
        try:
            stream.follow(
                open_watch(self._cluster.store, call.request.path, call.request.params, stream.wake)
            )
        except StatusError as refused:
            self._told(call, Answer(refused.code, refused.status))
            raise error_from(refused.code, _HEADERS, _encode(refused.status)) from refused
        if seconds := watch_seconds(call.request.params):
            stream.end_after(seconds)
        return stream


def _give(answered: asyncio.Future[Answer], made: Answer) -> None:
    if not answered.done():
        answered.set_result(made)


def applies(fault: Fault, request: Request) -> bool:
    """Whether a server could do this to such a call: only a change of what is there can be a conflict."""
    if fault.name == "conflict":
        return request.method in ("PUT", "PATCH")
    if request.params.get("watch"):
        return fault.name not in ("timeout", "late", "error-after")
    return True


def _headers(call: Call, made: Answer) -> dict[str, str]:
    if made.code != 429 or call.fault is None:
        return _HEADERS
    return _HEADERS | {"Retry-After": str(int(call.fault.seconds))}


def _refusal(code: int, reason: str, message: str) -> Answer:
    return Answer(code, errors.status(code, reason, message))
