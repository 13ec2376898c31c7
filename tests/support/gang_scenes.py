"""What must hold under every gang engine. Each scene has three CPUs to itself, on two nodes."""

from collections.abc import Awaitable, Callable
from typing import Final

from support.gang_world import GangWorld, job

QUEUE: Final = "research"
CPUS: Final = ("2", "1")
Tried = Callable[[GangWorld, str], Awaitable[bool]]
Look = Callable[[GangWorld], Awaitable[None]]


async def _look_away(_world: GangWorld) -> None:
    """Nothing more is asked of a gang that runs."""


async def whole_to_the_end(world: GangWorld, look: Look = _look_away) -> None:
    """A gang starts, is looked at, and ends."""
    gang = job("gang", QUEUE, 3, priority=7)
    await world.create(gang)
    await world.wait_running("gang", 3)
    await world.wait_phase(gang, "Running")
    await look(world)
    for name in await world.running("gang"):
        await world.finish(name)
    await world.wait_phase(gang, "Succeeded")


async def waits_whole(world: GangWorld, tried: Tried) -> None:
    """A gang for which only a part of the room is there takes none of it; with all of it, it starts."""
    first, second = job("first", QUEUE, 2), job("second", QUEUE, 3)
    await world.create(first)
    await world.wait_running("first", 2)
    await world.create(second)
    await world.wait(lambda: tried(world, "second"), "second was found not to fit")
    assert await world.bound("second") == []
    for name in await world.running("first"):
        await world.finish(name)
    await world.wait_running("second", 3)
    assert world.kubelets.overfull == []


async def member_comes_back(world: GangWorld) -> None:
    """A member that fails after another has succeeded starts again, though the gang is no longer whole."""
    gang = job("gang", QUEUE, 3, restarts=3)
    await world.create(gang)
    await world.wait_running("gang", 3)
    await world.finish("gang-worker-0")
    await world.finish("gang-worker-1", exit_code=1)
    await world.wait_running("gang", 2)
    for name in await world.running("gang"):
        await world.finish(name)
    ended = await world.wait_phase(gang, "Succeeded")
    assert ended["status"]["tasks"][0]["restartCount"] == 1


async def is_unschedulable(world: GangWorld, name: str) -> bool:
    """Whether the scheduler has told of a pod that there is no place for it."""
    told = [
        each
        for pod in (await world.pods_of(name)).values()
        for each in pod["status"].get("conditions", ())
        if each["type"] == "PodScheduled" and each["status"] == "False"
    ]
    return any(each["reason"] == "Unschedulable" for each in told)
