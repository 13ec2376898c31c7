"""What a way to an API server offers. Retries, types and meaning are the client's, one layer up."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from bireme.kube.errors import RequestError

if TYPE_CHECKING:
    # To import it takes longer than a short command; those that only need a socket do without.
    import aiohttp

_TARGET: Final = re.compile(r"/[!\"$->@-~]*")
"""Printable ASCII without `?` and `#`."""
_FIELD_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")


def check_target(path: str) -> None:
    """Raise RequestError unless a path is one that fits into the first line of an HTTP request.

    Paths are quoted where they are built (`resources`). A blank or a line break that got past that would let
    whoever chose a name write requests of their own, with the credentials of ours.
    """
    if _TARGET.fullmatch(path) is None:
        raise RequestError(f"{path!r} is not a path of a request: letters, digits and signs of ASCII only")


def check_header(name: str, value: str) -> None:
    """Raise RequestError for a value that would end its line; the message does not tell the value."""
    if _FIELD_VALUE.fullmatch(value) is None:
        raise RequestError(f"the header {name} can't have a value with a line break in it")


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
