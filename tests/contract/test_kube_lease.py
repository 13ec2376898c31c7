"""Two candidates and a real API server: exactly one leads."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import TransportError
from bireme.kube.lease import LeaderElection
from bireme.kube.resources import LEASES
from bireme.kube.transport import HttpTransport, Response
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"kube-lease-{uuid.uuid4().hex[:6]}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


class Line(HttpTransport):
    """A way to the API server that can be cut."""

    is_cut = False

    async def request(self, method: str, path: str, **options: Any) -> Response:
        if self.is_cut:
            raise TransportError("no route to host", ambiguous=False)
        return await super().request(method, path, **options)


class Candidate:
    """A process with a client of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: str, lease: str, name: str) -> None:
        self.line = Line(load_config(kubeconfig=str(control_plane.kubeconfig), environ={}))
        self.client = Client(self.line)
        self.election = LeaderElection(
            self.client, namespace, lease, name, lease_seconds=8, renew_deadline=6, retry_period=0.25
        )
        self._task = asyncio.ensure_future(self.election.run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()


@contextlib.asynccontextmanager
async def race(control_plane: ControlPlane, namespace: str, lease: str) -> AsyncIterator[list[Candidate]]:
    """The leader, and the one who waits."""
    candidates = [Candidate(control_plane, namespace, lease, name) for name in ("a", "b")]
    try:
        async with asyncio.timeout(120):
            waits = [asyncio.ensure_future(each.election.wait_until_leading()) for each in candidates]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        candidates.sort(key=lambda each: not each.election.is_leader)
        assert [each.election.is_leader for each in candidates] == [True, False]
        yield candidates
    finally:
        for each in candidates:
            await each.stop()


def test_when_the_leader_is_cut_off_the_other_takes_over(control_plane: ControlPlane, namespace: str) -> None:
    async def main() -> None:
        async with race(control_plane, namespace, "cut-off") as (leader, follower):
            leader.line.is_cut = True
            async with asyncio.timeout(120):
                await leader.election.wait_until_lost()
                assert not follower.election.is_leader
                await follower.election.wait_until_leading()
            assert not leader.election.is_leader
            lease = await follower.client.get(LEASES, namespace, "cut-off")
            assert lease["spec"]["holderIdentity"] == follower.election.identity
            assert lease["spec"]["leaseTransitions"] == 1

    asyncio.run(main())


def test_a_leader_that_stops_hands_over_at_once(control_plane: ControlPlane, namespace: str) -> None:
    async def main() -> None:
        async with race(control_plane, namespace, "stop") as (leader, follower):
            await leader.stop()
            assert not leader.election.is_leader
            lease = await follower.client.get(LEASES, namespace, "stop")
            assert lease["spec"].get("holderIdentity") in (None, follower.election.identity)
            async with asyncio.timeout(120):
                await follower.election.wait_until_leading()

    asyncio.run(main())
