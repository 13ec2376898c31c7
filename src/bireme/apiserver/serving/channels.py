"""Exec and attach over a WebSocket: each message begins with the number of its channel.

0 stdin   1 stdout   2 stderr   3 how it ended, a Status   4 the terminal's size   255 a channel ends (v5)
"""

import asyncio
from typing import Final

import msgspec
from aiohttp import WSMsgType, web

from bireme.apiserver import errors
from bireme.apiserver.rules import Object
from bireme.apiserver.serving.gateway import TerminalSize

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_MOST_MESSAGE: Final = 1 << 20
_MOST_WAITING: Final = 64
_encode: Final = msgspec.json.Encoder().encode


class ChannelSession:
    """A bireme.apiserver.serving.gateway.Session over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._sizes: asyncio.Queue[TerminalSize] = asyncio.Queue(1)
        self._ended = False
        self.input_closed = False

    async def read(self) -> bytes:
        if self._ended and self._input.empty():
            return b""
        return await self._input.get()

    async def write(self, stream: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([stream]) + data)

    async def resized(self) -> TerminalSize:
        return await self._sizes.get()

    async def receive(self) -> None:
        """Take in what the client sends until it hangs up."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    await self._take(message.data)
                elif message.type is WSMsgType.TEXT:
                    await self._take(message.data.encode())
        finally:
            self._end_input()

    async def finish(self, exit_code: int) -> None:
        """Tell how it ended."""
        await self._socket.send_bytes(bytes([_ERROR]) + _encode(_outcome(exit_code)))

    async def fail(self, status: Object) -> None:
        await self._socket.send_bytes(bytes([_ERROR]) + _encode(status))

    async def _take(self, data: bytes) -> None:
        if not data:
            return
        channel, payload = data[0], data[1:]
        if channel == _STDIN and payload and not self._ended:
            await self._input.put(payload)
        elif channel == _RESIZE:
            self._resize(payload)
        elif channel == _CLOSE and payload[:1] == bytes([_STDIN]):
            self.input_closed = True
            self._end_input()

    def _resize(self, payload: bytes) -> None:
        try:
            size = msgspec.json.decode(payload, type=TerminalSize)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        if self._sizes.full():
            self._sizes.get_nowait()
        self._sizes.put_nowait(size)

    def _end_input(self) -> None:
        """Never waits: where the queue is full nobody waits to be told, and there may be no reader left."""
        self._ended = True
        if self._input.empty():
            self._input.put_nowait(b"")


def open_socket() -> web.WebSocketResponse:
    # No heartbeat: while a program does not read its input nothing is read here either, an answer neither.
    return web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=_MOST_MESSAGE)


def _outcome(exit_code: int) -> Object:
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    made = errors.status(500, "NonZeroExitCode", f"command terminated with exit code {exit_code}")
    del made["code"]
    made["details"] = {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]}
    return made
