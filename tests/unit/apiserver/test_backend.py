"""Writes in groups: saved before anybody hears of them, and taken back if they can't be."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bireme.apiserver.backend import Backend
from bireme.apiserver.database import Database, StorageError
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.tables import Staged

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SlowDatabase(Database):
    """Saves when it is let, or fails."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, history=100)
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        self.fails_at = -1
        self.refuses = ""
        self.groups: list[int] = []

    def commit(self, staged: Sequence[Staged]) -> None:
        self.gate.wait(10)
        if self.fails or len(self.groups) == self.fails_at:
            self.fails_at = -1
            raise StorageError("the disk is full")
        if any(change.key == self.refuses for _, change in staged):
            raise StorageError("the disk is full")
        self.groups.append(len(staged))
        super().commit(staged)


def play(tmp_path: Path, scene: Callable[[Backend, SlowDatabase], Coroutine[Any, Any, None]]) -> SlowDatabase:
    database = SlowDatabase(tmp_path / "store.db")

    async def main() -> None:
        store = Store(publishes=False)
        backend = Backend(store, database, lambda: NOW)
        await backend.write(lambda: store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW))
        await scene(backend, database)
        database.gate.set()
        await backend.close()

    asyncio.run(main())
    return database


def create(backend: Backend, name: str) -> Callable[[], Object]:
    return lambda: backend.store.create(CONFIG_MAP, {"metadata": {"name": name}}, NOW, namespace="default")


def names(backend: Backend) -> list[str]:
    return [obj["metadata"]["name"] for obj in backend.store.all(CONFIG_MAP)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0)


def test_a_write_is_answered_when_it_is_saved(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: SlowDatabase) -> None:
        database.gate.clear()
        watcher = backend.store.watch(CONFIG_MAP)
        writing = asyncio.create_task(backend.write(create(backend, "a")))
        reading = asyncio.create_task(backend.read(lambda: names(backend)))
        await until(lambda: bool(backend.store.staged()))
        await asyncio.sleep(0.01)
        assert (writing.done(), watcher.poll()) == (False, [])
        reading = asyncio.create_task(backend.read(lambda: names(backend)))
        await asyncio.sleep(0)
        assert not reading.done()
        database.gate.set()
        assert (await writing)["metadata"]["name"] == "a"
        assert await reading == ["a"]
        assert [event.type for event in watcher.poll()] == ["ADDED"]

    play(tmp_path, scene)


def test_what_came_meanwhile_is_saved_together(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: SlowDatabase) -> None:
        database.gate.clear()
        first = asyncio.create_task(backend.write(create(backend, "first")))
        await until(lambda: bool(backend.store.staged()))
        rest = [asyncio.create_task(backend.write(create(backend, f"n{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        database.gate.set()
        await asyncio.gather(first, *rest)

    assert play(tmp_path, scene).groups == [1, 1, 20]


def test_one_refusal_in_a_group_spares_the_others(tmp_path: Path) -> None:
    async def scene(backend: Backend, _database: SlowDatabase) -> None:
        writes = [backend.write(create(backend, name)) for name in ("a", "b", "a", "c")]
        done = await asyncio.gather(*writes, return_exceptions=True)
        assert [isinstance(each, StatusError) for each in done] == [False, False, True, False]
        assert names(backend) == ["a", "b", "c"]

    play(tmp_path, scene)


def test_a_write_that_can_not_be_saved_spares_the_others_of_its_group(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: SlowDatabase) -> None:
        database.refuses = "default/b"
        writes = [backend.write(create(backend, name)) for name in ("a", "b", "c")]
        done = await asyncio.gather(*writes, return_exceptions=True)
        assert [getattr(each, "code", 201) for each in done] == [201, 507, 201]
        assert names(backend) == ["a", "c"]

    assert play(tmp_path, scene).groups == [1, 1, 1]


def test_several_writes_of_one_call_are_one(tmp_path: Path) -> None:
    def both(backend: Backend) -> None:
        create(backend, "a")()
        create(backend, "a")()

    async def scene(backend: Backend, _database: SlowDatabase) -> None:
        with pytest.raises(StatusError):
            await backend.write(lambda: both(backend))
        assert names(backend) == []

    play(tmp_path, scene)


def test_what_can_not_be_saved_is_not_done(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: SlowDatabase) -> None:
        watcher = backend.store.watch(CONFIG_MAP)
        version = backend.store.version
        database.fails = True
        with pytest.raises(StatusError, match="not saved, and not done: the disk is full") as refused:
            await backend.write(create(backend, "a"))
        assert refused.value.code == 507
        assert (names(backend), watcher.poll(), backend.store.version) == ([], [], version)
        database.fails = False
        await backend.write(create(backend, "a"))
        assert [event.type for event in watcher.poll()] == ["ADDED"]

    play(tmp_path, scene)


def test_garbage_is_collected_by_and_by(tmp_path: Path) -> None:
    async def scene(backend: Backend, _database: SlowDatabase) -> None:
        owner = await backend.write(create(backend, "owner"))
        reference = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        }  # fmt: skip
        body = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        await backend.write(lambda: backend.store.create(CONFIG_MAP, body, NOW, namespace="default"))
        await backend.write(lambda: backend.store.delete(CONFIG_MAP, "owner", NOW, namespace="default"))
        await until(lambda: names(backend) == [])

    play(tmp_path, scene)


def test_garbage_that_could_not_be_saved_is_collected_later(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: SlowDatabase) -> None:
        gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "gone"}
        body = {"metadata": {"name": "owned", "ownerReferences": [gone]}}
        database.fails_at = 2  # after the namespace and the object: when that is collected
        await backend.write(lambda: backend.store.create(CONFIG_MAP, body, NOW, namespace="default"))
        await until(lambda: database.fails_at == -1 and not backend.store.staged())
        assert names(backend) == ["owned"]
        await backend.write(create(backend, "another"))
        await until(lambda: names(backend) == ["another"])

    play(tmp_path, scene)


def test_garbage_is_found_behind_many_objects_that_stay(tmp_path: Path) -> None:
    async def scene(backend: Backend, _database: SlowDatabase) -> None:
        owner = await backend.write(create(backend, "owner"))
        uids = {f"kept-{number:03}": owner["metadata"]["uid"] for number in range(200)} | {"left": "gone"}

        def create_all() -> None:
            for name, uid in uids.items():
                reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
                body = {"metadata": {"name": name, "ownerReferences": [reference]}}
                backend.store.create(CONFIG_MAP, body, NOW, namespace="default")

        await backend.write(create_all)
        await until(lambda: "left" not in names(backend))
        assert len(names(backend)) == 201

    play(tmp_path, scene)
