"""An API server on a full disk: new objects are refused in words, deletions and updates are saved."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.server_process import ServerProcess, run_to_end
from support.small_disk import empty, fill, small_disk, taking_all_space
from support.wire import Address, Answer, Wire

SIZE = "6m"
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE) as mounted:
        yield mounted


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
    empty(disk)
    server.start()
    assert asyncio.run(_names(server.address)) == names


def test_deletions_and_updates_are_saved_on_a_full_disk_and_survive_a_kill(
    server: ServerProcess, disk: Path
) -> None:
    names = asyncio.run(_written_until_full(server.address, disk))
    fill(disk)
    asyncio.run(_update(server.address, names[0]))
    asyncio.run(_delete(server.address, names[1:]))
    server.kill()
    server.start()
    assert asyncio.run(_names(server.address)) == names[:1]
    assert asyncio.run(_data(server.address, names[0])) == {"a": "short"}
    assert server.stop() == 0
    assert integrity(server.data / "store.db") == "ok"


def test_deletions_are_saved_while_another_process_takes_every_free_block(
    server: ServerProcess, disk: Path
) -> None:
    names = asyncio.run(_written_until_full(server.address, disk))
    with taking_all_space(disk):
        asyncio.run(_delete(server.address, names))
    assert asyncio.run(_names(server.address)) == []


def test_a_second_full_disk_finds_a_new_reserve(server: ServerProcess, disk: Path) -> None:
    for _ in range(2):
        names = asyncio.run(_written_until_full(server.address, disk))
        fill(disk)
        asyncio.run(_delete(server.address, names))
        empty(disk)


@pytest.mark.parametrize("ends", [ServerProcess.stop, ServerProcess.kill], ids=["stop", "kill"])
def test_a_start_on_a_full_disk_accepts_deletions(
    server: ServerProcess, disk: Path, ends: Callable[[ServerProcess], object]
) -> None:
    names = asyncio.run(_written_until_full(server.address, disk))
    ends(server)
    fill(disk)
    server.start()
    assert asyncio.run(_names(server.address)) == names
    assert asyncio.run(_create_code(server.address, "refused")) == 507
    asyncio.run(_delete(server.address, names))
    empty(disk)
    assert asyncio.run(_create_code(server.address, "accepted")) == 201


def test_a_start_on_a_full_disk_without_a_reserve_fails_in_words(server: ServerProcess, disk: Path) -> None:
    assert server.stop() == 0
    (server.data / "store.db-reserve").unlink()
    fill(disk)
    refused = run_to_end(server.data)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert str(server.data) in refused.stderr
    assert "Traceback" not in refused.stderr
    empty(disk)
    server.start()


async def _fills_up(server: ServerProcess, disk: Path) -> None:
    names = await _written_until_full(server.address, disk)
    fill(disk)
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
        empty(disk)
        assert (await _create(wire, "accepted")).code == 201
        assert b'"ADDED"' in (line := await anext(watch.lines()))
        assert b'"name":"accepted"' in line


def _since(listed: Answer) -> str:
    return f"resourceVersion={listed.json()['metadata']['resourceVersion']}"


async def _written_until_full(address: Address, disk: Path) -> list[str]:
    """Write until it is refused, for there is no space left; return what was acknowledged."""
    fill(disk, leave=1 << 20)
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


async def _create_code(address: Address, name: str) -> int:
    async with await Wire.open(address) as wire:
        return (await _create(wire, name)).code


async def _update(address: Address, name: str) -> None:
    async with await Wire.open(address) as wire:
        answer = await wire.ask("PUT", f"{PATH}/{name}", {"metadata": {"name": name}, "data": {"a": "short"}})
        assert answer.code == 200, answer


async def _delete(address: Address, names: Sequence[str]) -> None:
    async with await Wire.open(address) as wire:
        for name in names:
            answer = await wire.ask("DELETE", f"{PATH}/{name}")
            assert answer.code == 200, answer


async def _data(address: Address, name: str) -> object:
    async with await Wire.open(address) as wire:
        return (await wire.ask("GET", f"{PATH}/{name}")).json()["data"]


async def _names(address: Address) -> list[str]:
    async with await Wire.open(address) as wire:
        return sorted(item["metadata"]["name"] for item in (await wire.ask("GET", PATH)).json()["items"])


def integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        answer: str = connection.execute("PRAGMA integrity_check").fetchone()[0]
        return answer
