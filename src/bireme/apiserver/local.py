"""A client's way to a store in the same process: the paths of Kubernetes, no network."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from bireme.apiserver.errors import StatusError
from bireme.apiserver.routes import Request, handle, open_watch, watch_seconds
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Event, Watcher
from bireme.kube.errors import TransportError, error_from
from bireme.kube.transport import Response

_HEADERS: Final = {"Content-Type": "application/json"}
_encode: Final = msgspec.json.Encoder().encode


class LocalTransport:
    """A bireme.kube.transport.Transport over a store; `now` is asked at each call.

    A call lets the other tasks go first, once; then it is done and answered in one step.
    """

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._streams: dict[_Stream, None] = {}
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = 30,  # noqa: ARG002 - an answer takes no time
    ) -> Response:
        await asyncio.sleep(0)
        self._check_open(path)
        request = Request(method, path, params or {}, body or b"", content_type)
        reply = handle(self._store, request, self._now())
        return Response(reply.code, _HEADERS, reply.json())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self._check_open(path)
        ready = asyncio.Event()
        try:
            seconds = watch_seconds(params)
            watcher = open_watch(self._store, path, params, ready.set)
        except StatusError as refused:
            raise error_from(refused.code, _HEADERS, _encode(refused.status)) from refused
        stream = _Stream(watcher, ready, wants_bookmarks=params.get("allowWatchBookmarks") == "true")
        self._streams[stream] = None
        try:
            async with contextlib.aclosing(stream.chunks(seconds)) as chunks:
                yield chunks
        finally:
            self._streams.pop(stream, None)
            watcher.close()

    async def close(self) -> None:
        """End all streams; what is asked afterwards gets no answer."""
        self._closed = True
        for stream in self._streams:
            stream.end()

    def send_bookmarks(self) -> None:
        """Have every stream that wants bookmarks send one; a server does so about once in a minute."""
        for stream in self._streams:
            stream.send_bookmark()

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise TransportError(f"{path}: the transport is closed", ambiguous=False)


class _Stream:
    """One watch on its way to a client."""

    def __init__(self, watcher: Watcher, ready: asyncio.Event, *, wants_bookmarks: bool) -> None:
        self._watcher, self._ready = watcher, ready
        self._wants_bookmarks, self._bookmark_due = wants_bookmarks, False

    async def chunks(self, seconds: float | None) -> AsyncGenerator[bytes, None]:
        """Lines of JSON, as many at once as there are; they end after so many seconds, or by an error."""
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        while deadline is None or loop.time() < deadline:
            self._ready.clear()
            if events := self._news():
                yield b"".join(event.line for event in events)
            elif self._watcher.closed:
                return
            else:
                # Only here: around a yield, the alarm would hit whatever the client does with a chunk.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await self._ready.wait()

    def _news(self) -> list[Event]:
        events = self._watcher.poll()
        if self._bookmark_due and not self._watcher.closed:
            self._bookmark_due = False
            events.append(self._watcher.bookmark())
        return events

    def send_bookmark(self) -> None:
        self._bookmark_due = self._wants_bookmarks
        self._ready.set()

    def end(self) -> None:
        self._watcher.close()
        self._ready.set()
