"""Running a command in a container: the channels of Kubernetes' remote command protocol."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bireme.kube.errors import KubeError, TransportError, error_from
from bireme.kube.protocol import WebSocketTransport
from bireme.kube.resources import PODS

if TYPE_CHECKING:
    import aiohttp

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
"""Like version 5, but its standard input can't end before the command does."""

_STDIN, _STDOUT, _STDERR, _OUTCOME = range(4)
_CLOSE: Final = 255
_CHUNK: Final = 1 << 16


class ExecResult(NamedTuple):
    """What a command wrote, and how it ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Channels:
    """The answers' side of the protocol, without the socket."""

    def __init__(self) -> None:
        self._received: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: [], _OUTCOME: []}

    def receive(self, message: bytes) -> None:
        """Take one message: a byte for the channel, then data. Channels nobody asked for are passed over."""
        if message and (data := self._received.get(message[0])) is not None:
            data.append(message[1:])

    @property
    def has_outcome(self) -> bool:
        """Whether the server has said how the command ended."""
        return bool(self._received[_OUTCOME])

    def result(self) -> ExecResult:
        """The outcome, once the server has closed. Raises TransportError where it never came."""
        stdout, stderr, outcome = (b"".join(data) for data in self._received.values())
        if not outcome:
            raise TransportError("exec: the connection ended before the command did")
        return ExecResult(exit_code(outcome), stdout, stderr)


def exit_code(outcome: bytes) -> int:
    """The exit code in a Status. Raises ApiError where the command could not even be run."""
    status = msgspec.json.decode(outcome)
    if status.get("status") == "Success":
        return 0
    error = error_from(0, {}, outcome)
    for cause in error.causes:
        if error.reason == "NonZeroExitCode" and cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise error


async def run_command(
    transport: object,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str | None = None,
    stdin: bytes | None = None,
) -> ExecResult:
    """Run a command to its end; not for commands that write more than fits into memory."""
    if not isinstance(transport, WebSocketTransport):
        raise KubeError("exec needs a transport with WebSockets")
    params = [("command", word) for word in command]
    params += [("container", container)] if container else []
    params += [("stdout", "true"), ("stderr", "true")] + ([("stdin", "true")] if stdin is not None else [])
    path = PODS.path(namespace, pod, "exec")
    async with transport.websocket(path, params=params, protocols=(V5, V4)) as socket:
        if stdin is not None and socket.protocol != V5:
            raise KubeError("exec: the server can't end a command's standard input; it takes Kubernetes 1.30")
        channels = Channels()
        # Both ways at once: a command that writes while it reads would wait for us, and we for it.
        sending = asyncio.ensure_future(_send(socket, stdin))
        try:
            async for message in socket:
                if isinstance(message.data, bytes):
                    channels.receive(message.data)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return channels.result()


async def attach(
    transport: object, namespace: str, pod: str, *, container: str, stdin: AsyncIterable[bytes]
) -> None:
    """Send standard input, and its end, to a container that runs; return when the container has ended.

    Raises KubeError if the connection breaks before all is sent, and whatever reading `stdin` raises. The
    embedded API server then fails the container, which would take a part of its input for the whole; other
    servers do not know `failOnLoss`.
    """
    if not isinstance(transport, WebSocketTransport):
        raise KubeError("attach needs a transport with WebSockets")
    params = [("container", container), ("stdin", "true"), ("failOnLoss", "true")]
    path = PODS.path(namespace, pod, "attach")
    async with transport.websocket(path, params=params, protocols=(V5, V4)) as socket:
        if socket.protocol != V5:
            raise KubeError("attach: the server can't end standard input; it takes Kubernetes 1.30")
        channels = Channels()
        sending = asyncio.ensure_future(_send_all(socket, stdin))
        receiving = asyncio.ensure_future(_receive(socket, channels))
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
            # To the end: servers drop what they have not passed on yet when a client leaves.
            await receiving
            if channels.has_outcome:
                channels.result()
            elif not sending.done():
                raise TransportError("attach: the connection ended before standard input did")
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)


async def _receive(socket: "aiohttp.ClientWebSocketResponse", channels: Channels) -> None:
    async for message in socket:
        if isinstance(message.data, bytes):
            channels.receive(message.data)


async def _send_all(socket: "aiohttp.ClientWebSocketResponse", stdin: AsyncIterable[bytes]) -> None:
    """Send data as it comes, then its end. Raises TransportError if the connection is closed."""
    async for data in stdin:
        await _send_bytes(socket, bytes([_STDIN]) + data)
    await _send_bytes(socket, bytes([_CLOSE, _STDIN]))


async def _send_bytes(socket: "aiohttp.ClientWebSocketResponse", data: bytes) -> None:
    try:
        await socket.send_bytes(data)
    except ConnectionError as error:
        raise TransportError(f"attach: {error}") from error


async def _send(socket: "aiohttp.ClientWebSocketResponse", stdin: bytes | None) -> None:
    """Send the whole input and its end; a command that ends without reading it is no error."""
    if stdin is None:
        return
    for start in range(0, len(stdin), _CHUNK):
        await socket.send_bytes(bytes([_STDIN]) + stdin[start : start + _CHUNK])
    await socket.send_bytes(bytes([_CLOSE, _STDIN]))
