"""The queue of jobs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from bireme.control.queue import LONGEST_RETRY_SECONDS, WorkQueue


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_key_that_waits_is_handed_out_once() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(3):
            queue.add("a")
        assert await queue.get() == "a"
        assert len(queue) == 0

    run(main())


def test_a_key_is_never_worked_on_twice_at_once_and_a_change_meanwhile_is_not_lost() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.done("a")
        assert await waiting == "a"

    run(main())


def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in "cab":
            queue.add(key)
        assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]

    run(main())


def test_several_workers_are_woken_one_by_one() -> None:
    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue()
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.add(1)
        queue.add(2)
        done, pending = await asyncio.wait(workers, timeout=0.05)
        assert sorted(task.result() or 0 for task in done) == [1, 2]
        queue.close()
        assert [await task for task in pending] == [None]

    run(main())


def test_a_cancelled_worker_does_not_take_a_key_with_it() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 60) == "a"
        with pytest.raises(asyncio.CancelledError):
            await first

    run(main())


def test_a_delayed_key_keeps_its_earliest_time() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add_after("a", 0.01)
        queue.add_after("a", 30)
        assert await asyncio.wait_for(queue.get(), 60) == "a"
        assert queue.statistics()["delayed"] == 0

    run(main())


def test_what_is_added_now_does_not_come_again_later() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 0.01)
        queue.add("a")
        assert queue.statistics()["delayed"] == 0

    run(main())


def test_retries_back_off_to_a_limit_and_start_over_after_success() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waits = [queue.retry("a") for _ in range(12)]
        assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
        assert waits[-1] == LONGEST_RETRY_SECONDS
        queue.forget("a")
        assert queue.retry("a") == 0.2
        queue.close()

    run(main())
