"""A disk without space: writes are refused in words, reads go on, and it passes when there is space again."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fixtures import unavailable
from support.server_process import ServerProcess, run_to_end
from support.wire import Address, Answer, Wire

SIZE = "6m"
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "bireme-test", str(mounted)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise unavailable("a full disk needs the right to mount a tmpfs: run as root")
    yield mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)


@pytest.fixture
def server(disk: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(disk / "data", tmp_path / "log")
    made.start()
    yield made
    made.stop()


def test_writes_are_refused_while_the_disk_is_full_and_work_again_afterwards(
    server: ServerProcess, disk: Path
) -> None:
    asyncio.run(_fills_up(server, disk))
    assert "Traceback" not in server.log()
    assert server.stop() == 0
    assert integrity(server.data / "store.db") == "ok"


def test_what_was_saved_before_the_disk_was_full_is_there_after_a_kill(
    server: ServerProcess, disk: Path
) -> None:
    names = asyncio.run(_written_until_full(server.address, disk))
    server.kill()
    (disk / "filler").unlink()
    server.start()
    assert asyncio.run(_names(server.address)) == names


def test_a_start_on_a_full_disk_fails_in_words(server: ServerProcess, disk: Path) -> None:
    assert server.stop() == 0
    fill(disk)
    refused = run_to_end(server.data)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert str(server.data) in refused.stderr
    assert "Traceback" not in refused.stderr
    (disk / "filler").unlink()
    server.start()


async def _fills_up(server: ServerProcess, disk: Path) -> None:
    names = await _written_until_full(server.address, disk)
    async with await Wire.open(server.address) as wire, await Wire.open(server.address) as watch:
        listed = await wire.ask("GET", PATH)
        assert sorted(item["metadata"]["name"] for item in listed.json()["items"]) == names
        await watch.send(watch.request("GET", f"{PATH}?watch=true&timeoutSeconds=60&{_since(listed)}"))
        assert (await watch.receive_head()).code == 200
        refused = await _create(wire, "refused")
        assert refused.code == 507
        assert refused.json()["reason"] == "InsufficientStorage"
        assert str(server.data) in refused.json()["message"]
        assert (await wire.ask("GET", f"{PATH}/refused")).code == 404
        (disk / "filler").unlink()
        assert (await _create(wire, "accepted")).code == 201
        assert b'"ADDED"' in (line := await anext(watch.lines()))
        assert b'"name":"accepted"' in line


def _since(listed: Answer) -> str:
    return f"resourceVersion={listed.json()['metadata']['resourceVersion']}"


async def _written_until_full(address: Address, disk: Path) -> list[str]:
    """Write until it is refused, for there is no space left; return what was acknowledged."""
    fill(disk, leave=512 * 1024)
    names: list[str] = []
    async with await Wire.open(address) as wire:
        for number in range(1000):
            name = f"n{number:04}"
            answer = await _create(wire, name)
            if answer.code != 201:
                assert answer.code == 507, answer
                return names
            names.append(name)
    raise AssertionError("the disk did not fill up")


async def _create(wire: Wire, name: str) -> Answer:
    return await wire.ask("POST", PATH, {"metadata": {"name": name}, "data": {"a": "x" * 30_000}})


async def _names(address: Address) -> list[str]:
    async with await Wire.open(address) as wire:
        return sorted(item["metadata"]["name"] for item in (await wire.ask("GET", PATH)).json()["items"])


def fill(disk: Path, leave: int = 0) -> None:
    """Take all the space, but for a little."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        filler.write(b"\0" * max(0, free - leave))


def integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        answer: str = connection.execute("PRAGMA integrity_check").fetchone()[0]
        return answer
