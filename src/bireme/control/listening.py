"""Listens within a budget: connections that a stranger opens cost a bounded amount of memory and time.

aiohttp and asyncio accept every connection, and a TLS connection holds about 280 kB from its first byte
on, whether or not it ever sends a request. Here a connection is counted when it is accepted, before TLS
begins:

    accepted ──► handshake ──► waits for a request ──► reads a body ──► is answered ──► waits …
                 10 s, else closed                     (the server's own limit)

- The handshake has 10 s, and handshake and first request together have 10 s.
- When all places are taken, one of the address that has the most connections is closed, the one that was
  quiet the longest. So who opens thousands closes only their own. A connection whose request is being
  answered is never closed for another.
- When none can be closed, the new one is.

`ConnectionLimit` is made before the application, as it is a middleware of it, and listens after.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

log = logging.getLogger("bireme")

MOST_CONNECTIONS: Final = 256
FIRST_REQUEST_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 2.0
"""How long a client may take to close TLS; asyncio's default is 30."""
IDLE_SECONDS: Final = 120.0
"""Longer than an API server keeps an idle connection (90 s): it never sends into one that we close."""
_BACKLOG: Final = 512
_PAUSE_SECONDS: Final = 0.1
"""After a failure to accept, as when no file descriptor is left."""


class _Connection:
    """One that was accepted, until it is lost."""

    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.used = now
        self.has_spoken = False
        self.is_working = False
        self.protocol: web.RequestHandler | None = None
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        if self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class ConnectionLimit:
    """Bounds the connections of one server. `close` it before its runner is cleaned up."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, first_request_seconds: float = FIRST_REQUEST_SECONDS
    ) -> None:
        self._most = most
        self._first_request_seconds = first_request_seconds
        self._connections: list[_Connection] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._server: web.Server | None = None
        self._context: ssl.SSLContext | None = None

    async def listen(
        self, runner: web.AppRunner, host: str, port: int, context: ssl.SSLContext | None = None
    ) -> None:
        """Accept for a runner that is set up; the host `*` stands for all addresses. Raises OSError."""
        assert runner.server is not None
        self._server, self._context = runner.server, context
        for listening in await _bind(None if host == "*" else host, port):
            self._accepting.append(asyncio.create_task(self._accept(listening)))

    async def close(self) -> None:
        """Accept no more, and drop those that have not come to a request. Idempotent."""
        accepting, self._accepting = self._accepting, []
        handshakes = [each.task for each in self._connections if each.task is not None]
        for task in (*accepting, *handshakes):
            task.cancel()
        await asyncio.gather(*accepting, *handshakes, return_exceptions=True)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Take note that a connection has sent a request; the application must have this middleware."""
        connection = self._find(request)
        if connection is not None:
            connection.has_spoken = True
            connection.used = _now()
        return await handler(request)

    @contextlib.contextmanager
    def working(self, request: web.Request) -> Iterator[None]:
        """Keep the connection of a request open, whoever else wants its place."""
        connection = self._find(request)
        if connection is None:
            yield
            return
        connection.is_working = True
        try:
            yield
        finally:
            connection.is_working = False
            connection.used = _now()

    def _find(self, request: web.Request) -> _Connection | None:
        return next((each for each in self._connections if each.protocol is request.protocol), None)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:
                    log.warning("can't accept a connection: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                if self._has_place():
                    connection = _Connection(str(address[0]), loop.time())
                    self._connections.append(connection)
                    connection.task = loop.create_task(self._serve(connection, accepted))
                else:
                    accepted.close()
                # A connection that waits already is accepted without a pause: others must get a turn.
                await asyncio.sleep(0)

    def _has_place(self) -> bool:
        if len(self._connections) < self._most:
            return True
        self._connections = [each for each in self._connections if self._is_open(each)]
        if len(self._connections) < self._most:
            return True
        quiet = [each for each in self._connections if not each.is_working]
        if not quiet:
            return False
        counts = Counter(each.address for each in self._connections)
        victim = max(quiet, key=lambda each: (counts[each.address], -each.used))
        self._connections.remove(victim)
        victim.abort()
        return True

    def _is_open(self, connection: _Connection) -> bool:
        if connection.task is not None:
            return True
        assert self._server is not None
        return connection.protocol in self._server.connections

    async def _serve(self, connection: _Connection, accepted: socket.socket) -> None:
        """Do the handshake, and hand the connection to aiohttp; close it if no request comes in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._first_request_seconds
        seconds = self._first_request_seconds if self._context else None
        goodbye = GOODBYE_SECONDS if self._context else None
        is_handed_over = False
        try:
            await loop.connect_accepted_socket(
                lambda: self._protocol(connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=goodbye,
            )
            is_handed_over = True
        except (OSError, TimeoutError):
            # Whoever speaks no TLS, or not to the end, is no client of ours: not worth a line each.
            pass
        finally:
            connection.task = None
            if not is_handed_over:
                accepted.close()
                if connection in self._connections:
                    self._connections.remove(connection)
        if is_handed_over:
            loop.call_at(deadline, self._expect_request, connection)

    def _protocol(self, connection: _Connection) -> web.RequestHandler:
        assert self._server is not None
        connection.protocol = self._server()
        return connection.protocol

    def _expect_request(self, connection: _Connection) -> None:
        if not connection.has_spoken:
            connection.abort()


async def _bind(host: str | None, port: int) -> list[socket.socket]:
    """Listen at all addresses of a host, or of the machine. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                bound = socket.socket(family, kind, protocol)
            except OSError:
                # The machine has no addresses of that family.
                continue
            listening.append(bound)
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
            bound.listen(_BACKLOG)
    except OSError:
        for bound in listening:
            bound.close()
        raise
    return listening


def _now() -> float:
    return asyncio.get_running_loop().time()
