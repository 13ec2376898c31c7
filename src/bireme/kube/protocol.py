"""What a way to an API server offers. Retries, types and meaning are the client's, one layer up."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    # To import it takes longer than a short command; those that only need a socket do without.
    import aiohttp


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


class FormTransport(Transport, Protocol):
    """A transport that can ask for another form of an answer."""

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


@runtime_checkable
class WebSocketTransport(Protocol):
    """A transport that can also talk both ways."""

    def websocket(
        self, path: str, *, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> "AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]":
        """Open a WebSocket with the first of these protocols that the server speaks."""
