"""The parts of a daemon: none of them can die without a word, or for good."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final

from bireme.kube.errors import KubeError
from bireme.kube.retry import Backoff

log = logging.getLogger("bireme")

Begin = Callable[[], Coroutine[Any, Any, None]]
"""Makes a part anew, and runs it."""
BACKOFF: Final = Backoff(1.0, 60.0)
_LONG_ENOUGH_SECONDS: Final = 60.0


@contextlib.asynccontextmanager
async def running(parts: Mapping[str, Begin], backoff: Backoff = BACKOFF) -> AsyncIterator[None]:
    """Keep these parts going until the context ends."""
    tasks = [asyncio.create_task(keep_going(name, begin, backoff)) for name, begin in parts.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep_going(name: str, begin: Begin, backoff: Backoff = BACKOFF) -> None:
    """Run a part until cancelled; one that dies begins anew, ever later, and the log says why."""
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        why: Exception | None = None
        try:
            await _by_itself(begin())
        except Exception as error:
            why = error
        failures = 1 if loop.time() - began >= _LONG_ENOUGH_SECONDS else failures + 1
        seconds = backoff.delay(failures, random.random())  # noqa: S311 - spreads load
        told = "it ended by itself" if why is None else explain(why)
        log.error("the %s has died, and begins anew in %.1f s: %s", name, seconds, told, exc_info=_trace(why))
        await asyncio.sleep(seconds)


async def _by_itself(part: Coroutine[Any, Any, None]) -> None:
    """Run a part in a task of its own, to its end or until cancelled.

    A TaskGroup of Python 3.11 that fails can leave its task as if it were cancelled, and one that fails while
    it is cancelled tells of the failure alone: in a task of its own, neither is taken for the other.
    """
    task = asyncio.create_task(part)
    try:
        await asyncio.wait((task,))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    task.result()


def explain(error: BaseException) -> str:
    """What went wrong, in words; of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _trace(error: BaseException | None) -> BaseException | None:
    """The error itself where it is a fault of ours, and its place is needed."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return None if isinstance(inner, OSError | KubeError) else error
