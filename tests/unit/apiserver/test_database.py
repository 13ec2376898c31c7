"""What is saved comes back: objects, their history, and nothing of a group that failed."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bireme.apiserver.database import LAYOUT, Database, DatabaseError, StorageError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE
from bireme.apiserver.lists import Query
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Watcher

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def saved_store(database: Database) -> Store:
    store = Store(publishes=False)
    if (saved := database.load()) is not None:
        store.restore(saved)
    return store


def save(store: Store, database: Database) -> None:
    database.commit(store.staged())
    store.publish()


def write(store: Store, name: str, **data: str) -> None:
    body = {"metadata": {"name": name}, "data": data}
    if store.find(CONFIG_MAP, name, namespace="default") is None:
        store.create(CONFIG_MAP, body, NOW, namespace="default")
    else:
        store.replace(CONFIG_MAP, name, body, NOW, namespace="default")


def told(watcher: Watcher) -> list[tuple[str, str, object]]:
    return [
        (event.type, event.object["metadata"]["name"], event.object.get("data")) for event in watcher.poll()
    ]


def test_a_new_file_holds_nothing(tmp_path: Path) -> None:
    assert Database(tmp_path / "store.db", history=10).load() is None


def test_objects_and_versions_come_back(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", history=100)
    store = saved_store(database)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    write(store, "a", k="1")
    write(store, "gone")
    save(store, database)
    write(store, "a", k="2")
    store.delete(CONFIG_MAP, "gone", NOW, namespace="default")
    save(store, database)
    database.close()
    again = saved_store(Database(tmp_path / "store.db", history=100))
    assert again.version == store.version
    assert list(again.all(CONFIG_MAP)) == list(store.all(CONFIG_MAP))
    assert again.get(CONFIG_MAP, "a", namespace="default")["data"] == {"k": "2"}


def test_a_watcher_resumes_where_it_was(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", history=100)
    store = saved_store(database)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    save(store, database)
    query = Query(resource_version=str(store.version))
    for step in range(3):
        write(store, "a", step=str(step))
        write(store, "b", step=str(step))
        save(store, database)
    store.delete(CONFIG_MAP, "b", NOW, namespace="default")
    save(store, database)
    expected = told(store.watch(CONFIG_MAP, query))
    database.close()
    again = saved_store(Database(tmp_path / "store.db", history=100))
    assert told(again.watch(CONFIG_MAP, query)) == expected
    assert [event for event, _, _ in expected] == ["ADDED", "ADDED", *["MODIFIED"] * 4, "DELETED"]


def test_a_watcher_from_before_the_log_is_told_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", history=5)
    store = saved_store(database)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    for step in range(600):
        write(store, "a", step=str(step))
        save(store, database)
    database.close()
    again = saved_store(Database(tmp_path / "store.db", history=5))
    (event,) = again.watch(CONFIG_MAP, Query(resource_version="3")).poll()
    assert (event.type, event.object["reason"]) == ("ERROR", "Expired")
    (recent,) = again.watch(CONFIG_MAP, Query(resource_version=str(again.version - 1))).poll()
    assert (recent.type, recent.object["data"]) == ("MODIFIED", {"step": "599"})


def test_nothing_of_a_group_that_fails_is_saved(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", history=100)
    store = saved_store(database)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    save(store, database)
    limit = sqlite3.connect(tmp_path / "store.db").execute("PRAGMA page_count").fetchone()[0] + 2
    database._connection.execute(f"PRAGMA max_page_count = {limit}")
    write(store, "small", k="v")
    write(store, "large", k="x" * 100_000)
    with pytest.raises(StorageError, match="is the disk full"):
        database.commit(store.staged())
    store.take_back()
    assert list(store.all(CONFIG_MAP)) == []
    write(store, "small", k="v")
    save(store, database)
    database.close()
    again = saved_store(Database(tmp_path / "store.db", history=100))
    assert [each["metadata"]["name"] for each in again.all(CONFIG_MAP)] == ["small"]


def test_a_file_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    Database(tmp_path / "store.db", history=1).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    with pytest.raises(DatabaseError, match=f"newer version .layout {LAYOUT + 1}, this one knows {LAYOUT}"):
        Database(tmp_path / "store.db", history=1)


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"something else" * 100)
    with pytest.raises(DatabaseError, match="not a database"):
        Database(tmp_path / "store.db", history=1)
