"""Jobs under scheduler-plugins' coscheduling, run as a second scheduler."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from bireme.control.groups import group_resource
from support.control_plane import BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.gang_engines import coscheduling
from support.gang_scenes import CPUS, is_unschedulable, member_comes_back, waits_whole, whole_to_the_end
from support.gang_world import GangWorld, controller_under, gang_world

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("gang_engines")]

GROUPS = group_resource("coscheduling")


@pytest.fixture(scope="module")
def plane(gang_plane: ControlPlane) -> Iterator[ControlPlane]:
    try:
        with coscheduling(gang_plane), controller_under(gang_plane, "coscheduling"):
            yield gang_plane
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None


def play(plane: ControlPlane, namespace: str, scene: Callable[[GangWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with gang_world(plane, namespace, *CPUS) as world:
            await scene(world)

    asyncio.run(main())


def test_a_gang_runs_to_its_end_and_its_group_goes(plane: ControlPlane) -> None:
    async def scene(world: GangWorld) -> None:
        await whole_to_the_end(world)
        await world.wait_gone(GROUPS)

    play(plane, "co-end", scene)


def test_a_gang_that_does_not_fit_waits_as_a_whole(plane: ControlPlane) -> None:
    play(plane, "co-whole", lambda world: waits_whole(world, is_unschedulable))


def test_a_member_comes_back_after_another_has_ended(plane: ControlPlane) -> None:
    play(plane, "co-back", member_comes_back)
