"""Waiting until a file has grown: told by the kernel where it can, else by looking now and then."""

import asyncio
import contextlib
import ctypes
import os
from pathlib import Path
from typing import Final

_IN_MODIFY: Final = 0x2
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Growth:
    """A watch on one file. Close it, or the descriptor stays."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._grown = asyncio.Event()
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            if _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY) >= 0:
                self._loop.add_reader(self._descriptor, self._on_event)
            else:
                os.close(self._descriptor)
                self._descriptor = -1

    async def wait(self, seconds: float) -> None:
        """Until the file grew, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._grown.wait()
        self._grown.clear()

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_event(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 65536)
        self._grown.set()
