"""What a store that is saved does when something goes wrong that nobody thought of."""

import asyncio
import logging
import stat
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bireme.apiserver.backend import Backend
from bireme.apiserver.database import Database, DatabaseError
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import NAMESPACE
from bireme.apiserver.store import Store
from bireme.apiserver.tables import Staged

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class OddDatabase(Database):
    """Waits to be let, and fails in a way of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, history=100)
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False

    def commit(self, staged: Sequence[Staged]) -> None:
        self.gate.wait(10)
        if self.fails:
            raise OverflowError("Python int too large to convert to SQLite INTEGER")
        super().commit(staged)


def play(tmp_path: Path, scene: Callable[[Backend, OddDatabase], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        database = OddDatabase(tmp_path / "store.db")
        backend = Backend(Store(publishes=False), database, lambda: NOW)
        await scene(backend, database)
        await backend.close()

    asyncio.run(main())


def create(backend: Backend, name: str) -> Callable[[], object]:
    return lambda: backend.store.create(NAMESPACE, {"metadata": {"name": name}}, NOW)


def test_a_failure_that_nobody_thought_of_is_answered_and_taken_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(backend: Backend, database: OddDatabase) -> None:
        database.fails = True
        with pytest.raises(StatusError, match="the write was not saved, and not done"):
            await backend.write(create(backend, "a"))
        database.fails = False
        await backend.write(create(backend, "b"))
        assert await backend.read(
            lambda: [each["metadata"]["name"] for each in backend.store.all(NAMESPACE)]
        ) == ["b"]

    with caplog.at_level(logging.ERROR):
        play(tmp_path, scene)
    assert [record.getMessage() for record in caplog.records] == ["a group of writes can't be saved"]


def test_a_read_whose_reader_has_gone_is_not_done(tmp_path: Path) -> None:
    async def scene(backend: Backend, database: OddDatabase) -> None:
        database.gate.clear()
        looked: list[str] = []
        write = asyncio.ensure_future(backend.write(create(backend, "a")))
        await asyncio.sleep(0)
        reads = [asyncio.ensure_future(backend.read(partial(looked.append, who))) for who in "xy"]
        await asyncio.sleep(0)
        reads[0].cancel()
        database.gate.set()
        await asyncio.gather(write, *reads, return_exceptions=True)
        assert looked == ["y"]

    play(tmp_path, scene)


def test_a_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch(0o644)
    database = Database(path, history=10)
    modes = {each.name: oct(stat.S_IMODE(each.stat().st_mode)) for each in tmp_path.iterdir()}
    database.close()
    assert modes == {"store.db": "0o600", "store.db-shm": "0o600", "store.db-wal": "0o600"}


def test_a_damaged_database_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database = Database(path, history=10)
    database._connection.execute("UPDATE about SET value = 7 WHERE name = 'version'")
    database._connection.execute("INSERT INTO objects VALUES ('pods', 'a/b', x'00')")
    with pytest.raises(DatabaseError, match=r"(?s)store.db is damaged: .*hint: "):
        database.load()
    database.close()
