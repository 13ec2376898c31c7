"""HTTP servers that answer as tests tell them."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from bireme.kube.config import ClusterConfig
from bireme.kube.transport import HttpTransport
from support.certificates import Authority

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server:
    """An API server that remembers what it was asked, and answers as told."""

    def __init__(self, answer: Handler | None = None) -> None:
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.peers: set[Any] = set()
        self._answer = answer
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        if request.headers.get("Upgrade") != "websocket":
            self.bodies.append(await request.read())
        return await self._answer(request) if self._answer is not None else web.json_response({"a": 1})

    @contextlib.asynccontextmanager
    async def served(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["Server"]:
        runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            port = runner.addresses[0][1]
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            yield self
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def connected(server: Server, /, **config: Any) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(ClusterConfig(**{"server": server.url, **config}))
    try:
        yield transport
    finally:
        await transport.close()


def server_tls(authority: Authority, folder: Path, *hosts: str, clients: bool = False) -> ssl.SSLContext:
    certificate, key = authority.issue("server", hosts=hosts or ("127.0.0.1",)).write(folder, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if clients:
        context.load_verify_locations(cadata=authority.identity.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context
