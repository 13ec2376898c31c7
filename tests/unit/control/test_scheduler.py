"""The scheduler's loop on a store in the same process: no network."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from bireme.apiserver.local import LocalTransport
from bireme.apiserver.store import Store
from bireme.control.scheduler import Scheduler
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.errors import TransportError
from bireme.kube.resources import NODES
from bireme.kube.transport import Response
from bireme.scheduling import Decisions
from bireme.scheduling.objects import Node
from support.local_scheduler import LocalCluster, local_scheduler, now


class LosesCancellations:
    """A transport that awaits two things together: the error of one takes the place of a cancellation.

    Calls that it is told to hold back wait for `fail`, and fail then; later calls are as usual.
    """

    def __init__(self, inner: LocalTransport, holds_back: Callable[[str, str], bool]) -> None:
        self._inner, self._holds_back = inner, holds_back
        self.held = asyncio.Event()
        self._failing: list[asyncio.Future[None]] = []
        self._has_failed = False

    def fail(self) -> None:
        self._has_failed = True
        for future in self._failing:
            future.set_exception(TransportError("the connection broke"))
        self._failing.clear()

    async def request(self, method: str, path: str, **options: Any) -> Response:
        if not self._has_failed and self._holds_back(method, path):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._failing.append(future)
            self.held.set()
            await asyncio.gather(future, asyncio.Event().wait())
        return await self._inner.request(method, path, **options)

    def stream(self, path: str, **options: Any) -> Any:
        return self._inner.stream(path, **options)

    async def close(self) -> None:
        await self._inner.close()


async def make_busy(cluster: LocalCluster) -> None:
    await cluster.add_node("n", 4)
    await cluster.add_queue("q")
    await cluster.submit("job", "q")


def test_a_status_that_fails_as_the_scheduler_is_cancelled_does_not_keep_it_alive() -> None:
    def is_status_of_queue(method: str, path: str) -> bool:
        return method == "PATCH" and "/queues/" in path and path.endswith("/status")

    async def main() -> bool:
        transports: list[LosesCancellations] = []

        def wrap(inner: LocalTransport) -> LosesCancellations:
            transports.append(LosesCancellations(inner, is_status_of_queue))
            return transports[0]

        async with local_scheduler(wrap) as (cluster, work):
            await make_busy(cluster)
            async with asyncio.timeout(60):
                await transports[0].held.wait()
            # The scheduler passes its cancellation on before the call's error has arrived anywhere.
            work.cancel()
            transports[0].fail()
            done, _ = await asyncio.wait([work], timeout=10)
            return bool(done)

    assert asyncio.run(main())


def test_a_cache_that_is_cancelled_as_its_list_fails_ends() -> None:
    async def main() -> bool:
        transport = LosesCancellations(LocalTransport(Store(), now), lambda method, _: method == "GET")
        work = asyncio.create_task(Cache(Client(transport), NODES, Node).run())
        async with asyncio.timeout(60):
            await transport.held.wait()
        transport.fail()
        work.cancel()
        done, _ = await asyncio.wait([work], timeout=10)
        work.cancel()
        return bool(done)

    assert asyncio.run(main())


def test_every_round_is_handed_over_and_by_default_to_a_thread() -> None:
    handed_over = 0

    async def offload(decide: Callable[[], Decisions]) -> Decisions:
        nonlocal handed_over
        handed_over += 1
        return await asyncio.to_thread(decide)

    async def main() -> None:
        async with local_scheduler(offload=offload) as (cluster, _):
            await make_busy(cluster)
            await cluster.seconds_to_start("job-0")

    asyncio.run(main())
    assert handed_over
    assert inspect.signature(Scheduler).parameters["offload"].default is asyncio.to_thread


def test_more_changes_than_a_slice_are_all_taken_in_before_a_round() -> None:
    async def main() -> None:
        async with local_scheduler() as (cluster, _):
            await cluster.add_queue("q")
            await cluster.submit("job", "q", 300)
            for number in range(3):
                await cluster.add_node(f"n{number}", 100)
            await cluster.seconds_to_start("job-299")

    asyncio.run(main())
