"""Bytes to an API server and back, over HTTP/1.1 and TLS."""

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
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
from bireme.kube.tls import build_context

_MOST_CALLS = 256
"""At once, each on a connection; others wait for their turn. Streams keep theirs, so they don't count."""
_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 60.0
_GOODBYE_SECONDS = 1.0
_GOODBYE_ROUNDS = 100

Params = Mapping[str, str] | Sequence[tuple[str, str]]


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
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        # Time runs from when it is our turn: a call that waited for a connection was not even sent.
        async with self._turns:
            with _translated(f"{method} {path}"):
                response = await self._open(
                    method, path, params or (), data=body, headers=headers, timeout=timeout
                )
                async with response:
                    return Response(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        with _translated(f"GET {path}"):
            response = await self._open("GET", path, params, headers={}, timeout=timeout)
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

    async def _open(self, method: str, path: str, params: Params, **options: Any) -> aiohttp.ClientResponse:
        """Send a request; after a 401 once more, where there is another credential by now."""
        url, headers = self._url(path, params), options.pop("headers")
        credential = await self._credentials.current()

        async def send() -> aiohttp.ClientResponse:
            own, route = self._headers(credential, headers), self._route(credential)
            return await self._session().request(
                method, url, headers=own, allow_redirects=False, **route, **options
            )

        response = await send()
        if response.status == 401:
            # Reading it to the end frees the connection; the body can still be had afterwards.
            await response.read()
            renewed = await self._credentials.renew(credential)
            if renewed != credential:
                credential = renewed
                response = await send()
        return response

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
        self._sockets.add(made)
        return made

    def _url(self, path: str, params: Params) -> URL:
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
