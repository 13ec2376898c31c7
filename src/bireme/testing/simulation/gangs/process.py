"""A scheduler as a process: it is started, crashes, is frozen, and comes back as another."""

from collections.abc import Callable

from bireme.control.metrics import Metrics
from bireme.control.scheduler import Scheduler
from bireme.kube.client import Client
from bireme.kube.lease import LeaderElection
from bireme.run.leading import lead_and_work
from bireme.run.queues import LEASE_NAME
from bireme.scheduling import Decisions
from bireme.testing.simulation.cluster import NAMESPACE_OF_LEASES
from bireme.testing.simulation.network import Connection
from bireme.testing.simulation.process import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    RETRY_SECONDS,
    ControllerProcess,
    VirtualClock,
)


async def _at_once(decide: Callable[[], Decisions]) -> Decisions:
    """Threads can't be repeated: a round takes no time here."""
    return decide()


class SchedulerProcess(ControllerProcess):
    """One of the schedulers."""

    scheduler: Scheduler | None = None

    async def _live(self, connection: Connection) -> None:
        random = self._cluster.random.random
        clock, metrics = VirtualClock(self._loop), Metrics()
        client = Client(connection, clock=clock, random=random)
        election = LeaderElection(
            client, NAMESPACE_OF_LEASES, LEASE_NAME, self.identity, lease_seconds=LEASE_SECONDS,
            renew_deadline=RENEW_SECONDS, retry_period=RETRY_SECONDS, utc=self.time_of_day.exactly,
        )  # fmt: skip
        self.scheduler = Scheduler(
            Client(connection, clock=clock, random=random),
            home=NAMESPACE_OF_LEASES, clock=self.time_of_day, may_write=lambda: election.is_leader,
            metrics=metrics, with_volumes=False, offload=_at_once,
        )  # fmt: skip
        await lead_and_work(self.scheduler, election, metrics, LEASE_NAME)
