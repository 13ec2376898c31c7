"""The parts of a daemon begin anew when they die."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bireme.kube.errors import TransportError
from bireme.kube.retry import Backoff
from bireme.run.parts import explain, running

SOON = Backoff(0.001, 0.002)
PATIENCE_SECONDS = 90


def part(
    *ends: Exception | None, alive: asyncio.Event, begun: list[int]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Dies in each of these ways, then lives."""
    left = list(ends)

    async def begin() -> None:
        begun.append(1)
        if left:
            end = left.pop(0)
            if end is not None:
                raise end
            return
        alive.set()
        await asyncio.Event().wait()

    return begin


def play(*ends: Exception | None) -> int:
    """Run a part until it lives; return how often it began."""

    async def main() -> int:
        alive, begun = asyncio.Event(), list[int]()
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            running({"oar": part(*ends, alive=alive, begun=begun)}, SOON),
        ):
            await alive.wait()
        return len(begun)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (RuntimeError("broken"), "broken"),
        (None, "it ended by itself"),
        (OSError(28, "No space left on device", "/data/x"), "/data/x: No space left on device"),
        (ExceptionGroup("two", [ValueError("first"), ValueError("second")]), "first"),
        (KeyError(), "KeyError"),
    ],
    ids=["error", "no error", "full disk", "group", "without words"],
)
def test_a_part_that_dies_begins_anew_and_the_log_says_why(
    end: Exception | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert play(end) == 2
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("the oar has died, and begins anew in 0.0 s: ")
    assert record.getMessage().endswith(told)


def test_a_part_may_die_again_and_again() -> None:
    assert play(*(RuntimeError(str(number)) for number in range(20))) == 21


@pytest.mark.parametrize(
    ("end", "traced"),
    [(RuntimeError(), True), (TransportError("gone"), False), (OSError(2, "no"), False)],
    ids=["fault", "no server", "system"],
)
def test_only_a_fault_of_ours_has_its_place_in_the_log(
    end: Exception, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    play(ExceptionGroup("tasks", [end]))
    assert bool(caplog.records[0].exc_info) == traced


def test_the_others_go_on_when_one_dies() -> None:
    async def main() -> list[int]:
        alive, begun = asyncio.Event(), list[int]()
        parts = {
            "sail": part(alive=asyncio.Event(), begun=begun),
            "oar": part(RuntimeError(), alive=alive, begun=[]),
        }
        async with asyncio.timeout(PATIENCE_SECONDS), running(parts, SOON):
            await alive.wait()
        return begun

    assert asyncio.run(main()) == [1]


def test_a_part_whose_tasks_fail_after_all_are_begun_begins_anew() -> None:
    """A TaskGroup then leaves the task that awaits it as if that were cancelled, which nobody asked for."""
    begun = list[int]()

    async def main() -> None:
        lives = asyncio.Event()

        async def fail() -> None:
            await asyncio.sleep(0)
            if len(begun) > 1:
                lives.set()
                await asyncio.Event().wait()
            raise RuntimeError("a bug")

        async def begin() -> None:
            begun.append(1)
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())

        async with asyncio.timeout(PATIENCE_SECONDS), running({"oar": begin}, SOON):
            await lives.wait()

    asyncio.run(main())
    assert begun == [1, 1]


def test_a_part_that_fails_while_it_is_asked_to_end_does_not_begin_anew() -> None:
    """A TaskGroup tells of the failure alone, so it looks as if nobody had asked."""
    begun = list[int]()

    async def main() -> None:
        lives = asyncio.Event()

        async def fail_when_asked() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise RuntimeError("in the middle of something")

        async def begin() -> None:
            begun.append(1)
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_when_asked())
                lives.set()

        async with asyncio.timeout(PATIENCE_SECONDS), running({"oar": begin}, SOON):
            await lives.wait()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert begun == [1]


def test_words_are_found_for_any_error() -> None:
    assert explain(BaseExceptionGroup("deep", [ExceptionGroup("deeper", [OSError(5, "broken")])])) == "broken"
