"""HTTP byte by byte over TLS: a client that may send anything, and reads what comes back.

    async with await Wire.open(address) as wire:
        answer = await wire.ask("GET", "/api/v1/pods")
        await wire.send(b"no HTTP at all")
        answer = await wire.receive()

One exchange at a time; whoever pipelines receives in the order of sending.
"""

import asyncio
import contextlib
import functools
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

ANSWER_SECONDS = 90
_LARGEST_LINE = 1 << 26


class Address(NamedTuple):
    host: str
    port: int
    token: str
    authority: Path

    @property
    def headers(self) -> dict[str, str]:
        """What every good request says."""
        return {"Host": f"{self.host}:{self.port}", "Authorization": f"Bearer {self.token}"}


class Answer(NamedTuple):
    code: int
    headers: Mapping[str, str]
    """By lower-case names; the last of each."""
    body: bytes = b""

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "")

    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class HungUpError(Exception):
    """The server closed the connection, or broke it."""


class Wire:
    """One connection. Every wait ends: a server that does not answer is a TimeoutError."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address, self._reader, self._writer = address, reader, writer

    @classmethod
    async def open(cls, address: Address, context: ssl.SSLContext | None = None) -> "Wire":
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection(
                    address.host,
                    address.port,
                    ssl=context or trusting(address.authority),
                    limit=_LARGEST_LINE,
                )
        except (ConnectionError, ssl.SSLError) as error:
            raise HungUpError(str(error)) from error
        return cls(address, reader, writer)

    async def send(self, raw: bytes) -> None:
        """Send as much as the other side takes."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._writer.write(raw)
                await self._writer.drain()
        except (ConnectionError, ssl.SSLError):
            # It may have answered before it hung up.
            return

    async def receive(self, *, has_body: bool = True) -> Answer:
        """The next answer, whole."""
        async with asyncio.timeout(ANSWER_SECONDS):
            try:
                head = await self._head()
                return head._replace(body=await self._body(head)) if has_body else head
            except (ConnectionError, ssl.SSLError, EOFError) as error:
                raise HungUpError(str(error)) from error

    async def receive_head(self) -> Answer:
        """The beginning of an answer that may go on for long."""
        return await self.receive(has_body=False)

    async def body(self, head: Answer) -> bytes:
        """What comes after a head."""
        async with asyncio.timeout(ANSWER_SECONDS):
            try:
                return await self._body(head)
            except (ConnectionError, ssl.SSLError, EOFError) as error:
                raise HungUpError(str(error)) from error

    async def rest(self, end: bytes = b"") -> bytes:
        """All that comes until the server hangs up, or until some bytes have come."""
        read = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while (more := await self._reader.read(1 << 16)) and not (end and end in read + more):
                    read += more
                read += more
        return read

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of a stream whose head was received, until it ends or breaks."""
        waiting = b""
        try:
            while chunk := await self._chunk():
                *whole, waiting = (waiting + chunk).split(b"\n")
                for line in whole:
                    yield line
        except (ConnectionError, ssl.SSLError, EOFError):
            return

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a good request, and return its answer."""
        await self.send(self.request(method, path, body, headers))
        return await self.receive(has_body=method != "HEAD")

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """A good request as it is sent. A body that is no bytes is JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        said = self._address.headers | {
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
        }
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {text}" for name, text in (said | dict(headers or {})).items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    def close(self) -> None:
        self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _head(self) -> Answer:
        code, headers = 100, {}
        while code == 100:
            raw = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = raw.decode("latin-1").split("\r\n")
            code = int(first.split(" ", 2)[1])
            headers = {
                name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)
            }
        return Answer(code, headers)

    async def _body(self, head: Answer) -> bytes:
        if head.is_chunked:
            chunks = []
            while chunk := await self._chunk():
                chunks.append(chunk)
            return b"".join(chunks)
        if "content-length" in head.headers:
            return await self._reader.readexactly(int(head.headers["content-length"]))
        return b"" if head.code in (101, 204, 304) else await self._reader.read()

    async def _chunk(self) -> bytes:
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        return (await self._reader.readexactly(size + 2))[:size]


@functools.cache
def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority))
