"""No server of ours tells what it is made of, whatever it is asked."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from bireme.control import health
from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import Leaf, make_authority, renew_leaf
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import WebhookServer
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from bireme.run.apiserver import Options, serving
from support.ports import free_port
from unit.kube.scripted import ScriptedTransport

Address = tuple[int, ssl.SSLContext | None]


def _blind() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def _api_server(folder: Path) -> AsyncIterator[Address]:
    async with serving(Options(folder / "data")) as running:
        yield int(running.url.rpartition(":")[2]), _blind()


@contextlib.asynccontextmanager
async def _webhooks(folder: Path) -> AsyncIterator[Address]:
    leaf = renew_leaf(Leaf(), make_authority(utc_now()), ("127.0.0.1",), utc_now())
    (folder / "crt").write_bytes(leaf.certificate)
    (folder / "key").write_bytes(leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    server = WebhookServer(QueueAccess(Client(ScriptedTransport()), "controller", "home"), Metrics())
    port = free_port()
    await server.start(context, "127.0.0.1", port)
    yield port, _blind()
    await server.stop()


@contextlib.asynccontextmanager
async def _health(folder: Path) -> AsyncIterator[Address]:
    port = free_port()
    server = await health.serve(health.build_app(Metrics(), lambda: ()), "127.0.0.1", port)
    yield port, None
    await health.stop(server)


async def _ask(address: Address, request: bytes) -> bytes:
    port, tls = address
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            answer = await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    return answer


@pytest.mark.parametrize("serve", [_api_server, _webhooks, _health], ids=lambda each: each.__name__)
def test_no_answer_names_the_software(
    serve: Callable[[Path], AbstractAsyncContextManager[Address]], tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(tmp_path) as address:
            for line, code in (
                (b"GET /healthz HTTP/1.1", None),
                (b"GET /metrics HTTP/1.1", None),
                (b"GET /no/such/path HTTP/1.1", None),
                (b"POST /validate HTTP/1.1\r\nContent-Length: 2", None),
                (b"nonsense", b" 400 "),
                (b"GET /" + b"x" * 40_000 + b" HTTP/1.1", b" 400 "),
            ):
                host = b"127.0.0.1:%d" % address[0]
                answer = await _ask(address, line + b"\r\nHost: " + host + b"\r\n\r\n{}")
                assert answer.startswith(b"HTTP/1."), answer
                assert code is None or code in answer.splitlines()[0], answer
                assert b"server:" not in answer.lower(), answer
                assert b"aiohttp" not in answer.lower(), answer

    asyncio.run(main())
