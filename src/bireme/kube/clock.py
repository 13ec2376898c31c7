"""Time as the client sees it: given from outside, so that tests and the simulation own it."""

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """A clock that only moves forward; its zero means nothing."""

    def now(self) -> float:
        """Seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds, at once if there are none."""


class SystemClock:
    """The machine's clock, if possible one that goes on while the machine is suspended.

    For the others, the lease of a suspended leader runs out in that time too.
    """

    _id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> float:
        return time.clock_gettime(self._id)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def utc_now() -> datetime:
    """The time of day, for what others read: a lease's times, the expiry of a token."""
    return datetime.fromtimestamp(time.time(), UTC)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, but no longer than this: then it is cancelled, and TimeoutError raised."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"not done after {seconds:g} s")
        return task.result()
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)
