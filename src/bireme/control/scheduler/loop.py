"""The scheduler's loop: one round after every change, never two at once.

A round is decided in a worker thread, whatever its size: the event loop renews the lease, follows watches and
binds meanwhile. The thread reads the mirror's state, and nothing changes that until the round is over: news
wait in the mirror, and are taken in between two rounds, a slice at a time. A round itself is bounded
(`scheduling.round`); what it leaves, its backlog, goes into the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, Final

from bireme.control.metrics import Metrics
from bireme.control.scheduler.carrier import Carrier
from bireme.control.scheduler.metrics import SchedulerMetrics
from bireme.control.scheduler.mirror import Mirror
from bireme.control.scheduler.reporter import Reporter
from bireme.control.times import Clock as TimeOfDay
from bireme.control.times import WallClock
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.clock import within
from bireme.scheduling import Backlog, Decisions, Policy, schedule
from bireme.scheduling.units import Key

log = logging.getLogger("bireme.scheduler")

REPORTERS: Final = 8
GATHER_SECONDS: Final = 0.01
"""A gang's pods are made one by one: a round waits so long for what comes together."""
SLICE: Final = 50
"""Changes that are taken in before other tasks get their turn."""
Offload = Callable[[Callable[[], Decisions]], Awaitable[Decisions]]
"""Runs a round so that the event loop goes on meanwhile."""


class Scheduler:
    """Places the pods that name this scheduler."""

    def __init__(
        self,
        client: Client,
        policy: Policy | None = None,
        *,
        home: str = "default",
        clock: TimeOfDay | None = None,
        may_write: Callable[[], bool] = lambda: True,
        metrics: Metrics | None = None,
        with_volumes: bool = True,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        client = client.guarded(may_write)
        self._policy = policy or Policy()
        self._clock = clock or WallClock()
        self._sleep = client.clock
        self._may_write = may_write
        self._offload = offload
        self._backlog = Backlog()
        self._wake = asyncio.Event()
        self.mirror = Mirror(client, home, self._wake.set, self._touch, with_volumes=with_volumes)
        self._carrier = Carrier(client, self.mirror, client.clock)
        self._reporter = Reporter(client, self.mirror)
        self.metrics = metrics or Metrics()
        self._figures = SchedulerMetrics(self.metrics.registry, self.statistics, self._reporter.reasons)
        self.rounds = 0

    def _touch(self, subject: Key | str) -> None:
        self._reporter.touch(subject)

    async def run(self) -> None:
        """Work until cancelled; nothing is decided before every cache is in step."""
        async with asyncio.TaskGroup() as tasks:
            for cache in self.mirror.caches:
                tasks.create_task(cache.run())
            await asyncio.gather(*(cache.wait_synced() for cache in self.mirror.caches))
            log.info("caches are in step")
            for _ in range(REPORTERS):
                tasks.create_task(self._reporter.work(self._clock.now))
            await self._rounds(tasks)

    async def _rounds(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            decisions = await self._round(tasks)
            await self._rest(decisions.wake_at)

    async def _round(self, tasks: asyncio.TaskGroup) -> Decisions:
        """Decide on the picture of now, and begin to carry it out; a call that hangs holds up nobody else."""
        while self.mirror.catch_up(SLICE):
            await asyncio.sleep(0)
        now = self._clock.now()
        begun = self._sleep.now()
        decisions = await self._offload(
            partial(schedule, self.mirror.state, self._policy, now, self._backlog)
        )
        self._backlog = decisions.backlog
        self._figures.round_seconds.observe(self._sleep.now() - begun)
        self.rounds += 1
        self._reporter.heard(decisions)
        self._carrier.carry_out(decisions, now, tasks.create_task)
        return decisions

    async def _rest(self, wake_at: datetime | None) -> None:
        """Wait for a change, or for the time at which something ends."""
        if not self._wake.is_set():
            if wake_at is None:
                await self._wake.wait()
            else:
                seconds = max(0.0, self._clock.seconds_until(wake_at))
                try:
                    await within(self._sleep, seconds, _returns(self._wake.wait()))
                except TimeoutError:
                    if seconds:
                        return
        await self._sleep.sleep(GATHER_SECONDS)

    # For those who look at it.

    def is_ready(self) -> bool:
        return not self.not_ready()

    def not_ready(self) -> list[str]:
        """The caches that are not in step yet, each with what is in its way."""
        return [
            f"{cache.resource.full_name}: {cache.last_error or 'not listed yet'}"
            for cache in self.mirror.caches
            if not cache.is_synced
        ]

    def caches(self) -> list[Cache[Any]]:
        return self.mirror.caches

    def statistics(self) -> dict[str, int]:
        return {
            "rounds": self.rounds,
            "bound": self._carrier.bound,
            "failed": self._carrier.failed,
            "pods": len(self.mirror.state.pods),
            "units": len(self.mirror.state.units),
        }


async def _returns(waiting: Any) -> None:
    await waiting
