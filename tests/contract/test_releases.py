"""A pod that a gang engine holds by its finalizer goes when it is deleted; another then has its name."""

import asyncio
from typing import Any

import pytest

from bireme.kube.resources import PODS
from bireme.planning import Settings
from support.cluster_world import World, controller_at_work, new_world, until
from support.control_plane import ControlPlane
from support.gang_world import job
from support.installation import install_crds

pytestmark = pytest.mark.xdist_group("control_plane")

FINALIZER = "kueue.x-k8s.io/managed"
FOREIGN = "example.com/kept"


async def hold(world: World, name: str, *finalizers: str) -> dict[str, Any]:
    """What Kueue's webhook does to a pod; no node has it, so that nobody must let it go."""
    return await world.client.patch(
        PODS, world.namespace, name, {"metadata": {"finalizers": [*finalizers, FINALIZER]}}
    )


@pytest.mark.parametrize("engine", ["kueue", "bireme"])
def test_a_held_pod_is_released_under_the_engine_that_holds_it(
    control_plane: ControlPlane, engine: str
) -> None:
    async def scene(world: World) -> None:
        async with controller_at_work(world.client, world.namespace, settings=Settings(gang_engine=engine)):
            await world.create(job("gang", "research", 2))
            await world.wait_pods("gang-worker-0", "gang-worker-1")
            old = await hold(world, "gang-worker-0")
            await world.client.delete(PODS, world.namespace, "gang-worker-0")
            if engine != "kueue":
                held = await world.client.get(PODS, world.namespace, "gang-worker-0")
                assert held["metadata"]["finalizers"] == [FINALIZER]
                await release(world, "gang-worker-0")
                return
            await wait_other(world, "gang-worker-0", old["metadata"]["uid"])

    play(control_plane, f"released-{engine}", scene)


def test_those_of_a_job_that_is_gone_are_released_too_and_others_finalizers_kept(
    control_plane: ControlPlane,
) -> None:
    async def scene(world: World) -> None:
        async with controller_at_work(world.client, world.namespace, settings=Settings(gang_engine="kueue")):
            gang = job("gang", "research", 1)
            await world.create(gang)
            await world.wait_pods("gang-worker-0")
            await hold(world, "gang-worker-0", FOREIGN)
            await world.delete_job(gang)

            async def released() -> bool:
                pod = (await world.pods())["gang-worker-0"]
                return bool(pod["metadata"]["finalizers"] == [FOREIGN])

            await until(released)
            await release(world, "gang-worker-0")

    play(control_plane, "released-gone", scene)


async def release(world: World, name: str) -> None:
    await world.client.patch(PODS, world.namespace, name, {"metadata": {"finalizers": None}})


async def wait_other(world: World, name: str, uid: str) -> None:
    async def look() -> bool:
        pod = (await world.pods()).get(name)
        return pod is not None and pod["metadata"]["uid"] != uid

    await until(look)


def play(plane: ControlPlane, namespace: str, scene: Any) -> None:
    install_crds(plane)

    async def main() -> None:
        async with new_world(plane, namespace) as world:
            await scene(world)

    asyncio.run(main())
