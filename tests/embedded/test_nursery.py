"""The process that forks shims: each is ready when it is told so, outlives it, and says why it can't be."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.nursery import Nursery
from bireme.node.shim import wire
from bireme.node.shim.tree import read_process
from bireme.node.shims import ShimError

SECONDS = 120


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFolder]:
    node = NodeFolder(tmp_path / "node")
    node.prepare()
    yield node
    for folder in node.pods():
        if folder.socket.exists():
            end(folder)


def make_pod(node: NodeFolder, uid: str, **wanted: Any) -> PodFolder:
    folder = node.pod(uid)
    folder.make()
    folder.orders.write_text(json.dumps(wanted))
    return folder


def play(node: NodeFolder, scene: Callable[[Nursery], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        nursery = Nursery(node.path)
        try:
            async with asyncio.timeout(SECONDS):
                await scene(nursery)
        finally:
            nursery.close()

    asyncio.run(main())


def end(folder: PodFolder) -> None:
    with wire.connect(str(folder.path)) as connection:
        connection.settimeout(SECONDS)
        channel = wire.Channel(connection)
        channel.send({"do": "end"})
        while channel.receive() is not None:
            pass


def shim_of(folder: PodFolder) -> dict[str, Any]:
    shim: dict[str, Any] = ask(folder)["shim"]
    return shim


def ask(folder: PodFolder) -> dict[str, Any]:
    """The state that a shim tells."""
    channel = wire.Channel(wire.connect(str(folder.path)))
    channel.connection.settimeout(SECONDS)
    channel.send({"do": "watch"})
    messages = channel.receive()
    channel.close()
    assert messages is not None
    state: dict[str, Any] = messages[0]["state"]
    return state


def test_a_shim_listens_when_it_has_started_and_outlives_its_nursery(node: NodeFolder) -> None:
    folders = [make_pod(node, f"pod-{number}") for number in range(20)]

    async def scene(nursery: Nursery) -> None:
        await asyncio.gather(*(nursery.start(folder) for folder in folders))

    play(node, scene)
    shims = [shim_of(folder) for folder in folders]
    assert len({shim["pid"] for shim in shims}) == 20
    for shim in shims:
        process = read_process(shim["pid"])
        assert process is not None
        assert process.start == shim["start"]


def test_a_shim_is_found_by_the_folder_of_its_node(node: NodeFolder) -> None:
    folder = make_pod(node, "pod")

    async def scene(nursery: Nursery) -> None:
        await nursery.start(folder)

    play(node, scene)
    command = Path(f"/proc/{shim_of(folder)['pid']}/cmdline").read_bytes()
    assert f"{node.path}/".encode() in command


def test_a_shim_that_can_not_begin_says_why(node: NodeFolder) -> None:
    folder = make_pod(node, "pod")
    folder.orders.unlink()

    async def scene(nursery: Nursery) -> None:
        with pytest.raises(ShimError, match=r"No such file or directory: .*pod\.json"):
            await nursery.start(folder)
        await nursery.start(make_pod(node, "other"))

    play(node, scene)


def test_a_nursery_that_was_killed_is_started_again(node: NodeFolder) -> None:
    first, second = make_pod(node, "first"), make_pod(node, "second")

    async def scene(nursery: Nursery) -> None:
        await nursery.start(first)
        connection = nursery.open()
        os.kill(nursery_pid(node), signal.SIGKILL)
        while nursery.open() is connection:
            await asyncio.sleep(0.01)
        await nursery.start(second)

    play(node, scene)
    assert shim_of(first) != shim_of(second)


def nursery_pid(node: NodeFolder) -> int:
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_ours = f"{node.path}/".encode() in (path / "cmdline").read_bytes()
            if is_ours and (path / "comm").read_text() == "bireme-nursery\n":
                return int(path.name)
    raise AssertionError("there is no nursery")


def test_one_that_was_stopped_is_ended_all_the_same(node: NodeFolder) -> None:
    async def scene(nursery: Nursery) -> None:
        await nursery.start(make_pod(node, "1"))
        assert nursery._process is not None
        nursery._process.send_signal(signal.SIGSTOP)
        nursery.close()
        assert nursery._process.returncode == -signal.SIGKILL

    play(node, scene)
