"""Watches on the wire: lines of JSON, as many in one write as there are."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web

from bireme.apiserver.printing.table import partial, table
from bireme.apiserver.watch import Event, Watcher

BOOKMARK_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 3600.0
_LARGEST_WRITE: Final = 64 * 1024
_encode: Final = msgspec.json.Encoder().encode


class Printer:
    """Writes events in the form that the client takes."""

    def __init__(self, form: str, include: str, now: Callable[[], datetime]) -> None:
        self._form, self._include, self._now = form, include, now
        self._with_columns = True

    def line(self, watcher: Watcher, event: Event) -> bytes:
        if self._form == "object" or event.type == "ERROR":
            return event.line
        obj = event.object
        if self._form == "partial":
            shown = partial(obj)
        else:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            rows = () if event.type == "BOOKMARK" else (obj,)
            shown = table(
                watcher.kind,
                rows,
                self._now(),
                include=self._include,
                metadata=metadata,
                with_columns=self._with_columns,
            )
            self._with_columns = False
        return _encode({"type": event.type, "object": shown}) + b"\n"


async def stream(
    response: web.StreamResponse,
    watcher: Watcher,
    ready: asyncio.Event,
    printer: Printer,
    *,
    seconds: float,
    bookmarks: bool,
    is_closing: Callable[[], bool],
) -> None:
    """Send events until the time is up, the history is behind, or the server closes the watcher."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    next_bookmark = loop.time() + BOOKMARK_SECONDS
    while not (expired := loop.time() >= deadline) and not is_closing():
        ready.clear()
        events = watcher.poll()
        if bookmarks and loop.time() >= next_bookmark and not watcher.closed:
            events.append(watcher.bookmark())
            next_bookmark = loop.time() + BOOKMARK_SECONDS
        for chunk in _chunks(printer.line(watcher, event) for event in events):
            await response.write(chunk)
        if watcher.closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(deadline, next_bookmark) if bookmarks else deadline):
                await ready.wait()
    if expired and bookmarks:
        await response.write(printer.line(watcher, watcher.bookmark()))


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _LARGEST_WRITE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)
