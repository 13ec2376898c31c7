"""No text from outside becomes a line of an HTTP request."""

import asyncio
from pathlib import Path

import pytest

from bireme.kube.config import ClusterConfig
from bireme.kube.errors import RequestError
from bireme.kube.local import LocalTransport
from bireme.kube.protocol import FormTransport
from bireme.kube.transport import HttpTransport

HOSTILE = [
    "/api/v1\r\nHost: x\r\n\r\nDELETE /api/v1/namespaces/default/secrets/s",
    "/api/v1\n", "/a b", "/a\tb", "/a\0", "/a\x7f", "/\x1b[2J", "/caf\xe9", "/a\u2028b", "/a\x85",
    "", "api", " /api", "/a?b=c", "/a#b",
]  # fmt: skip


class Listener:
    """A server that keeps what it is sent, and says nothing."""

    def __init__(self) -> None:
        self.received = b""
        self.connections = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.received += await reader.read()
        writer.close()


async def _send(transport: FormTransport, path: str) -> None:
    try:
        with pytest.raises(RequestError):
            await transport.request("GET", path)
        with pytest.raises(RequestError):
            async with transport.stream(path, params={}):
                raise AssertionError("it was sent")
    finally:
        await transport.close()


@pytest.mark.parametrize("path", HOSTILE, ids=repr)
def test_a_path_that_would_break_its_line_is_not_sent_over_a_socket(tmp_path: Path, path: str) -> None:
    async def main() -> None:
        listener = Listener()
        async with await asyncio.start_unix_server(listener.accept, tmp_path / "s"):
            await _send(LocalTransport(tmp_path / "s", "localhost", "secret"), path)
        assert listener.connections == 0

    asyncio.run(main())


@pytest.mark.parametrize("path", HOSTILE, ids=repr)
def test_a_path_that_would_break_its_line_is_not_sent_over_tcp(path: str) -> None:
    async def main() -> None:
        listener = Listener()
        async with await asyncio.start_server(listener.accept, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await _send(HttpTransport(ClusterConfig(server=f"http://127.0.0.1:{port}")), path)
        assert listener.connections == 0

    asyncio.run(main())


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "a\0b", "\x7f"], ids=repr)
def test_a_header_that_would_break_its_line_is_not_sent(tmp_path: Path, value: str) -> None:
    async def main() -> None:
        listener = Listener()
        async with await asyncio.start_unix_server(listener.accept, tmp_path / "s"):
            for transport, accept in (
                (LocalTransport(tmp_path / "s", "localhost", value), ""),
                (LocalTransport(tmp_path / "s", "localhost", "secret"), value),
            ):
                with pytest.raises(RequestError) as refusal:
                    await transport.request("GET", "/", accept=accept)
                assert value not in str(refusal.value)
        assert listener.connections == 0

    asyncio.run(main())
