"""Waiting until a file has grown: told by the kernel where it can, else by looking now and then."""

import asyncio
import contextlib
import ctypes
import os
import struct
import weakref
from pathlib import Path
from typing import Final

_IN_MODIFY: Final = 0x2
_EVENT: Final = struct.Struct("iIII")
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Growth:
    """A watch on one file, which sets `grown`, as others may too. Close it, or it stays."""

    def __init__(self, path: Path, grown: asyncio.Event) -> None:
        self._grown = grown
        self._notifier = _notifier()
        self._watch = self._notifier.add(path, grown)

    async def wait(self, seconds: float) -> None:
        """Until the file grew, or somebody else says that there may be something to see, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._grown.wait()
        self._grown.clear()

    def close(self) -> None:
        self._notifier.remove(self._watch, self._grown)


class _Notifier:
    """One descriptor for all watches of an event loop: the kernel has few to give, and closes them slowly."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._events: dict[int, set[asyncio.Event]] = {}

    def add(self, path: Path, event: asyncio.Event) -> int:
        """Have an event set when a file grows; return the number of the watch, negative if there is none."""
        if not self._events:
            self._open()
        watch: int = _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY)
        if watch >= 0:
            self._events.setdefault(watch, set()).add(event)
        elif not self._events:
            self._close()
        return watch

    def remove(self, watch: int, event: asyncio.Event) -> None:
        """Twice is once."""
        events = self._events.get(watch, set())
        events.discard(event)
        if events or watch not in self._events:
            return
        del self._events[watch]
        if self._events:
            _libc.inotify_rm_watch(self._descriptor, watch)
        else:
            self._close()

    def _open(self) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            asyncio.get_running_loop().add_reader(self._descriptor, self._on_events)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(descriptor)
            # It takes the kernel up to a hundredth of a second.
            loop.run_in_executor(None, os.close, descriptor)

    def _on_events(self) -> None:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._descriptor, 1 << 16)
        place = 0
        while place < len(data):
            watch, _mask, _cookie, length = _EVENT.unpack_from(data, place)
            place += _EVENT.size + length
            for event in self._events.get(watch, ()):
                event.set()


_notifiers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Notifier]" = weakref.WeakKeyDictionary()


def _notifier() -> _Notifier:
    return _notifiers.setdefault(asyncio.get_running_loop(), _Notifier())
