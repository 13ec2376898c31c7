"""`bireme queue`, `why` and `simulate` on a real API server: each reason from a state of a real cluster."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bireme.api.kinds import QUEUE
from bireme.kube.resources import LEASES, Resource, resource_of
from bireme.run.queues import LEASE_NAME, POLICY_ANNOTATION
from bireme.scheduling import Policy
from support.cluster_world import until
from support.commands import Bireme
from support.control_plane import ControlPlane
from support.queued_world import QueuedWorld, queued, queued_world, scheduling

pytestmark = pytest.mark.xdist_group("control_plane")

RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
Ask = Callable[..., Awaitable[subprocess.CompletedProcess[str]]]


def play(plane: ControlPlane, folder: Path, name: str, scene: Any, *cpus: str) -> None:
    """Play a scene with a scheduler at work; it asks commands about its namespace."""
    bireme = Bireme(folder)

    async def main() -> None:
        async with queued_world(plane, name, *cpus) as world, scheduling(plane):
            # This scheduler is a part of the test, and holds no lease that could say how it decides.
            told = {POLICY_ANNOTATION: msgspec.json.encode(Policy()).decode()}
            metadata = {"name": LEASE_NAME, "annotations": told}
            await world.client.create(LEASES, world.namespace, {"metadata": metadata, "spec": {}})

            async def ask(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
                home = ("--home", world.namespace)
                where = (*home, "--kubeconfig", str(plane.kubeconfig), "-n", world.namespace)
                return await asyncio.to_thread(bireme, *args, *where, **more)

            await scene(world, ask)

    asyncio.run(main())


async def why(ask: Ask, job: str) -> tuple[str, str]:
    """The reason's word, and all the rest."""
    told = (await ask("why", job)).stdout
    word, _, rest = told.partition("\n")
    return word, rest


def test_each_reason_is_told_of_a_real_cluster(scheduled_plane: ControlPlane, tmp_path: Path) -> None:
    async def scene(world: QueuedWorld, ask: Ask) -> None:
        main = await world.add_queue("main")
        shut = await world.add_queue("shut", closed=True)
        small = await world.add_queue("small", quota={"requests": {"cpu": "1"}})
        private = await world.add_queue("private", namespaceSelector={"matchLabels": {"team": "other"}})
        holder = queued("holder", main, 2, "1500m")
        await world.create(holder)
        await world.wait_phase(holder, "Running")
        await world.create(queued("saver", small, 1, "100m"))
        await world.wait_bound("saver", 1)
        cases = {
            "Misconfigured": (queued("lost", "nowhere", 1), "create queue nowhere"),
            "QueueClosed": (queued("outside", shut, 1, "100m"), f"open queue {shut}"),
            "NotPermitted": (queued("stranger", private, 1, "100m"), f"let queue {private} select namespace"),
            "ExceedsQuotaEver": (
                queued("greedy", small, 2),
                f"raise the quota of queue {small} to 2100m cpu",
            ),
            "WaitingForQuota": (
                queued("patient", small, 1),
                f"raise the quota of queue {small} to",
            ),
            "DoesNotFitAnyNode": (queued("huge", main, 1, "3"), " with at least 3 cpu"),
            "Fragmented": (queued("sliced", main, 1, "600m"), "wait for the end of"),
            "WaitingForResources": (queued("next", main, 2), "wait for the end of"),
        }
        for reason, (job, remedy) in cases.items():
            name = job["metadata"]["name"]
            await world.create(job)
            await world.wait_reason(name, reason)
            word, rest = await why(ask, name)
            assert word == reason, rest
            assert remedy in rest
            queue = job["spec"]["scheduler"]["t9kScheduler"]["queue"]
            if reason != "Misconfigured":
                assert f"{world.namespace}/{name}" in (await ask("queue", queue)).stdout
            await world.delete_job(job)

    play(scheduled_plane, tmp_path, "reasons", scene, "2", "2")


def test_members_that_cannot_be_made_are_missed(scheduled_plane: ControlPlane, tmp_path: Path) -> None:
    async def scene(world: QueuedWorld, ask: Ask) -> None:
        queue = await world.add_queue("main")
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}}
        body = quota | {"spec": {"hard": {"pods": "1"}}}
        await world.client.create(RESOURCE_QUOTAS, world.namespace, body)

        async def counted() -> bool:
            found = await world.client.get(RESOURCE_QUOTAS, world.namespace, "one")
            return bool((found.get("status") or {}).get("hard"))

        await until(counted)
        await world.create(queued("job", queue, 2, "100m"))
        await world.wait_reason("job", "InsufficientMembers")
        word, rest = await why(ask, "job")
        assert (word, "create 1 more pod\n" in rest) == ("InsufficientMembers", True), rest

    play(scheduled_plane, tmp_path, "members", scene, "1")


def test_victims_are_told_before_and_while_they_go(scheduled_plane: ControlPlane, tmp_path: Path) -> None:
    async def scene(world: QueuedWorld, ask: Ask) -> None:
        low, high = await world.add_queue("low"), await world.add_queue("high", priority=10)
        world.kubelets.slow = True
        victim, winner = queued("victim", low, 2), queued("winner", high, 2)
        await world.create(victim)
        await world.wait_phase(victim, "Running")
        told = await ask("simulate", "-f", "-", input=yaml.safe_dump(winner))
        first, *evicted = told.stdout.splitlines()
        assert first == "starts after evicting"
        assert sorted(evicted) == ["  victim-worker-0", "  victim-worker-1"]
        await world.create(winner)
        await world.wait_reason("winner", "WaitingForVictims")
        assert (await why(ask, "winner"))[0] == "WaitingForVictims"
        assert set(await world.bound("victim")) == set()
        world.kubelets.go.set()
        await world.wait_phase(winner, "Running")
        assert (await why(ask, "winner"))[0] == "NotWaiting"
        waits = await ask("simulate", "-f", "-", input=yaml.safe_dump(queued("more", low, 1)), code=1)
        assert waits.stdout.splitlines()[0] in ("WaitingForResources", "WaitingForQuota")

    play(scheduled_plane, tmp_path, "victims", scene, "1", "1")


def test_who_may_not_read_the_cluster_is_told_what_the_scheduler_wrote_down(
    scheduled_plane: ControlPlane, tmp_path: Path
) -> None:
    bireme = Bireme(tmp_path)

    async def scene(world: QueuedWorld, _ask: Ask) -> None:
        queue = await world.add_queue("shut", closed=True)
        await world.create(queued("job", queue, 1))
        await world.wait_reason("job", "QueueClosed")
        name = f"reader-{world.namespace}"
        rules = [
            "--verb=get,list",
            "--resource=genericjobs.batch.tensorstack.dev,podgroups.scheduler.tensorstack.dev",
        ]
        scheduled_plane.kubectl("create", "role", name, *rules, "-n", world.namespace)
        binding = (f"--role={name}", "--user=reader", "-n", world.namespace)
        scheduled_plane.kubectl("create", "rolebinding", name, *binding)
        config = str(scheduled_plane.kubeconfig_for("reader"))
        args = ("why", "gj/job", "--kubeconfig", config, "-n", world.namespace)
        told = await asyncio.to_thread(bireme, *args)
        assert told.stdout.splitlines()[0] == "QueueClosed"
        assert "the whole cluster may not be read" in told.stderr

    play(scheduled_plane, tmp_path, "reader", scene, "1")


def test_the_table_of_queues_shows_what_they_hold(scheduled_plane: ControlPlane, tmp_path: Path) -> None:
    async def scene(world: QueuedWorld, ask: Ask) -> None:
        queue = await world.add_queue("main", quota={"requests": {"cpu": "4"}})
        await world.create(queued("job", queue, 2, "500m"))
        await world.wait_bound("job", 2)
        rows = [row.split() for row in (await ask("queue")).stdout.splitlines()]
        row = next(each for each in rows if each[0] == queue)
        assert row == [queue, "0", "yes", "yes", "25%", "1", "0", "cpu=1", "cpu=4"]
        listed = (await world.client.list(resource_of(QUEUE), type=dict)).items
        assert len(rows) == len(listed) + 1

    play(scheduled_plane, tmp_path, "table", scene, "1")


def test_tenant_sees_queues_and_the_groups_of_its_namespace(
    scheduled_plane: ControlPlane, tmp_path: Path
) -> None:
    bireme = Bireme(tmp_path)

    async def scene(world: QueuedWorld, _ask: Ask) -> None:
        main = await world.add_queue("main", quota={"requests": {"cpu": "2"}})
        shut = await world.add_queue("shut", closed=True)
        await world.create(queued("runs", main, 1, "500m"))
        await world.wait_bound("runs", 1)
        await world.create(queued("waits", shut, 1))
        await world.wait_reason("waits", "QueueClosed")
        name = f"tenant-{world.namespace}"
        kinds = "--resource=queues.scheduler.tensorstack.dev"
        scheduled_plane.kubectl("create", "clusterrole", name, "--verb=get,list", kinds)
        scheduled_plane.kubectl(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=tenant"
        )
        kinds = "--resource=pods,podgroups.scheduler.tensorstack.dev"
        scheduled_plane.kubectl("create", "role", name, "--verb=get,list", kinds, "-n", world.namespace)
        binding = (f"--role={name}", "--user=tenant", "-n", world.namespace)
        scheduled_plane.kubectl("create", "rolebinding", name, *binding)
        config = str(scheduled_plane.kubeconfig_for("tenant"))

        async def ask(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
            where = ("--kubeconfig", config, "-n", world.namespace)
            return await asyncio.to_thread(bireme, *args, *where, **more)

        def simulate(job: dict[str, Any], code: int) -> Awaitable[subprocess.CompletedProcess[str]]:
            return ask("simulate", "-f", "-", input=yaml.safe_dump(job), code=code)

        async def holds() -> bool:
            table = await ask("queue")
            assert "nodes and other namespaces may not be read" in table.stderr
            rows = [row.split() for row in table.stdout.splitlines()]
            return [main, "0", "yes", "yes", "25%", "1", "0", "cpu=500m", "cpu=2"] in rows

        await until(holds)
        line = await ask("queue", shut)
        assert line.stdout.splitlines()[1].split()[:4] == [
            "1",
            f"{world.namespace}/waits",
            "0",
            "QueueClosed",
        ]
        assert "there is no queue nosuch" in (await ask("queue", "nosuch", code=1)).stderr
        assert "QueueClosed" in (await simulate(queued("new", shut, 1), 1)).stdout
        assert "WaitingForQuota" in (await simulate(queued("new", main, 2, "900m"), 1)).stdout
        fits = await simulate(queued("new", main, 1, "1"), 3)
        assert f"queue {main} lets it start, if nodes have room" in fits.stdout
        assert "whether there is room can't be told" in fits.stderr
        for sort in ("clusterrole", "clusterrolebinding"):
            scheduled_plane.kubectl("delete", sort, name)

    play(scheduled_plane, tmp_path, "tenant", scene, "1")
