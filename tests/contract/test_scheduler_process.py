"""`bireme scheduler` as a process: it leads, is killed, another takes over, and it stops cleanly."""

import asyncio
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bireme.kube.resources import LEASES
from support.cluster_process import BIREME, cluster_process, get
from support.commands import Bireme
from support.control_plane import ControlPlane
from support.queued_world import QueuedWorld, queued, queued_world

pytestmark = pytest.mark.xdist_group("control_plane")

COUNTED = (
    'leader_election_master_status{name="bireme-scheduler"} 1.0',
    'bireme_scheduler_binds_total{result="bound"} 2.0',
    "bireme_scheduler_round_seconds_count",
    'rest_client_requests_total{code="201",method="bind",resource="pods"} 2.0',
)


def scheduler(
    plane: ControlPlane, home: str, *flags: str
) -> AbstractContextManager[tuple[subprocess.Popen[str], int]]:
    return cluster_process(plane, "scheduler", "--home", home, *flags)


def test_a_scheduler_that_is_killed_is_followed_by_the_one_that_waits(scheduled_plane: ControlPlane) -> None:
    async def scene(world: QueuedWorld) -> None:
        queue = await world.add_queue("main")
        with (
            scheduler(scheduled_plane, world.namespace) as (first, port),
            scheduler(scheduled_plane, world.namespace) as (second, other_port),
        ):
            before = queued("before", queue, 2)
            await world.create(before)
            await world.wait_bound("before", 2)
            lease = await world.client.get(LEASES, world.namespace, "bireme-scheduler")
            texts = [""]

            async def all_is_counted() -> bool:
                """What was done is counted a moment after it can be seen."""
                texts[:] = [
                    (await asyncio.to_thread(get, each, "/metrics"))[1] for each in (port, other_port)
                ]
                return any(all(f"\n{line}" in text for line in COUNTED) for text in texts)

            await world.wait(all_is_counted, "the leader's figures tell of both pods")
            leads = [f"\n{COUNTED[0]}" in text for text in texts]
            assert sorted(leads) == [False, True]
            leader, follower = (first, second) if leads[0] else (second, first)

            leader.kill()
            after = queued("after", queue, 2)
            await world.create(after)
            await world.wait_bound("after", 2)
            taken = await world.client.get(LEASES, world.namespace, "bireme-scheduler")
            assert taken["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"]

            follower.send_signal(signal.SIGTERM)
            _, log = await asyncio.to_thread(follower.communicate, None, 120)
            assert follower.returncode == 0, log
            assert "Traceback" not in log
            given_back = await world.client.get(LEASES, world.namespace, "bireme-scheduler")
            assert not given_back["spec"].get("holderIdentity")

    async def main() -> None:
        async with queued_world(scheduled_plane, "process-of-queues", "2", "2") as world:
            await scene(world)

    asyncio.run(main())


def test_others_decide_by_the_settings_of_the_scheduler_that_leads(
    scheduled_plane: ControlPlane, tmp_path: Path
) -> None:
    bireme = Bireme(tmp_path)

    async def simulate(world: QueuedWorld, job: dict[str, Any]) -> str:
        options = ("--home", world.namespace, "--kubeconfig", str(scheduled_plane.kubeconfig))
        text = yaml.safe_dump(job)
        args = ("simulate", "-f", "-", *options, "-n", world.namespace)
        told = await asyncio.to_thread(bireme, *args, input=text, code=None)
        return told.stdout.splitlines()[0]

    async def scene(world: QueuedWorld) -> None:
        low, high = await world.add_queue("low"), await world.add_queue("high", priority=10)
        private = await world.add_queue("private", namespaceSelector={"matchLabels": {"team": "other"}})
        winner, stranger = queued("winner", high, 1), queued("stranger", private, 1, "1m")
        with scheduler(scheduled_plane, world.namespace):
            await world.create(queued("holder", low, 1))
            await world.wait_bound("holder", 1)
            assert await simulate(world, winner) == "starts after evicting"
            assert await simulate(world, stranger) == "WaitingForResources"
        with scheduler(scheduled_plane, world.namespace, "--no-preemption", "--permissions"):
            await world.create(winner)
            await world.wait_reason("winner", "WaitingForResources")
            assert await simulate(world, queued("other", high, 1)) == "WaitingForResources"
            assert await simulate(world, stranger) == "NotPermitted"

    async def main() -> None:
        async with queued_world(scheduled_plane, "settings-of-queues", "1") as world:
            await scene(world)

    asyncio.run(main())


def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    command = [str(BIREME), "scheduler", "--kubeconfig", str(tmp_path / "nothing")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode != 0
    assert "nothing" in result.stderr
    assert "Traceback" not in result.stderr
