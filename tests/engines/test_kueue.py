"""Jobs under Kueue, as plain pod groups: quota first, then the cluster's own scheduler."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest

from bireme.kube.resources import PODS, Resource
from support.control_plane import BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.gang_engines import kueue
from support.gang_scenes import CPUS, QUEUE, member_comes_back, waits_whole, whole_to_the_end
from support.gang_world import GangWorld, controller_under, gang_world, job
from support.installation import Object, apply

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("gang_engines")]

VERSION: Final = "kueue.x-k8s.io/v1beta2"
WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")


@pytest.fixture(scope="module")
def plane(gang_plane: ControlPlane) -> Iterator[ControlPlane]:
    try:
        with kueue(gang_plane), controller_under(gang_plane, "kueue"):
            apply(gang_plane, [flavor()])
            yield gang_plane
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None


def flavor() -> Object:
    return {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": "any"}}


def queues(namespace: str) -> list[Object]:
    """A queue of three CPUs for one namespace, in which higher priorities preempt."""
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": 3}]}
    cluster = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    local = {"name": QUEUE, "namespace": namespace}
    return [
        {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": cluster},
        {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": local,
            "spec": {"clusterQueue": namespace},
        },
    ]


def play(plane: ControlPlane, namespace: str, scene: Callable[[GangWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with gang_world(plane, namespace, *CPUS) as world:
            apply(plane, queues(namespace))
            await scene(world)

    asyncio.run(main())


async def condition(world: GangWorld, name: str, kind: str) -> dict[str, Any]:
    """A condition of a job's Workload; empty while there is none."""
    status = (await world.object(WORKLOADS, name)).get("status") or {}
    return next((each for each in status.get("conditions", ()) if each["type"] == kind), {})


async def wait_condition(world: GangWorld, name: str, kind: str, status: str = "True") -> None:
    async def holds() -> bool:
        return (await condition(world, name, kind)).get("status") == status

    await world.wait(holds, f"the Workload {name} is {kind}={status}")


async def has_no_quota(world: GangWorld, name: str) -> bool:
    return (await condition(world, name, "QuotaReserved")).get("status") == "False"


def test_a_gang_runs_to_its_end_and_gives_its_quota_back(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        await whole_to_the_end(world)
        await wait_condition(world, "gang", "Finished")

    play(plane, "kueue-end", scene)


def test_a_gang_that_does_not_fit_waits_as_a_whole(plane: ControlPlane) -> None:
    play(plane, "kueue-whole", lambda world: waits_whole(world, has_no_quota))


def test_a_member_comes_back_under_the_name_that_the_one_before_it_had(plane: ControlPlane) -> None:
    play(plane, "kueue-back", member_comes_back)


def test_a_gang_that_fails_gives_its_quota_back(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        gang, after = job("gang", QUEUE, 3), job("after", QUEUE, 3)
        gang["spec"]["cleanUpPolicy"] = "Unfinished"
        await world.create(gang)
        await world.wait_running("gang", 3)
        await world.create(after)
        await world.finish("gang-worker-1", exit_code=1)
        await world.wait_phase(gang, "Failed")
        await wait_condition(world, "gang", "Finished")
        await world.wait_running("after", 3)

    play(plane, "kueue-failed", scene)


def test_a_member_that_somebody_deletes_is_replaced(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        await world.create(job("gang", QUEUE, 3))
        await world.wait_running("gang", 3)
        before = (await world.pods())["gang-worker-1"]["metadata"]["uid"]
        await world.client.delete(PODS, world.namespace, "gang-worker-1")

        async def replaced() -> bool:
            pod = (await world.pods()).get("gang-worker-1", {"metadata": {"uid": before}})
            return bool(pod["metadata"]["uid"] != before)

        await world.wait(replaced, "gang-worker-1 is another")
        await world.wait_running("gang", 3)

    play(plane, "kueue-deleted", scene)


def test_a_higher_priority_takes_the_quota_and_gives_it_back(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        low, high = job("low", QUEUE, 3, priority=1), job("high", QUEUE, 3, priority=90)
        await world.create(low)
        await world.wait_running("low", 3)
        await world.create(high)
        await world.wait_running("high", 3)
        assert await world.running("low") == []
        for name in await world.running("high"):
            await world.finish(name)
        await world.wait_phase(high, "Succeeded")
        await world.wait_running("low", 3)
        assert (await world.job(low))["status"]["tasks"][0].get("restartCount", 0) == 0

    play(plane, "kueue-preempted", scene)


def test_a_paused_gang_gives_its_quota_back_and_takes_it_again(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        paused, other = job("paused", QUEUE, 3), job("other", QUEUE, 3)
        await world.create(paused)
        await world.wait_running("paused", 3)
        await world.create(other)
        await world.patch_job(paused, {"runMode": {"pause": {"enabled": True}}})
        await world.wait_running("other", 3)
        await world.patch_job(paused, {"runMode": {"pause": {"enabled": False}}})
        for name in await world.running("other"):
            await world.finish(name)
        await world.wait_running("paused", 3)

    play(plane, "kueue-paused", scene)
