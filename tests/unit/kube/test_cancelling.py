"""A loop that outlives errors still ends when it is cancelled."""

import asyncio

import pytest

from bireme.kube.cancelling import raise_if_cancelled


async def fail_when(told: asyncio.Event) -> None:
    await told.wait()
    raise ValueError("no longer allowed")


async def outlive_errors(told: asyncio.Event, failures: list[str]) -> None:
    while True:
        try:
            await asyncio.gather(fail_when(told), asyncio.Event().wait())
        except ValueError as error:
            failures.append(str(error))
            raise_if_cancelled()


def test_a_cancellation_that_comes_with_an_error_is_not_lost() -> None:
    async def main() -> list[str]:
        told, failures = asyncio.Event(), list[str]()
        task = asyncio.create_task(outlive_errors(told, failures))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        told.set()
        # The one has failed, and nobody has been told yet.
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await task
        return failures

    assert asyncio.run(main()) == ["no longer allowed"]


def test_nothing_is_raised_where_nobody_cancelled() -> None:
    async def main() -> None:
        raise_if_cancelled()

    asyncio.run(main())
    asyncio.run(asyncio.wait_for(main(), 60))
