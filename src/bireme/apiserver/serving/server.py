"""The listening sockets of a Handler: TLS on TCP, and plain HTTP on a Unix socket."""

import contextlib
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from bireme.apiserver.serving.connections import Acceptor
from bireme.apiserver.serving.handler import Handler
from bireme.server_header import omit_server_header

_LONGEST_LINE: Final = 32 * 1024
_GOODBYE_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


class _OnlyOurs(logging.Filter):
    """Lets through what went wrong here. Clients that go, or do not speak HTTP, may be many."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


_log.addFilter(_OnlyOurs())
_OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "logger": _log,
    # As a kube-apiserver: bodies are what they are, and a small one can't unpack into a large one.
    "auto_decompress": False,
    # How long the rest of a body is read, and dropped, that was answered without it.
    "lingering_time": _GOODBYE_SECONDS,
    "max_line_size": _LONGEST_LINE,
    "max_field_size": _LONGEST_LINE,
}


class ListenError(Exception):
    """The server can't listen; the message is for people."""


class Listening(NamedTuple):
    """A bound socket, not served yet."""

    socket: socket.socket
    host: str
    port: int

    @property
    def hosts(self) -> list[str]:
        """What clients may call it in their Host header."""
        names = ["localhost", "127.0.0.1", "[::1]"] if is_loopback(self.host) else []
        names.append(f"[{self.host}]" if ":" in self.host else self.host)
        return [f"{name}:{self.port}" for name in dict.fromkeys(names)]

    @property
    def url(self) -> str:
        return (
            f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, ports: Sequence[int]) -> Listening:
    """Bind the first of the ports that is free; 0 is any. Raises ListenError."""
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    problem = "no port to listen on"
    for port in ports:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address, port))
        except OSError as error:
            bound.close()
            problem = f"can't listen on {host} port {port}: {error.strerror}"
            continue
        return Listening(bound, host, bound.getsockname()[1])
    raise ListenError(problem)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ListenError(f"can't use the certificate {certificate} with the key {key}: {error}") from error
    return context


@contextlib.asynccontextmanager
async def serve(
    handler: Handler, listening: Listening, context: ssl.SSLContext, path: Path
) -> AsyncIterator[None]:
    """Serve on a TCP socket, and on a Unix socket at `path`, until the context ends."""
    server = web.Server(handler, handler_cancellation=True, **_OPTIONS)
    omit_server_header(server)
    runner = web.ServerRunner(server, shutdown_timeout=_GOODBYE_SECONDS)
    await runner.setup()
    acceptor = Acceptor(server, listening.socket, context, _OPTIONS)
    try:
        acceptor.start()
        await _listen_nearby(runner, path)
        yield
    finally:
        path.unlink(missing_ok=True)
        handler.close()
        await acceptor.stop()
        await runner.cleanup()


async def _listen_nearby(runner: web.ServerRunner, path: Path) -> None:
    """Serve clients that share the folder without TLS. The token is asked for as ever."""
    # By a descriptor of the folder: paths of sockets are short, those of folders need not be.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await web.UnixSite(runner, f"/proc/self/fd/{folder}/{path.name}").start()
        path.chmod(0o600)
    finally:
        os.close(folder)
