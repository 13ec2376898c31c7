"""A client's way to the server in the same process: the same paths and answers, without a socket."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final

import msgspec

from bireme.apiserver.backend import Backend
from bireme.apiserver.errors import StatusError
from bireme.apiserver.routes import Reply, Request, find_target, open_watch, serve, watch_seconds
from bireme.apiserver.watch import Event
from bireme.kube.errors import TransportError, error_from
from bireme.kube.transport import Response

_HEADERS: Final = {"Content-Type": "application/json"}
_READS: Final = ("GET", "HEAD")
_BOOKMARK_SECONDS: Final = 60.0
_TRUE: Final = ("1", "true")
_encode: Final = msgspec.json.Encoder().encode


class InsideTransport:
    """A bireme.kube.transport.Transport over a backend. `client` owns the fields that it writes."""

    def __init__(self, backend: Backend, client: str = "bireme") -> None:
        self._backend, self._client = backend, client
        self._streams: set[asyncio.Event] = set()
        self._closed = False

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
        self._check_open(path)
        request = Request(method, path, params or {}, body or b"", content_type, self._client)
        backend = self._backend

        def operate() -> Reply:
            return serve(backend.store, find_target(backend.store, path), request, backend.now())

        try:
            async with asyncio.timeout(timeout_seconds):
                reply = await (backend.read(operate) if method in _READS else backend.write(operate))
        except StatusError as refused:
            return Response(refused.code, _HEADERS, _encode(refused.status))
        except TimeoutError as error:
            raise TransportError(f"{path}: no answer in time", ambiguous=True) from error
        return Response(reply.code, _HEADERS, reply.json())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self._check_open(path)
        ready = asyncio.Event()
        try:
            seconds = watch_seconds(params)
            store = self._backend.store
            watcher = await self._backend.read(lambda: open_watch(store, path, params, ready.set))
        except StatusError as refused:
            raise error_from(refused.code, _HEADERS, _encode(refused.status)) from refused
        self._streams.add(ready)
        wants_bookmarks = params.get("allowWatchBookmarks") in _TRUE

        async def chunks() -> AsyncGenerator[bytes, None]:
            loop = asyncio.get_running_loop()
            deadline = math.inf if seconds is None else loop.time() + seconds
            bookmark_at = loop.time() + _BOOKMARK_SECONDS if wants_bookmarks else math.inf
            while not self._closed and loop.time() < deadline:
                ready.clear()
                events: list[Event] = watcher.poll()
                if loop.time() >= bookmark_at and not watcher.closed:
                    events.append(watcher.bookmark())
                    bookmark_at = loop.time() + _BOOKMARK_SECONDS
                if events:
                    yield b"".join(event.line for event in events)
                elif watcher.closed:
                    return
                else:
                    with contextlib.suppress(TimeoutError):
                        moment = min(deadline, bookmark_at)
                        async with asyncio.timeout_at(moment if moment < math.inf else None):
                            await ready.wait()

        try:
            async with contextlib.aclosing(chunks()) as opened:
                yield opened
        finally:
            self._streams.discard(ready)
            watcher.close()

    async def close(self) -> None:
        """End all streams; what is asked afterwards gets no answer."""
        self._closed = True
        for ready in self._streams:
            ready.set()

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise TransportError(f"{path}: the transport is closed", ambiguous=False)
