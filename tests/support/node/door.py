"""Brings connections that are made outside of the network namespace to a port inside of it."""

import asyncio
import contextlib
import socket
import threading
from typing import Final

_CHUNK: Final = 1 << 16


def serve(listener: socket.socket, port: int) -> None:
    """Relay, in a thread, what comes to `listener`, which was made outside."""
    threading.Thread(target=asyncio.run, args=[_serve(listener, port)], daemon=True).start()


async def _serve(listener: socket.socket, port: int) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()

    async with await asyncio.start_server(relay, sock=listener) as server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end; one side's end is told to the other, which may still have something to say."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()
