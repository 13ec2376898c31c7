"""Ctrl-C: asks what to do where there is a terminal."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from bireme.cli.failures import INTERRUPTED, Failure

T = TypeVar("T")
_SPARED_SECONDS: Final = 2.0


class Interrupts:
    """Signals that ask us to end, as they come."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[int] = asyncio.Queue()

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for signum in signals:
            loop.add_signal_handler(signum, self._queue.put_nowait, signum)
        try:
            yield
        finally:
            for signum in signals:
                loop.remove_signal_handler(signum)

    async def next(self) -> int:
        return await self._queue.get()

    async def spare(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what is not to be cut off in the middle; `next` tells of a signal that came meanwhile.

        Work that goes on for long after a signal is cut off, with a Failure.
        """
        doing = asyncio.create_task(work)
        signalled = asyncio.create_task(self.next())
        try:
            await asyncio.wait((doing, signalled), return_when=asyncio.FIRST_COMPLETED)
            if signalled.done():
                self._queue.put_nowait(signalled.result())
                await asyncio.wait((doing,), timeout=_SPARED_SECONDS)
            if not doing.done():
                raise Failure("stopped before all was sent", "`bireme get` shows the jobs", INTERRUPTED)
            return await doing
        finally:
            doing.cancel()
            signalled.cancel()
            await asyncio.gather(doing, signalled, return_exceptions=True)

    async def answer(self, *unless: asyncio.Future[Any]) -> str | None:
        """What the user answers, in lower case.

        None at the input's end, or if another signal or one of these comes first.
        """
        answer = asyncio.create_task(_read_line())
        again = asyncio.create_task(self.next())
        try:
            await asyncio.wait((answer, again, *unless), return_when=asyncio.FIRST_COMPLETED)
            if again.done():
                # Whoever asked looks for it there.
                self._queue.put_nowait(again.result())
            elif answer.done():
                return answer.result().strip().lower() if answer.result() else None
            return None
        finally:
            answer.cancel()
            again.cancel()
            await asyncio.gather(answer, again, return_exceptions=True)


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _read_line() -> str:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()
