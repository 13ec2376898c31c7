"""Exec over WebSockets, with a stand-in for the node: good frames arrive, bad ones end their session."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from bireme.apiserver.rules import Object
from bireme.apiserver.serving.gateway import ExecOptions, LogOptions, Session, TerminalSize
from bireme.run.apiserver import Options, serving
from support.hostile.frames import BINARY, CLOSE, FRAMES, TEXT, frame, handshake
from support.server_process import read_address
from support.wire import Address, Wire

POD = "/api/v1/namespaces/default/pods"
EXEC = f"{POD}/p/exec?command=cat&stdin=true&stdout=true&tty=true"
SESSIONS, FRAMES_EACH = 60, 25
END_OF_INPUT = frame(b"\xff\0")
GOODBYE, GOODBYE_TOO = b"\x88\x02\x03\xe8", frame(b"\x03\xe8", opcode=CLOSE)


class Echo:
    """A node that sends back what it is sent, and the sizes of the terminal."""

    def __init__(self) -> None:
        self.running = 0
        self.reads = True

    def departed(self, namespace: str, name: str) -> Object | None:  # noqa: ARG002 - a protocol
        return None

    def logs(self, pod: Object, options: LogOptions) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(f"nobody asks for logs here: {pod}, {options}")

    async def run(self, pod: Object, options: ExecOptions, session: Session) -> int:
        assert (pod["metadata"]["name"], options.command) == ("p", ("cat",))
        self.running += 1
        sizes = asyncio.get_running_loop().create_task(self._sizes(session))
        try:
            if not self.reads:
                await asyncio.Event().wait()
            while data := await session.read():
                await session.write(1, data)
            return 7
        finally:
            sizes.cancel()
            self.running -= 1

    async def _sizes(self, session: Session) -> None:
        while True:
            size: TerminalSize = await session.resized()
            await session.write(2, f"{size.width}x{size.height}".encode())


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Address, Echo]]:
    """A server with a pod on a node."""
    echo = Echo()
    async with serving(Options(folder), echo):
        address = read_address(folder)
        async with await Wire.open(address) as wire:
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
            assert (await wire.ask("POST", POD, pod)).code == 201
            assert (await wire.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).code == 201
            binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            assert (await wire.ask("POST", f"{POD}/p/binding", binding)).code == 201
        yield address, echo


class Stage:
    """A server and its node, for one scene after the other."""

    def __init__(self, runner: asyncio.Runner, address: Address, echo: Echo) -> None:
        self._runner, self._address, self._echo = runner, address, echo

    def play(self, scene: Callable[[Address, Echo], Awaitable[None]]) -> None:
        """Play a scene; afterwards nothing runs on the node."""

        async def main() -> None:
            await scene(self._address, self._echo)
            async with asyncio.timeout(90):
                while self._echo.running:
                    await asyncio.sleep(0)

        self._runner.run(main())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        server = served(tmp_path_factory.mktemp("frames"))
        address, echo = runner.run(server.__aenter__())
        yield Stage(runner, address, echo)
        runner.run(server.__aexit__(None, None, None))


@asynccontextmanager
async def session(address: Address) -> AsyncIterator[Wire]:
    async with await Wire.open(address) as wire:
        await wire.send(handshake(wire, EXEC))
        assert (await wire.receive_head()).code == 101
        yield wire


async def talked(address: Address, *frames: bytes) -> bytes:
    """All that a session answers to some frames."""
    async with session(address) as wire:
        await wire.send(b"".join(frames))
        answered = await wire.rest(GOODBYE)
        await wire.send(GOODBYE_TOO)
        return answered


ECHOED: dict[str, tuple[list[bytes], bytes]] = {
    "bytes": ([frame(b"\0abc")], b"\x01abc"),
    "text": ([frame(b"\0abc", opcode=TEXT)], b"\x01abc"),
    "a message in fragments": ([frame(b"\0ab", first=0), frame(b"c", opcode=0)], b"\x01abc"),
    "a large message": ([frame(b"\0" + b"x" * 500_000)], b"\x01" + b"x" * 500_000),
    "another channel before": ([frame(b"\x63zzz"), frame(b"\0abc")], b"\x01abc"),
    "nothing before": ([frame(b""), frame(b"\0"), frame(b"\0abc")], b"\x01abc"),
    "the size of a terminal": ([frame(b'\x04{"Width":80,"Height":24}'), frame(b"\0abc")], b"\x01abc"),
    "sizes that are none": (
        [frame(b'\x04{"Width":"\xff"}'), frame(b"\x04" + b"[" * 5000), frame(b"\0abc")],
        b"\x01abc",
    ),
}


@pytest.mark.parametrize(("frames", "echoed"), ECHOED.values(), ids=ECHOED)
def test_what_is_sent_arrives(stage: Stage, frames: list[bytes], echoed: bytes) -> None:
    async def scene(address: Address, echo: Echo) -> None:
        answered = await talked(address, *frames, END_OF_INPUT)
        assert echoed in answered
        assert (
            b'"message":"7","reason":"ExitCode"' in answered
            or b'"reason":"ExitCode","message":"7"' in answered
        )

    stage.play(scene)


def test_a_frame_that_is_too_large_ends_the_session(stage: Stage) -> None:
    async def scene(address: Address, echo: Echo) -> None:
        answered = await talked(address, frame(b"\0" + b"x" * (1 << 20)))
        assert b"\x88" in answered, "closed in words"
        assert b"xxx" not in answered

    stage.play(scene)


def test_no_frames_harm_other_sessions(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(address: Address, echo: Echo) -> None:
        random = Random(1)
        async with session(address) as good:
            for _ in range(SESSIONS):
                async with session(address) as bad:
                    for _ in range(FRAMES_EACH):
                        await bad.send(random.choice(FRAMES)(random))
            await good.send(frame(b"\0still here") + END_OF_INPUT)
            assert b"\x01still here" in await good.rest(GOODBYE)
            await good.send(GOODBYE_TOO)

    with caplog.at_level(logging.WARNING):
        stage.play(scene)
    assert [record.getMessage() for record in caplog.records] == []


def test_a_client_that_goes_while_nobody_reads_leaves_nothing_behind(stage: Stage) -> None:
    async def scene(address: Address, echo: Echo) -> None:
        echo.reads = False
        tasks = len(asyncio.all_tasks())
        async with session(address) as wire:
            for _ in range(200):
                await wire.send(frame(b"\0" + b"x" * 1000, opcode=BINARY))
            while echo.running == 0:
                await asyncio.sleep(0)
        async with asyncio.timeout(90):
            while len(asyncio.all_tasks()) > tasks:
                await asyncio.sleep(0)
        echo.reads = True

    stage.play(scene)
