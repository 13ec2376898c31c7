"""A controller as a process: it is started, crashes, is frozen, and comes back as another."""

import asyncio
import sys
from contextvars import Context
from datetime import datetime, timedelta
from typing import Final

from bireme.control.controller import Controller
from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.kube.lease import LeaderElection
from bireme.planning.observed import Keys
from bireme.run.cluster import LEASE_NAME
from bireme.run.leading import lead_and_work
from bireme.testing.simulation.cluster import NAMESPACE_OF_LEASES, START, Cluster
from bireme.testing.simulation.loop import PROCESS
from bireme.testing.simulation.network import Connection, Network

LEASE_SECONDS: Final = 120.0
RENEW_SECONDS: Final = 80.0
RETRY_SECONDS: Final = 50.0
"""Longer than those of a cluster, so that quiet minutes cost little; their order is what matters."""
WORKERS: Final = 4
_ENDS_WITHIN_SECONDS: Final = 600.0
"""Far more than the calls take that are under way, or the lease's return."""
_KEYS: Final = Keys("client key", "ssh-ed25519 client", "host key", "ssh-ed25519 host")


class VirtualClock:
    """The monotonic clock of a process: it goes on while the process is frozen."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class TimeOfDay:
    """The wall clock of a process, which somebody may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wrong_by = 0.0

    def exactly(self) -> datetime:
        return START + timedelta(seconds=self._loop.time() + self.wrong_by)

    def now(self) -> datetime:
        return self.exactly().replace(microsecond=0)

    def seconds_until(self, time: datetime) -> float:
        return (time - self.exactly()).total_seconds()


class ControllerProcess:
    """One of the controllers; whenever it ends it is started again, with a new identity."""

    def __init__(self, name: str, cluster: Cluster, network: Network, page_size: int = 500) -> None:
        self.name = name
        self._page_size = page_size
        self.identity = ""
        self.controller: Controller | None = None
        self.died: BaseException | None = None
        """Why it ended by itself, if it was by an error."""
        self._cluster, self._network, self._loop = cluster, network, cluster.loop
        self.time_of_day = TimeOfDay(cluster.loop)
        self._starts = 0
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._lives: list[asyncio.Task[None]] = []
        """Those that have not ended yet: one that was asked to end takes its time."""
        self._stopping = False

    def start(self) -> None:
        """Begin a life."""
        self._starts += 1
        self.identity = f"{self.name}-{self._starts}"
        self._connection = self._network.connect(self)
        self._cluster.trace.add(self.identity, "starts")
        self._cluster.stir()
        context = Context()
        context.run(PROCESS.set, self.name)
        self._task = self._loop.create_task(self._live(self._connection), name=self.identity, context=context)
        self._lives.append(self._task)
        self._task.add_done_callback(self._ended, context=Context())

    async def _live(self, connection: Connection) -> None:
        random = self._cluster.random.random
        clock, metrics = VirtualClock(self._loop), Metrics()
        client = Client(connection, clock=clock, random=random, page_size=self._page_size)
        election = LeaderElection(
            Client(connection, clock=clock, random=random), NAMESPACE_OF_LEASES, LEASE_NAME,
            self.identity, lease_seconds=LEASE_SECONDS, renew_deadline=RENEW_SECONDS,
            retry_period=RETRY_SECONDS, utc=self.time_of_day.exactly,
        )  # fmt: skip
        self.controller = Controller(
            client, clock=self.time_of_day, make_keys=lambda: _KEYS, workers=WORKERS, metrics=metrics,
            may_write=lambda: election.is_leader, inline_bytes=sys.maxsize,
        )  # fmt: skip
        await lead_and_work(self.controller, election, metrics, LEASE_NAME)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._cluster.stir()
        self._lives.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.died = self.died or error
        if task is self._task and not self._stopping:
            self._come_back(3.0)

    def kill(self, seconds: float) -> None:
        """End it at once, as by SIGKILL: nothing that it does afterwards reaches the cluster."""
        self._end(seconds, cleanly=False)

    def terminate(self, seconds: float) -> None:
        """End it as by SIGTERM."""
        self._end(seconds, cleanly=True)

    def _end(self, seconds: float, *, cleanly: bool) -> None:
        task, self._task = self._task, None
        if task is None or self._connection is None:
            return
        self._cluster.trace.add(self.identity, "is asked to end" if cleanly else "crashes")
        if not cleanly:
            self._connection.die()
            self._loop.thaw(self.name)
        task.cancel()
        self._come_back(seconds)

    def _come_back(self, seconds: float) -> None:
        self._task = None
        self._cluster.later(seconds, seconds + 0.5, self._start_again)

    def _start_again(self) -> None:
        if not self._stopping:
            self.start()

    def lingering(self) -> list[str]:
        """The lives that were asked to end, and have not: of a run at rest, they never will."""
        return [life.get_name() for life in self._lives if life is not self._task]

    async def shut_down(self) -> list[str]:
        """End it for good, at the end of a run; return the lives that do not end."""
        self._stopping = True
        self._loop.thaw(self.name)
        if self._connection is not None:
            self._connection.die()
        lives = list(self._lives)
        for life in lives:
            life.cancel()
        if lives:
            await asyncio.wait(lives, timeout=_ENDS_WITHIN_SECONDS)
        return [life.get_name() for life in lives if not life.done()]
