"""Bytes between a client of exec or attach and the descriptors of a process. Nothing here blocks."""

import asyncio
import os
import struct
import termios
from collections.abc import Callable
from fcntl import ioctl
from typing import Any, Final

from bireme.apiserver.serving.gateway import Session

_CHUNK: Final = 1 << 16


async def pump(descriptor: int, session: Session, stream: int) -> None:
    """Send what comes out, until its end."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    while True:
        await _until(descriptor, loop.add_reader, loop.remove_reader)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not data:
            return
        await session.write(stream, data)


async def feed(session: Session, descriptor: int, *, wanted: bool) -> None:
    """Hand in what the client sends, until its end; then close the descriptor."""
    try:
        os.set_blocking(descriptor, False)
        while wanted and (data := await session.read()):
            await _write_all(descriptor, data)
    except OSError:
        pass
    finally:
        os.close(descriptor)


async def resize(session: Session, descriptor: int) -> None:
    """Tell a terminal each new size of the client's; close the descriptor when that is over."""
    try:
        while True:
            size = await session.resized()
            ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
    finally:
        os.close(descriptor)


async def _write_all(descriptor: int, data: bytes) -> None:
    """Who reads may take its time, or never read: so nobody may be kept waiting but this client."""
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _until(descriptor, loop.add_writer, loop.remove_writer)


async def _until(descriptor: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    """Wait until something can be done with a descriptor."""
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
