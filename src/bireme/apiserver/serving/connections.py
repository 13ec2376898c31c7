"""TCP connections of the API server, and how much of it a client without the token can use.

Every user of the machine can connect to a port on loopback. A connection is pending until a request on it has
shown the token. Pending connections are bounded, so that they can neither exhaust descriptors and memory nor
keep the owner out:

    accepted ──► pending ──(a request shows the token)──► trusted ──► closed
                    │
                    └──(PENDING_SECONDS pass, its head exceeds MOST_HEAD_BYTES,
                        or a newer connection needs the place)──► closed

- PENDING_SECONDS cover the TLS handshake, the head of the first request and its answer, however slowly the
  client sends.
- If MOST_PENDING connections are pending, the next one closes the oldest of them. Refusing the newest instead
  would let idle connections keep the owner out.
- The handler closes a connection after its answer to a request without the token (`Handler.__call__`).

Trusted connections belong to the owner and are not bounded here. The Unix socket does not pass through this
module: only the owner can open it.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from typing import Any, Final

from aiohttp import web

MOST_PENDING: Final = 256
MOST_HEAD_BYTES: Final = 64 * 1024
PENDING_SECONDS: Final = 10.0
_GOODBYE_SECONDS: Final = 1.0
_HEAD_END: Final = b"\r\n\r\n"
_BACKLOG: Final = 512
_PAUSE_SECONDS: Final = 0.05


class Connection(web.RequestHandler):
    """The protocol of one TCP connection. `settled` is done once it is trusted or lost."""

    __slots__ = ("_end", "_has_head", "_received", "is_trusted", "settled")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(server, loop=loop, **options)
        self.settled: asyncio.Future[None] = loop.create_future()
        self.is_trusted = False
        self._has_head = False
        self._received = 0
        self._end = b""

    def begin_request(self) -> None:
        """Count no more bytes: the first head is there, and aiohttp throttles what follows it."""
        self._has_head = True

    def trust(self) -> None:
        """Lift the limits: a request on this connection has shown the token."""
        self.is_trusted = True
        self._settle()

    def data_received(self, data: bytes) -> None:
        """Parse what the client sent; close the connection if its first head is too large."""
        if not self._has_head:
            self._count_head(data)
            if self._received > MOST_HEAD_BYTES:
                self._settle()
                return
        super().data_received(data)

    def _count_head(self, data: bytes) -> None:
        """Count the bytes of the first head, and look for its end: much of a body may come along with it."""
        seen = self._end + data
        end = seen.find(_HEAD_END)
        self._has_head = end >= 0
        self._received += (end if self._has_head else len(seen)) - len(self._end)
        self._end = seen[-len(_HEAD_END) + 1 :]

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place of a pending connection back."""
        self._settle()
        super().connection_lost(exc)

    def _settle(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)


class Acceptor:
    """Accepts TLS connections on a bound socket; `options` are those of each aiohttp.web.RequestHandler."""

    def __init__(
        self, server: web.Server, listener: socket.socket, context: ssl.SSLContext, options: dict[str, Any]
    ) -> None:
        self._server, self._listener, self._context, self._options = server, listener, context, options
        self._pending: dict[asyncio.Task[None], None] = {}
        """In the order in which they were accepted."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Leave descriptors to the owner where the limit can't be raised.
        self._most = MOST_PENDING if files < 0 else max(1, min(MOST_PENDING, files // 4))
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Accept connections until `stop`."""
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def stop(self) -> None:
        """Accept no more, and close pending connections; aiohttp closes the trusted ones. Idempotent."""
        tasks = [*self._pending, *([self._accepting] if self._accepting else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                # The client has gone already, or no descriptor is free: the oldest pending one is given up.
                self._drop_oldest()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._pending) >= self._most:
                self._drop_oldest()
            task = loop.create_task(self._serve(accepted))
            self._pending[task] = None
            task.add_done_callback(lambda done: self._pending.pop(done, None))

    def _drop_oldest(self) -> None:
        if self._pending:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.cancel()

    async def _serve(self, accepted: socket.socket) -> None:
        """Open a connection, and close it unless it becomes trusted in time."""
        loop = asyncio.get_running_loop()
        connection = Connection(self._server, loop, **self._options)
        transport: asyncio.Transport | None = None
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(PENDING_SECONDS):
                    transport, _ = await loop.connect_accepted_socket(
                        lambda: connection,
                        accepted,
                        ssl=self._context,
                        ssl_handshake_timeout=PENDING_SECONDS,
                        ssl_shutdown_timeout=_GOODBYE_SECONDS,
                    )
                    await connection.settled
        finally:
            if transport is not None and not connection.is_trusted:
                transport.abort()
