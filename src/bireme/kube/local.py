"""HTTP over a Unix socket: the way to an API server on this machine.

It needs no TLS, and none of the libraries that the way to a cluster does: a command that uses it has done its
work in the time that it takes to import those.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

from bireme import __version__
from bireme.kube.errors import TransportError, error_from
from bireme.kube.protocol import Response, check_header, check_target

_CONNECT_SECONDS: Final = 10.0
_BUFFER: Final = 1 << 20
_EMPTY: Final = (204, 304)


class LocalTransport:
    """A bireme.kube.protocol.FormTransport to the socket at `path`; `host` is what the server is called."""

    def __init__(self, path: Path, host: str, token: str) -> None:
        self._path = path
        self._headers = {
            "Host": host,
            "Authorization": f"Bearer {token}",
            "User-Agent": f"bireme/{__version__}",
            # Logs are text: an API server refuses to write them to one who takes JSON only.
            "Accept": "application/json, */*",
        }
        self._idle: list[_Connection] = []
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
        accept: str = "",
    ) -> Response:
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        written = self._written(method, path, params or {}, headers, body)
        with _translated(f"{method} {path}"):
            async with asyncio.timeout(timeout_seconds):
                connection = self._kept() or await self._connect()
                try:
                    head = await connection.ask(written)
                    whole = b"".join([part async for part in connection.body(head)])
                except BaseException:
                    connection.drop()
                    raise
        self._keep(connection, head)
        return Response(head.status, head.headers, whole)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        what, written = f"GET {path}", self._written("GET", path, params, {}, None)
        with _translated(what):
            connection = await self._connect()
        try:
            with _translated(what):
                head = await connection.ask(written)
                if head.status != 200:
                    said = b"".join([part async for part in connection.body(head)])
                    raise error_from(head.status, head.headers, said)
            async with contextlib.aclosing(_chunks(connection, head, what)) as chunks:
                yield chunks
        finally:
            connection.drop()

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().drop()

    async def _connect(self) -> "_Connection":
        # By a descriptor of its folder: paths of sockets are short, those of folders need not be.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                place = f"/proc/self/fd/{folder}/{self._path.name}"
                return _Connection(*await asyncio.open_unix_connection(place, limit=_BUFFER))
        except OSError as error:
            reason = error.strerror or "no answer"
            raise TransportError(f"can't connect to {self._path}: {reason}", ambiguous=False) from error
        finally:
            os.close(folder)

    def _kept(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.drop()
        return None

    def _keep(self, connection: "_Connection", head: "_Head") -> None:
        if self._closed or head.headers.get("connection", "").lower() == "close":
            connection.drop()
        else:
            self._idle.append(connection)

    def _written(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> bytes:
        check_target(path)
        query = f"?{urlencode(params)}" if params else ""
        lines = [f"{method} {path}{query} HTTP/1.1"]
        for name, value in (self._headers | dict(headers)).items():
            check_header(name, value)
            lines.append(f"{name}: {value}")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + (body or b"")


class _Head(NamedTuple):
    """The beginning of an answer; names of headers in small letters."""

    status: int
    headers: dict[str, str]


class _Connection:
    """One connection: a request, then its answer, and so on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing() and not self._reader.at_eof()

    async def ask(self, request: bytes) -> _Head:
        """Send a request and wait for the head of its answer."""
        self._writer.write(request)
        await self._writer.drain()
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.rstrip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return _Head(int(first.split(" ", 2)[1]), {name.lower(): value.strip() for name, _, value in pairs})

    async def body(self, head: _Head) -> AsyncGenerator[bytes, None]:
        """What comes after the head, part by part, to its end."""
        if head.headers.get("transfer-encoding") == "chunked":
            while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                yield await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            await self._reader.readuntil(b"\r\n")
        elif "content-length" in head.headers:
            yield await self._reader.readexactly(int(head.headers["content-length"]))
        elif head.status not in _EMPTY:
            while part := await self._reader.read(_BUFFER):
                yield part

    def drop(self) -> None:
        """Leave at once: there is nobody to say goodbye to."""
        self._writer.transport.abort()


async def _chunks(connection: _Connection, head: _Head, what: str) -> AsyncGenerator[bytes, None]:
    with _translated(what):
        async for chunk in connection.body(head):
            yield chunk


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """The system's errors as ours; what is no HTTP is an error of the transport too."""
    try:
        yield
    except TransportError as error:
        raise TransportError(f"{what}: {error}", ambiguous=error.ambiguous) from error
    except TimeoutError as error:
        raise TransportError(f"{what}: no answer in time") from error
    except (EOFError, asyncio.LimitOverrunError, OSError, ValueError, IndexError) as error:
        raise TransportError(f"{what}: the connection ended early ({type(error).__name__})") from error
