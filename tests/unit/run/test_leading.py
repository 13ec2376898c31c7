"""Whoever leads works; whoever stops has ended its work before another may begin."""

import asyncio

import pytest

from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.kube.lease import LeaderElection
from bireme.run.leading import lead_and_work
from unit.kube.lease_server import LeaseServer, Line
from unit.kube.scripted import FakeClock, settle

STOPS_IN = 25
"""Longer than a lease lasts that nobody renews."""


class SlowWorker:
    """Takes its time to stop, and says who held the lease then."""

    def __init__(self, clock: FakeClock, server: LeaseServer) -> None:
        self._clock, self._server = clock, server
        self.told: list[str] = []

    async def run(self) -> None:
        self.told.append("works")
        try:
            await asyncio.Event().wait()
        finally:
            await self._clock.sleep(STOPS_IN)
            self.told.append(f"has stopped, lease of {self._server.spec.get('holderIdentity')}")


class Process:
    """A process of ours that stands for election."""

    def __init__(self) -> None:
        self.clock, self.server = FakeClock(), LeaseServer()
        self.line, self.metrics = Line(self.server), Metrics()
        client = Client(self.line, clock=self.clock, random=lambda: 0.0)
        self.election = LeaderElection(client, "default", "lease", "a")
        self.worker = SlowWorker(self.clock, self.server)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(lead_and_work(self.worker, self.election, self.metrics, "lease"))

    @property
    def is_told_to_lead(self) -> bool:
        told = self.metrics.registry.get_sample_value("leader_election_master_status", {"name": "lease"})
        return told == 1


def test_the_lease_is_renewed_until_the_work_has_ended_and_then_given_back() -> None:
    async def main() -> None:
        process = Process()
        task = process.start()
        await settle()
        assert (process.worker.told, process.is_told_to_lead) == (["works"], True)
        task.cancel()
        await process.clock.advance(STOPS_IN - 1)
        assert process.election.is_leader
        await process.clock.advance(1)
        await asyncio.gather(task, return_exceptions=True)
        assert process.worker.told == ["works", "has stopped, lease of a"]
        assert "holderIdentity" not in process.server.spec
        assert not process.is_told_to_lead

    asyncio.run(main())


def test_a_process_that_loses_its_lease_ends() -> None:
    async def main() -> None:
        process = Process()
        task = process.start()
        await settle()
        process.line.state = "down"
        await process.clock.advance(11)
        process.line.state = "up"
        writes = process.server.writes
        await process.clock.advance(STOPS_IN - 1)
        assert not process.election.is_leader
        assert not process.is_told_to_lead
        await process.clock.advance(1)
        await task
        assert process.server.writes == writes, "it stood again, or wrote of a lease that may be another's"
        assert process.worker.told[0] == "works"

    asyncio.run(main())


def test_a_worker_that_fails_is_told_of_and_its_lease_given_back() -> None:
    class Fails:
        async def run(self) -> None:
            raise OSError("no such port")

    async def main() -> None:
        process = Process()
        with pytest.raises(ExceptionGroup) as caught:
            await lead_and_work(Fails(), process.election, process.metrics, "lease")
        assert [str(each) for each in caught.value.exceptions] == ["no such port"]
        assert "holderIdentity" not in process.server.spec

    asyncio.run(main())
