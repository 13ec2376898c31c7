"""Ctrl-C: asks what to do where there is a terminal."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator


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

    async def ask(self, question: str) -> str:
        """The user's answer, in lower case; empty where another signal came first, or the input's end."""
        sys.stderr.write(question)
        sys.stderr.flush()
        answer = asyncio.create_task(_read_line())
        again = asyncio.create_task(self.next())
        try:
            await asyncio.wait((answer, again), return_when=asyncio.FIRST_COMPLETED)
            if again.done():
                # Whoever asked looks for it there.
                self._queue.put_nowait(again.result())
                sys.stderr.write("\n")
                return ""
            return answer.result().strip().lower()
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
