"""The event loop of the simulation: no clock, no outside world, and the same order for the same seed."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

import pytest

from bireme.kube.clock import SystemClock
from bireme.testing.simulation.guard import outside_world_forbidden
from bireme.testing.simulation.loop import PROCESS, NotSimulatedError, StandstillError, VirtualLoop, run


def play(work: Callable[[], Coroutine[Any, Any, Any]], seed: int = 0) -> Any:
    return run(VirtualLoop(Random(seed)), work())


def test_time_jumps_to_the_next_timer() -> None:
    async def work() -> float:
        await asyncio.sleep(3600)
        await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time()

    assert play(work) == 3600.5


def order_of(seed: int) -> list[int]:
    order: list[int] = []

    async def one(number: int) -> None:
        for _ in range(3):
            order.append(number)
            await asyncio.sleep(0)

    async def work() -> None:
        await asyncio.gather(*(one(number) for number in range(5)))

    play(work, seed)
    return order


def test_the_seed_decides_who_goes_first() -> None:
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(20)}) > 10


def test_a_group_of_tasks_is_cancelled_in_the_same_order_every_time() -> None:
    def cancelled(seed: int) -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                order.append(number)

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                for number in range(20):
                    tasks.create_task(one(number))

        async def work() -> None:
            task = asyncio.ensure_future(group())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        play(work, seed)
        return order

    assert len({tuple(cancelled(7)) for _ in range(5)}) == 1


def test_a_frozen_process_does_nothing_and_then_finds_that_time_has_passed() -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        context = Context()
        context.run(PROCESS.set, "a")
        ticking = loop.create_task(tick(), context=context)
        await asyncio.sleep(2.5)
        loop.freeze("a", 10)
        await asyncio.sleep(11)
        ticking.cancel()

    play(work)
    assert ticks == [1, 2, 12.5, 13.5]


def test_a_world_in_which_nothing_can_happen_any_more_is_an_error() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        play(work)


OUTSIDE: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "thread": lambda: asyncio.to_thread(print),
    "socket": lambda: asyncio.open_connection("127.0.0.1", 1),
    "server": lambda: asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0),
    "subprocess": lambda: asyncio.create_subprocess_exec("true"),
}


@pytest.mark.parametrize("call", OUTSIDE.values(), ids=list(OUTSIDE))
def test_the_outside_world_is_an_error(call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    with pytest.raises(NotSimulatedError):
        play(call)


def test_a_wall_clock_is_an_error_for_our_own_code_only() -> None:
    import time

    with outside_world_forbidden():
        with pytest.raises(NotSimulatedError, match=r"bireme\.kube\.clock called time\.clock_gettime"):
            SystemClock().now()
        assert time.time() > 0
    assert SystemClock().now() > 0
    assert (socket.create_connection, subprocess.run, threading.Thread.start) == _REAL
    assert "bireme" not in repr(sys.modules["time"].time)


_REAL = (socket.create_connection, subprocess.run, threading.Thread.start)
