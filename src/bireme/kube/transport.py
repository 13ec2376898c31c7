"""Bytes to an API server and back. Retries, types and meaning are the client's, one layer up."""

import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bireme import __version__
from bireme.kube.config import ClusterConfig
from bireme.kube.credentials import Credential
from bireme.kube.errors import TransportError, error_from
from bireme.kube.tls import build_context

_MOST_CONNECTIONS = 256
"""For calls; each takes one for a moment. Streams keep theirs, so they are not counted."""
_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 60.0

Params = Mapping[str, str] | Sequence[tuple[str, str]]


class Response(NamedTuple):
    """An answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """The way to one API server; tests and the simulation have their own."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = 30,
    ) -> Response:
        """Make one call, once. Raises TransportError where there is no answer."""

    def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch or a followed log: chunks, as they come, until the server closes.

        Entering raises ApiError where the answer is not 200; TransportError may come at any time.
        """

    async def close(self) -> None:
        """Drop all connections; twice is once."""


@runtime_checkable
class WebSocketTransport(Protocol):
    """A transport that can also talk both ways."""

    def websocket(
        self, path: str, *, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket with the first of these protocols that the server speaks."""


class HttpTransport:
    """HTTP/1.1 over connections that are kept; made in one event loop, and used and closed there."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._credentials = config.credentials
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
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
    ) -> Response:
        if self._session is None:
            self._session = self._new_session(_MOST_CONNECTIONS)
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        headers = {"Content-Type": content_type} if body is not None else {}
        with _translated(f"{method} {path}"):
            response = await self._open(
                self._session, method, path, params or (), data=body, headers=headers, timeout=timeout
            )
            async with response:
                return Response(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        if self._streams is None:
            self._streams = self._new_session(0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        with _translated(f"GET {path}"):
            response = await self._open(self._streams, "GET", path, params, headers={}, timeout=timeout)
        try:
            if response.status != 200:
                with _translated(f"GET {path}"):
                    body = await response.read()
                raise error_from(response.status, response.headers, body)
            async with contextlib.aclosing(_chunks(response, path)) as chunks:
                yield chunks
        finally:
            # What has not come yet may never come: the connection is not fit to be kept.
            response.close()

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, *, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse, None]:
        if self._streams is None:
            self._streams = self._new_session(0)
        credential = await self._credentials.current()
        try:
            with _translated(f"WebSocket {path}"):
                socket = await self._streams.ws_connect(
                    self._url(path, params),
                    protocols=protocols,
                    headers=self._headers(credential, {}),
                    max_msg_size=0,
                    **self._route(credential),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise error_from(error.status, error.headers or {}, error.message.encode()) from error
        async with socket:
            yield socket

    async def close(self) -> None:
        for session in (self._session, self._streams):
            if session is not None:
                await session.close()
        self._session = self._streams = None

    async def _open(
        self, session: aiohttp.ClientSession, method: str, path: str, params: Params, **options: Any
    ) -> aiohttp.ClientResponse:
        """Send a request; after a 401 once more, where there is another credential by now."""
        url, headers = self._url(path, params), options.pop("headers")
        credential = await self._credentials.current()

        async def send() -> aiohttp.ClientResponse:
            route = self._route(credential)
            own = self._headers(credential, headers)
            return await session.request(method, url, headers=own, allow_redirects=False, **route, **options)

        response = await send()
        if response.status == 401:
            renewed = await self._credentials.renew(credential)
            if renewed != credential:
                await response.read()
                response.release()
                credential = renewed
                response = await send()
        return response

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Logs are text: an API server refuses to write them to one who takes JSON only.
            headers={
                "Accept": "application/json, */*",
                "Accept-Encoding": "gzip" if self._config.compression else "identity",
                "User-Agent": f"bireme/{__version__}",
            },
        )

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
        raise TransportError(f"{what}: {error}", ambiguous=False, hint=hint) from error
    except (
        aiohttp.ClientConnectorError,
        aiohttp.ConnectionTimeoutError,
        aiohttp.ClientHttpProxyError,
    ) as error:
        raise TransportError(f"{what}: {error}", ambiguous=False) from error
    except TimeoutError as error:
        raise TransportError(f"{what}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise TransportError(f"{what}: {str(error) or type(error).__name__}") from error
