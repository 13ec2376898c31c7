"""Bytes to an API server and back, over HTTP/1.1 and TLS."""

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bireme import __version__
from bireme.kube.config import ClusterConfig
from bireme.kube.credentials import Credential
from bireme.kube.errors import TransportError, error_from
from bireme.kube.protocol import Response as Response
from bireme.kube.protocol import Transport as Transport
from bireme.kube.protocol import WebSocketTransport as WebSocketTransport
from bireme.kube.protocol import check_target
from bireme.kube.tls import build_context

_MOST_CALLS = 256
"""At once, each on a connection; others wait for their turn. Streams keep theirs, so they don't count."""
_CONNECT_SECONDS = 10.0
_NO_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
_KEEP_ALIVE_SECONDS = 60.0
_SILENCE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""In seconds, and the number of probes: a peer that is gone is noticed after a minute."""
_GOODBYE_SECONDS = 1.0
_GOODBYE_ROUNDS = 100

Params = Mapping[str, str] | Sequence[tuple[str, str]]
Answer = TypeVar("Answer", Response, aiohttp.ClientResponse)


class HttpTransport:
    """HTTP/1.1 over connections that are kept; made in one event loop, and used and closed there."""

    def __init__(self, config: ClusterConfig, *, most_calls: int = _MOST_CALLS) -> None:
        self._config = config
        self._credentials = config.credentials
        self._opened: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._turns = asyncio.Semaphore(most_calls)
        self._tls: ssl.SSLContext | None = None
        self._tls_for = Credential()

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
        """As all transports do; `accept` asks for another form of the answer, such as a Table."""
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept

        async def ask(credential: Credential) -> Response:
            # Not aiohttp's limit, which can swallow a cancellation that comes with it.
            async with (
                asyncio.timeout(timeout_seconds),
                await self._send(credential, method, path, params or (), headers, body) as response,
            ):
                return Response(response.status, response.headers, await response.read())

        # Time runs from when it is our turn: a call that waited for a connection was not even sent.
        async with self._turns:
            with _translated(f"{method} {path}"):
                return await self._authorized(ask)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        async def ask(credential: Credential) -> aiohttp.ClientResponse:
            response = await self._send(credential, "GET", path, params, {}, None)
            if response.status == 401:
                # Reading it to the end frees the connection; the body can still be had afterwards.
                await response.read()
            return response

        with _translated(f"GET {path}"):
            response = await self._authorized(ask)
        try:
            if response.status != 200:
                with _translated(f"GET {path}"):
                    body = await response.read()
                raise error_from(response.status, response.headers, body)
            async with contextlib.aclosing(_chunks(response, path)) as chunks:
                yield chunks
        finally:
            _drop(response)

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, *, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse, None]:
        credential = await self._credentials.current()
        try:
            with _translated(f"WebSocket {path}"):
                connection = await self._session().ws_connect(
                    self._url(path, params),
                    protocols=protocols,
                    headers=self._headers(credential, {}),
                    max_msg_size=0,
                    **self._route(credential),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise error_from(error.status, error.headers or {}, error.message.encode()) from error
        async with connection:
            yield connection

    async def close(self) -> None:
        session, self._opened = self._opened, None
        if session is None:
            return
        await session.close()
        # TLS says goodbye in the background; an event loop that ends before that leaks the socket.
        for _ in range(_GOODBYE_ROUNDS):
            if all(sock.fileno() == -1 for sock in self._sockets):
                return
            await asyncio.sleep(_GOODBYE_SECONDS / _GOODBYE_ROUNDS)

    async def _authorized(self, ask: Callable[[Credential], Awaitable[Answer]]) -> Answer:
        """Ask with a credential; after a 401 once more, where there is another one by now.

        To get one may take longer than any call: a program may have to be run for it.
        """
        credential = await self._credentials.current()
        answer = await ask(credential)
        if answer.status == 401:
            renewed = await self._credentials.renew(credential)
            if renewed != credential:
                answer = await ask(renewed)
        return answer

    async def _send(
        self,
        credential: Credential,
        method: str,
        path: str,
        params: Params,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        return await self._session().request(
            method,
            self._url(path, params),
            headers=self._headers(credential, headers),
            data=body,
            allow_redirects=False,
            timeout=_NO_LIMIT,
            **self._route(credential),
        )

    def _session(self) -> aiohttp.ClientSession:
        """Made when it is first needed, as only then there is an event loop for certain."""
        if self._opened is None:
            self._opened = self._new_session()
        return self._opened

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, socket_factory=self._make_socket
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Logs are text: an API server refuses to write them to one who takes JSON only.
            headers={
                "Accept": "application/json, */*",
                "Accept-Encoding": "gzip" if self._config.compression else "identity",
                "User-Agent": f"bireme/{__version__}",
            },
        )

    def _make_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = info
        made = socket.socket(family, kind, protocol)
        _notice_silence(made)
        self._sockets.add(made)
        return made

    def _url(self, path: str, params: Params) -> URL:
        check_target(path)
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self._config.server}{path}{query}", encoded=True)

    def _headers(self, credential: Credential, headers: Mapping[str, str]) -> CIMultiDict[str]:
        """Names can come more than once, as for the groups of an impersonated user."""
        own = CIMultiDict(self._config.headers)
        own.update(headers)
        if credential.authorization:
            own["Authorization"] = credential.authorization
        return own

    def _route(self, credential: Credential) -> dict[str, Any]:
        """How to get there: TLS, made anew when the client certificate has changed, and proxy."""
        if self._tls is None or credential[1:] != self._tls_for[1:]:
            self._tls, self._tls_for = build_context(self._config, credential), credential
        route: dict[str, Any] = {"ssl": self._tls}
        if self._config.tls_server_name:
            route["server_hostname"] = self._config.tls_server_name
        if self._config.proxy_url:
            route["proxy"] = self._config.proxy_url
        return route


def _notice_silence(sock: socket.socket) -> None:
    """Let a connection end whose peer has vanished without a word: a log may be quiet for hours."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SILENCE.items():
        # Not every system has all of them.
        if (number := getattr(socket, option, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, number, value)


def _drop(response: aiohttp.ClientResponse) -> None:
    """Leave a stream: what has not come yet may never come, so nobody waits for a goodbye."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def _chunks(response: aiohttp.ClientResponse, path: str) -> AsyncGenerator[bytes, None]:
    with _translated(f"GET {path}"):
        async for chunk in response.content.iter_any():
            yield chunk


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """aiohttp's and the system's errors as ours."""
    try:
        yield
    except aiohttp.WSServerHandshakeError:
        raise
    except aiohttp.ClientConnectorCertificateError as error:
        hint = "the kubeconfig's certificate-authority is not the one that signed the server's certificate"
        message = f"{what}: can't trust {error.host}:{error.port}: {error.certificate_error}"
        raise TransportError(message, ambiguous=False, hint=hint) from error
    except aiohttp.ClientConnectorError as error:
        reason = error.os_error.strerror or str(error.os_error)
        message = f"{what}: can't connect to {error.host}:{error.port}: {reason}"
        raise TransportError(message, ambiguous=False) from error
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError) as error:
        raise TransportError(f"{what}: {error}", ambiguous=False) from error
    except TimeoutError as error:
        raise TransportError(f"{what}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise TransportError(f"{what}: {str(error) or type(error).__name__}") from error
