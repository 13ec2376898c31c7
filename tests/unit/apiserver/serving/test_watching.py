"""Watches on the wire, in virtual time."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from bireme.apiserver.serving.watching import BOOKMARK_SECONDS, Printer, stream
from bireme.apiserver.watch import Event
from bireme.testing.simulation.loop import VirtualLoop, run

MINUTES = 10


class QuietWatcher:
    """Nothing happens; it counts how often it is asked."""

    closed = False

    def __init__(self) -> None:
        self.polls = 0

    def poll(self) -> list[Event]:
        self.polls += 1
        assert self.polls < 1000, "asked again and again, though nothing happens"
        return []

    def bookmark(self) -> Event:
        return Event("BOOKMARK", b"{}")


class Response:
    """What was written."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    async def write(self, line: bytes) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("bookmarks", "lines", "polls"), [(True, MINUTES, MINUTES), (False, 0, 1)], ids=["bookmarks", "none"]
)
def test_a_watch_on_which_nothing_happens_costs_nothing_but_its_bookmarks(
    *, bookmarks: bool, lines: int, polls: int
) -> None:
    watcher, response = QuietWatcher(), Response()
    shown: Any = response
    watched: Any = watcher

    async def main() -> None:
        printer = Printer("object", "", lambda: datetime(2026, 1, 1, tzinfo=UTC))
        await stream(
            shown, watched, asyncio.Event(), printer, seconds=MINUTES * BOOKMARK_SECONDS, bookmarks=bookmarks,
            is_closing=lambda: False,
        )  # fmt: skip

    run(VirtualLoop(Random(1)), main())
    assert len(response.lines) == lines
    assert watcher.polls == polls
