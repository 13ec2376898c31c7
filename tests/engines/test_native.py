"""Jobs under the API server's own gangs, which kube-scheduler places."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from bireme.control.groups import group_resource
from support.control_plane import ControlPlane
from support.gang_scenes import (
    CPUS,
    is_unschedulable,
    member_comes_back,
    waits_whole,
    whole_to_the_end,
)
from support.gang_world import GangWorld, controller_under, gang_world

pytestmark = pytest.mark.xdist_group("gang_engines")

GROUPS = group_resource("native")


@pytest.fixture(scope="module")
def native(gang_plane: ControlPlane) -> Iterator[ControlPlane]:
    with controller_under(gang_plane, "native"):
        yield gang_plane


def play(plane: ControlPlane, namespace: str, scene: Callable[[GangWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with gang_world(plane, namespace, *CPUS) as world:
            await scene(world)

    asyncio.run(main())


async def look(world: GangWorld) -> None:
    """The group asks for all members, and the pods for their group and priority."""
    group = await world.object(GROUPS, "gang")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    pods = (await world.pods()).values()
    assert {pod["spec"]["priority"] for pod in pods} == {7}
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {"gang"}


def test_a_gang_runs_to_its_end_and_its_group_goes(native: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        await whole_to_the_end(world, look)
        await world.wait_gone(GROUPS)

    play(native, "native-end", scene)


def test_a_gang_that_does_not_fit_waits_as_a_whole(native: ControlPlane) -> None:
    play(native, "native-whole", lambda world: waits_whole(world, is_unschedulable))


def test_a_member_comes_back_after_another_has_ended(native: ControlPlane) -> None:
    play(native, "native-back", member_comes_back)
