"""A clock that tests move, and a transport that says what tests tell it to."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.kube.transport import Response

T = TypeVar("T")
ROUNDS = 30
"""Turns of the event loop that let everything happen which waits for no clock."""


async def settle() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


class FakeClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = self._now + seconds, asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    async def advance(self, seconds: float) -> None:
        """Move on, and wake sleepers in their order, each with all that follows from it."""
        end = self._now + seconds
        await settle()
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end and not sleeper[1].done()]:
            self._now, future = min(due, key=lambda sleeper: sleeper[0])
            future.set_result(None)
            await settle()
        self._now = end


class InstantClock:
    """Sleeps at once, and remembers how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        await asyncio.sleep(0)


class Sent(NamedTuple):
    """A request as it came to the transport."""

    method: str
    path: str
    params: Mapping[str, str]
    body: Any
    content_type: str
    timeout_seconds: float | None


class Stream:
    """The server's end of a watch."""

    def __init__(self, path: str, params: Mapping[str, str]) -> None:
        self.path = path
        self.params = dict(params)
        self.is_open = True
        self._chunks: asyncio.Queue[bytes | KubeError | None] = asyncio.Queue()

    def send(self, type_: str, obj: Mapping[str, Any]) -> None:
        self.send_bytes(json.dumps({"type": type_, "object": obj}).encode() + b"\n")

    def send_bytes(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def close(self) -> None:
        self._chunks.put_nowait(None)

    def fail(self, error: KubeError) -> None:
        self._chunks.put_nowait(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, KubeError):
                raise chunk
            yield chunk


class ScriptedTransport:
    """Gives the answers that were put in, in that order, and opens a stream for whoever asks."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.streams: list[Stream] = []
        self.is_closed = False
        self._answers: deque[Response | KubeError] = deque()
        self._refusals: deque[KubeError] = deque()

    def answer(self, status: int = 200, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        self._answers.append(Response(status, headers or {}, data))

    def fail(self, error: KubeError) -> None:
        self._answers.append(error)

    def refuse_stream(self, error: KubeError) -> None:
        self._refusals.append(error)

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
        data = json.loads(body) if body is not None else None
        self.sent.append(Sent(method, path, dict(params or {}), data, content_type, timeout_seconds))
        await asyncio.sleep(0)
        assert self._answers, f"nobody told what to answer to {method} {path}"
        answer = self._answers.popleft()
        if isinstance(answer, KubeError):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        if self._refusals:
            raise self._refusals.popleft()
        stream = Stream(path, params)
        self.streams.append(stream)
        try:
            yield stream.chunks()
        finally:
            stream.is_open = False

    async def close(self) -> None:
        self.is_closed = True


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run it in the background; what it raises is raised here."""
    task = asyncio.get_running_loop().create_task(work)
    await settle()
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def calm_client(transport: ScriptedTransport, clock: FakeClock | InstantClock) -> Client:
    """A client without chance: the whole of every wait is waited."""
    return Client(transport, clock=clock, random=lambda: 1.0)


def status(code: int, reason: str = "", **details: Any) -> dict[str, Any]:
    """A Status as the API server writes it."""
    message = f"{reason or code} for a test"
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def pod(name: str, version: int, *, uid: str = "", owner: str = "", phase: str = "Pending") -> dict[str, Any]:
    """A pod on the wire."""
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-of-{name}"}
    metadata["resourceVersion"] = str(version)
    if owner:
        metadata["ownerReferences"] = [
            {"kind": "GenericJob", "name": "job", "uid": owner, "controller": True}
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}


def page(version: int, *items: Mapping[str, Any], more: str = "") -> dict[str, Any]:
    """A page of a list on the wire."""
    return {
        "kind": "PodList",
        "metadata": {"resourceVersion": str(version), "continue": more},
        "items": items,
    }


def bookmark(version: int) -> dict[str, Any]:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}
