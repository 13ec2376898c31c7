"""The queue of jobs to look at."""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.2
LONGEST_RETRY_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """Hands out each key to one worker at a time, and forgets no change.

    A key that is added while it is being worked on is handed out again afterwards; added several times
    while it waits, it is handed out once. A delayed key keeps only its earliest time.
    """

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Hand the key out as soon as a worker is free."""
        self.adds += 1
        self._cancel_timer(key)
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Hand the key out in so many seconds, unless it is asked for earlier."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(seconds, self._timer_fires, key)

    def retry(self, key: K) -> float:
        """Hand the key out again after a back-off that doubles with each failure; return the seconds."""
        self.retries += 1
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * float(2 ** min(failures, 30)))
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key went well: its next failure is the first."""
        self._failures.pop(key, None)

    async def get(self) -> K | None:
        """The next key, to be given back by `done`; None once the queue is closed."""
        while not self._ready and not self._closed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Whoever was woken instead of us must not be lost.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        if self._closed:
            return None
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """A worker has finished with the key."""
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Hand out nothing more; workers that wait get None."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake()

    def statistics(self) -> dict[str, int]:
        return {
            "depth": len(self._ready),
            "active": len(self._active),
            "delayed": len(self._timers),
            "adds": self.adds,
            "retries": self.retries,
        }

    def _timer_fires(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _wake(self) -> None:
        """Wake one worker that waits; all of them when the queue closes."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if not self._closed:
                    return
