"""kill -9 under load: what was acknowledged is there, and nothing is half done.

BIREME_KILL_SEED replays the writers' choices; where the kill falls among them is up to the machine.
"""

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from support import load
from support.server_process import ServerProcess

SEED = int(os.environ.get("BIREME_KILL_SEED", "1"))
SHORT, LONG = 8, 200
LIFE_SECONDS = 1.5
STARTS = 6


def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    asyncio.run(_survives(tmp_path, SHORT))


@pytest.mark.long
@pytest.mark.skipif("BIREME_LONG" not in os.environ, reason="takes minutes: BIREME_LONG=1")
def test_every_acknowledged_write_survives_very_many_kills(tmp_path: Path) -> None:
    asyncio.run(_survives(tmp_path, LONG))


def test_a_stop_under_load_loses_nothing_and_ends_well(tmp_path: Path) -> None:
    async def main() -> None:
        server = ServerProcess(tmp_path / "data", tmp_path / "log")
        server.start()
        ledger, follower = load.Ledger(SEED), load.Follower(await load.prepare(server.address))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ledger.write(server.address))
                group.create_task(follower.follow(server.address))
                await asyncio.sleep(LIFE_SECONDS)
                assert await asyncio.to_thread(server.stop) == 0
            server.start()
            await _check(server, ledger, follower, f"seed {SEED}, after a stop")
        finally:
            server.stop()
        assert ledger.acknowledged > 0
        assert "Traceback" not in server.log()

    asyncio.run(main())


def test_a_server_that_was_killed_while_it_started_starts(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    random = Random(SEED)
    for _ in range(STARTS):
        server.spawn()
        time.sleep(LIFE_SECONDS * random.random())
        server.kill()
    server.start()
    assert server.stop() == 0
    assert "Traceback" not in server.log()


async def _survives(folder: Path, kills: int) -> None:
    server = ServerProcess(folder / "data", folder / "log")
    server.start()
    random, ledger = Random(SEED), load.Ledger(SEED)
    follower = load.Follower(await load.prepare(server.address))
    try:
        for number, moment in enumerate(load.moments(random, kills)):
            await _kill_after(server, ledger, follower, moment)
            server.start()
            await _check(server, ledger, follower, f"seed {SEED}, kill {number}")
    finally:
        server.stop()
    assert ledger.acknowledged > kills, "nothing was written: the test shows nothing"
    assert "Traceback" not in server.log()


async def _kill_after(
    server: ServerProcess, ledger: load.Ledger, follower: load.Follower, seconds: float
) -> None:
    """Write and watch until the server is killed."""
    async with asyncio.TaskGroup() as group:
        group.create_task(ledger.write(server.address))
        group.create_task(follower.follow(server.address))
        await asyncio.sleep(seconds)
        server.kill()


async def _check(server: ServerProcess, ledger: load.Ledger, follower: load.Follower, when: str) -> None:
    found = await load.everything(server.address)
    try:
        ledger.check(found)
        await follower.catch_up(server.address)
    except AssertionError as error:
        raise AssertionError(f"{when}: {error}") from error
    maps = {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
        for path, item in found.items()
        if "/configmaps/" in path
    }
    assert not follower.expired, f"{when}: the history is too short for so few writes"
    assert follower.objects == maps, f"{when}: a watch that went on saw something else than a list"
