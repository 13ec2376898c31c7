"""Requests that nobody should send, to a real server over TLS: it refuses them, and goes on.

BIREME_FUZZ_SEED replays a run: the seed is in the failure's message, beside the request.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hostile.salvo import Salvo
from support.server_process import ServerProcess
from support.wire import Wire

SEED = int(os.environ.get("BIREME_FUZZ_SEED", "1"))
SHORT, LONG = 4_000, 200_000
MOST_GROWTH_KIB = 24 * 1024
"""Between two equal halves: what an allocator keeps back differs by a few megabytes from run to run."""
KIB_PER_WRITE = 8
"""What the history keeps of each write, until it is full."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "data", tmp_path / "log")
    made.start()
    yield made
    made.stop()


def test_no_request_is_answered_wrongly_or_does_harm(server: ServerProcess) -> None:
    asyncio.run(_survives(server, SHORT))


@pytest.mark.long
@pytest.mark.skipif("BIREME_LONG" not in os.environ, reason="takes minutes: BIREME_LONG=1")
def test_no_request_of_very_many_does_harm(server: ServerProcess) -> None:
    asyncio.run(_survives(server, LONG))


async def _survives(server: ServerProcess, count: int) -> None:
    """Send so many requests in two halves; the second may need no more memory than the first."""
    pid, salvo = server.pid, Salvo(SEED, server.address)
    await salvo.fire(0, count // 2)
    await salvo.clear()
    before, version = server.resident_kib(), await _version(server)
    await salvo.fire(count // 2, count // 2)
    await salvo.clear()
    growth, written = server.resident_kib() - before, await _version(server) - version
    assert not salvo.failures, "\n\n".join(str(each) for each in salvo.failures)
    assert server.is_alive
    assert server.pid == pid
    assert "Traceback" not in server.log()
    assert await _works(server)
    most = MOST_GROWTH_KIB + KIB_PER_WRITE * written
    assert growth < most, f"{before} KiB became {growth} more, by {written} writes"
    assert len(salvo.codes) > 8, f"nothing got far: {salvo.codes}"


async def _version(server: ServerProcess) -> int:
    """How many writes there were."""
    async with await Wire.open(server.address) as wire:
        return int((await wire.ask("GET", "/api/v1/namespaces")).json()["metadata"]["resourceVersion"])


async def _works(server: ServerProcess) -> bool:
    """Whether the server still does what it is for."""
    path = "/api/v1/namespaces/default/configmaps"
    async with await Wire.open(server.address) as wire:
        created = await wire.ask("POST", path, {"metadata": {"name": "canary"}, "data": {"a": "b"}})
        found = await wire.ask("GET", f"{path}/canary")
        deleted = await wire.ask("DELETE", f"{path}/canary")
    return [created.code, found.code, deleted.code] == [201, 200, 200] and found.json()["data"] == {"a": "b"}
