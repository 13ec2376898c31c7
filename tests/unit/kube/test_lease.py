"""At most one leads at any time, by every clock; somebody leads soon after the last one is gone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.kube.client import Client
from bireme.kube.clock import Clock
from bireme.kube.lease import LeaderElection
from unit.kube.lease_server import LeaseServer, Line
from unit.kube.scripted import FakeClock, ScriptedTransport, running, settle

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Candidate:
    def __init__(
        self, server: LeaseServer, clock: Clock, name: str, *, luck: float = 0.0, **options: Any
    ) -> None:
        start = clock.now()
        self.line = Line(server)
        self.told: list[str] = []
        self.election = LeaderElection(
            Client(self.line, clock=clock, random=lambda: luck),
            "default",
            "controller",
            name,
            utc=lambda: NOON + timedelta(seconds=clock.now() - start),
            on_started_leading=lambda: self.told.append("started"),
            on_stopped_leading=lambda: self.told.append("stopped"),
            **options,
        )

    @property
    def leads(self) -> bool:
        return self.election.is_leader


class Race:
    """Two candidates, of whom `a` has come first and leads."""

    def __init__(self, luck: float = 0.0) -> None:
        self.clock = FakeClock()
        self.server = LeaseServer()
        self.a = Candidate(self.server, self.clock, "a")
        self.b = Candidate(self.server, self.clock, "b", luck=luck)

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator["Race"]:
        async with running(self.a.election.run()), running(self.b.election.run()):
            assert (self.a.leads, self.b.leads) == (True, False)
            try:
                yield self
            finally:
                self.a.line.state = "up"

    async def advance_until_b_leads(self, most: float) -> float:
        """The seconds that it took; `a` must never lead at the same time."""
        for tenths in range(int(most * 10)):
            assert not (self.a.leads and self.b.leads)
            if self.b.leads:
                return tenths / 10
            await self.clock.advance(0.1)
        raise AssertionError(f"b does not lead after {most} s")


def test_the_first_takes_the_lease_and_renews_it() -> None:
    async def main() -> None:
        async with Race().begun() as race:
            assert race.a.told == ["started"]
            assert race.server.spec == {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T12:00:00.000000Z",
                "renewTime": "2026-01-01T12:00:00.000000Z",
                "leaseTransitions": 0,
            }
            writes = race.server.writes
            for _ in range(60):
                await race.clock.advance(1)
                assert (race.a.leads, race.b.leads) == (True, False)
            assert race.server.writes == writes + 30
            assert race.a.told == ["started"]
            assert race.b.told == []

    asyncio.run(main())


def test_a_clean_stop_hands_over_at_once() -> None:
    async def main() -> None:
        race = Race()
        async with running(race.b.election.run()):
            pass
        async with running(race.a.election.run()):
            assert race.a.leads
        assert not race.a.leads
        assert race.a.told == ["started", "stopped"]
        assert "holderIdentity" not in race.server.spec
        async with running(race.b.election.run()):
            assert race.b.leads
            assert race.server.spec["leaseTransitions"] == 2

    asyncio.run(main())


def test_a_leader_that_vanishes_is_followed_when_its_lease_has_run_out() -> None:
    async def main() -> None:
        race = Race()
        leading = asyncio.ensure_future(race.a.election.run())
        await settle()
        async with running(race.b.election.run()):
            race.a.line.state = "down"
            leading.cancel()
            await race.clock.advance(2)
            assert leading.done()
            assert race.server.spec["holderIdentity"] == "a"
            assert 13 <= await race.advance_until_b_leads(30) <= 15
            assert race.server.spec["leaseTransitions"] == 1

    asyncio.run(main())


LUCK = pytest.mark.parametrize("luck", [0.0, 0.37, 0.999])
AHEAD = pytest.mark.parametrize("ahead", [0.0, 0.5, 1.9])
"""How long before the end of `a` the two have last looked at the lease together."""


@LUCK
@AHEAD
def test_who_waits_leads_within_a_retry_period_of_a_clean_stop(luck: float, ahead: float) -> None:
    async def main() -> None:
        race = Race(luck)
        async with running(race.a.election.run()) as leading, running(race.b.election.run()):
            await race.clock.advance(20 + ahead)
            leading.cancel()
            await settle()
            assert await race.advance_until_b_leads(30) <= 2

    asyncio.run(main())


@LUCK
@AHEAD
def test_who_waits_leads_within_the_lease_and_a_retry_period_of_the_last_renewal(
    luck: float, ahead: float
) -> None:
    async def main() -> None:
        async with Race(luck).begun() as race:
            await race.clock.advance(20)
            version = race.server.version
            while race.server.version == version:
                await race.clock.advance(0.1)
            await race.clock.advance(ahead)
            race.a.line.state = "down"
            assert ahead + await race.advance_until_b_leads(30) <= 15 + 2

    asyncio.run(main())


@pytest.mark.parametrize("state", ["down", "silent"])
def test_who_loses_contact_stops_leading_before_another_can_begin(state: str) -> None:
    async def main() -> None:
        async with Race().begun() as race:
            race.a.line.state = state
            await race.clock.advance(9.9)
            assert race.a.leads
            took = await race.advance_until_b_leads(30)
            assert race.a.told == ["started", "stopped"]
            assert 2 <= took <= 15
            race.a.line.state = "up"
            await race.clock.advance(30)
            assert (race.a.leads, race.b.leads) == (False, True)

    asyncio.run(main())


def test_leading_ends_by_the_clock_though_nobody_looks() -> None:
    async def main() -> None:
        clock = FakeClock()
        election = Candidate(LeaseServer(), clock, "a").election
        async with running(election.run()) as task:
            assert election.is_leader
            # The process hangs: nothing runs, but time goes on.
            clock._now += 10.5
            assert not election.is_leader
            task.cancel()

    asyncio.run(main())


def test_a_short_loss_of_contact_is_survived() -> None:
    async def main() -> None:
        async with Race().begun() as race:
            race.a.line.state = "down"
            await race.clock.advance(6)
            race.a.line.state = "up"
            await race.clock.advance(30)
            assert (race.a.leads, race.b.leads) == (True, False)
            assert race.a.told == ["started"]

    asyncio.run(main())


def test_a_lost_answer_to_the_first_write_is_found_out() -> None:
    async def main() -> None:
        race = Race()
        race.a.line.state = "loses answers"
        async with running(race.a.election.run()):
            assert not race.a.leads
            race.a.line.state = "up"
            await race.clock.advance(5)
            assert race.a.leads
            assert race.server.spec["leaseTransitions"] == 0

    asyncio.run(main())


def test_a_write_by_somebody_else_that_leaves_the_holder_costs_nothing() -> None:
    async def main() -> None:
        async with Race().begun() as race:
            assert race.server.lease is not None
            race.server.lease["metadata"] |= {"resourceVersion": "edited", "labels": {"kept": "yes"}}
            await race.clock.advance(5)
            assert race.a.leads
            assert race.a.told == ["started"]
            assert race.server.lease["metadata"]["labels"] == {"kept": "yes"}

    asyncio.run(main())


def test_a_leader_whose_lease_was_given_to_another_stops() -> None:
    async def main() -> None:
        async with Race().begun() as race:
            assert race.server.lease is not None
            race.server.lease["metadata"]["resourceVersion"] = "edited"
            race.server.spec["holderIdentity"] = "somebody"
            await race.clock.advance(2.1)
            assert not race.a.leads
            assert race.a.told == ["started", "stopped"]

    asyncio.run(main())


def test_a_holder_s_clock_does_not_matter() -> None:
    async def main() -> None:
        clock = FakeClock()
        server = LeaseServer()
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 20, "renewTime": "1999-01-01T00:00:00.000000Z"}
        server.lease = {"metadata": {"resourceVersion": "0"}, "spec": spec}
        candidate = Candidate(server, clock, "a")
        async with running(candidate.election.run()):
            await clock.advance(19)
            assert not candidate.leads
            await clock.advance(3)
            assert candidate.leads

    asyncio.run(main())


def test_waiting_for_the_lease_and_for_its_loss() -> None:
    async def main() -> None:
        race = Race()
        await race.a.election.wait_until_lost()
        async with race.begun():
            await race.a.election.wait_until_leading()
            lost = asyncio.ensure_future(race.a.election.wait_until_lost())
            await race.clock.advance(5)
            assert not lost.done()
            race.a.line.state = "silent"
            await race.clock.advance(11)
            assert lost.done()

    asyncio.run(main())


def test_the_lease_is_kept_until_the_callback_has_stopped_the_work() -> None:
    async def main() -> None:
        clock, server = FakeClock(), LeaseServer()
        seen: list[tuple[str | None, bool]] = []

        async def stop() -> None:
            await clock.sleep(1)
            seen.append((server.spec.get("holderIdentity"), election.is_leader))

        client = Client(Line(server), clock=clock, random=lambda: 0.0)
        election = LeaderElection(client, "default", "controller", "a", on_stopped_leading=stop)
        task = asyncio.ensure_future(election.run())
        await settle()
        task.cancel()
        await clock.advance(2)
        await asyncio.gather(task, return_exceptions=True)
        assert seen == [("a", False)]
        assert "holderIdentity" not in server.spec

    asyncio.run(main())


class SkewedClock:
    """Runs faster or slower than the others."""

    def __init__(self, clock: FakeClock, rate: float) -> None:
        self._clock = clock
        self._rate = rate

    def now(self) -> float:
        return self._clock.now() * self._rate

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds / self._rate)


NAMES = ("a", "b", "c")
troubles = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["up", "down", "silent", "loses answers"]),
        st.floats(0.5, 12),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(troubles, st.permutations([0.95, 1.0, 1.1]))
def test_whatever_happens_at_most_one_leads_and_in_the_end_one_does(
    troubles: list[tuple[str, str, float]], rates: list[float]
) -> None:
    async def main() -> None:
        clock, server = FakeClock(), LeaseServer()
        candidates = {
            name: Candidate(server, SkewedClock(clock, rate), name)
            for name, rate in zip(NAMES, rates, strict=True)
        }

        async def advance(seconds: float) -> None:
            for _ in range(int(seconds * 2)):
                await clock.advance(0.5)
                assert sum(each.leads for each in candidates.values()) <= 1

        def connect() -> None:
            for each in candidates.values():
                each.line.state = "up"

        async with contextlib.AsyncExitStack() as stack:
            for each in candidates.values():
                await stack.enter_async_context(running(each.election.run()))
            stack.callback(connect)
            for name, state, seconds in troubles:
                candidates[name].line.state = state
                await advance(seconds)
            connect()
            await advance(25)
            assert sum(each.leads for each in candidates.values()) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "times", [{"lease_seconds": 10}, {"renew_deadline": 2}, {"retry_period": 0}, {"renew_deadline": 15}]
)
def test_times_that_could_give_two_leaders_are_refused(times: dict[str, float]) -> None:
    client = Client(ScriptedTransport())
    with pytest.raises(ValueError, match="does not hold"):
        LeaderElection(client, "default", "controller", "a", **times)  # type: ignore[arg-type]
