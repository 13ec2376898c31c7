"""An event loop without a clock: time jumps to the next timer, and a seed decides who goes first.

Sockets, threads, executors and subprocesses are errors here: whatever they did would not happen again in the
next run of the same seed.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from random import Random
from typing import Any, Final, NoReturn, Self, TypeVar

T = TypeVar("T")

PROCESS: Final[ContextVar[str]] = ContextVar("process", default="")
"""Whose work a callback is; tasks and timers inherit it from whoever started them."""


class NotSimulatedError(RuntimeError):
    """Something asked for the outside world."""


class StandstillError(RuntimeError):
    """Nothing is ready and no timer runs, so nothing would ever happen again."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks are then iterated in the same order in every run."""

    number: int

    def __new__(cls, *_args: Any, loop: "VirtualLoop", **_kwargs: Any) -> Self:
        # Not in __init__: the hash is asked for there already.
        task = super().__new__(cls)
        task.number = next(loop.task_numbers)
        return task

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotSimulatedError(f"{what} is not simulated")

    return refuse


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs one ready callback at a time, drawn by the seed. A process can be frozen: its callbacks wait."""

    # What the base class has, and keeps to itself.
    _ready: deque[Any]
    _scheduled: list[Any]
    _stopping: bool
    _asyncgens: Any

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random.random
        self._now = 0.0
        self._held: dict[str, list[Any]] = {}
        self.task_numbers = itertools.count()
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now

    def freeze(self, process: str, seconds: float) -> None:
        """Let nothing of a process happen for so long; its timers that are due meanwhile fire afterwards."""
        if process not in self._held:
            self._held[process] = []
            self.call_later(seconds, self._thaw, process, context=Context())

    def _thaw(self, process: str) -> None:
        self._ready.extend(self._held.pop(process, ()))

    def thaw(self, process: str) -> None:
        """End the freeze of a process now, if there is one."""
        self._thaw(process)

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        handle = self._draw()
        if handle._cancelled:
            return
        if self._held and (held := self._held.get(handle._context.get(PROCESS, ""))) is not None:
            held.append(handle)
            return
        handle._run()

    def _jump(self) -> None:
        """Go on to the next timer that still matters."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not timers:
            if self._stopping:
                self._ready.append(asyncio.Handle(lambda: None, (), self))
                return
            raise StandstillError(f"nothing more can happen after {self._now:g} s")
        self._now = max(self._now, timers[0]._when)
        while timers and timers[0]._when <= self._now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            self._ready.append(timer)

    def _draw(self) -> Any:
        ready = self._ready
        count = len(ready)
        if count == 1:
            return ready.popleft()
        place = int(self._random() * count)
        ready.rotate(-place)
        handle = ready.popleft()
        ready.rotate(place)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is dropped when its time comes."""

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        self._asyncgens.discard(agen)
        if not self.is_closed():
            self.call_soon(self.create_task, agen.aclose())

    # ---- the outside world

    call_soon_threadsafe: Any = _refuse("a call from a thread")
    run_in_executor: Any = _refuse("an executor")
    getaddrinfo: Any = _refuse("a name server")
    create_connection: Any = _refuse("a connection")
    create_server: Any = _refuse("a server")
    create_datagram_endpoint: Any = _refuse("a socket")
    subprocess_exec: Any = _refuse("a subprocess")
    subprocess_shell: Any = _refuse("a subprocess")
    add_signal_handler: Any = _refuse("a signal")
    add_reader: Any = _refuse("a file descriptor")
    add_writer: Any = _refuse("a file descriptor")


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> NumberedTask:
    assert isinstance(loop, VirtualLoop)
    return NumberedTask(work, loop=loop, **options)


def run(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, then close the loop."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
