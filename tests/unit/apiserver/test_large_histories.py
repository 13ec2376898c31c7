"""Histories of large objects: bounded by what they weigh, in memory and in the file."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bireme.apiserver.database import Database
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE
from bireme.apiserver.lists import Query
from bireme.apiserver.records import Record
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Change, History

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIB = 1024


def changed(version: int, size: int = KIB) -> Change:
    record = Record("a", version - 1, b"x" * size)
    return Change(version, "a", record, Record("a", version, b"x" * size))


def test_a_history_forgets_what_weighs_too_much() -> None:
    history = History(10_000, most_bytes=100 * KIB)
    for version in range(1, 1001):
        history.append(changed(version))
        history.publish()
        assert sum(each.weight for each in history.changes()) <= 100 * KIB
    assert 50 <= len(history.changes()) <= 100
    assert history.horizon == history.changes()[0].version - 1


def test_a_history_that_was_taken_back_weighs_nothing() -> None:
    history = History(10_000, most_bytes=100 * KIB)
    for version in range(1, 1001):
        history.append(changed(version))
        history.take_back()
    history.append(changed(1001))
    history.publish()
    assert [each.version for each in history.changes()] == [1001]


def test_one_change_that_is_heavier_than_all_may_be_is_forgotten_at_once() -> None:
    history = History(10_000, most_bytes=KIB)
    history.append(changed(7, size=2 * KIB))
    history.publish()
    assert (history.changes(), history.horizon) == ((), 7)


def written(database: Database, count: int) -> Store:
    """Replace a large object so many times, and save each."""
    store = Store(publishes=False)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, NOW, namespace="default")
    for number in range(count):
        patch: Object = {"data": {"a": f"{number}" + "x" * 10 * KIB}}
        store.patch(CONFIG_MAP, "a", patch, now=NOW, namespace="default")
        database.commit(store.staged())
        store.publish()
    return store


def test_a_log_forgets_what_is_too_much(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", history=10_000, most_bytes=200 * KIB)
    store = written(database, 300)
    size = database._connection.execute("SELECT SUM(LENGTH(before)) FROM log").fetchone()[0]
    saved = database.load()
    database.close()
    assert size <= 200 * KIB
    assert (tmp_path / "store.db").stat().st_size < 1024 * KIB
    assert saved is not None
    again = Store()
    again.restore(saved)
    latest = again.get(CONFIG_MAP, "a", namespace="default")
    assert latest == store.get(CONFIG_MAP, "a", namespace="default")
    resumed = again.watch(CONFIG_MAP, Query(resource_version=str(again.version - 3)), namespace="default")
    assert [event.type for event in resumed.poll()] == ["MODIFIED"] * 3
    behind = again.watch(CONFIG_MAP, Query(resource_version="5"), namespace="default")
    assert [event.object["code"] for event in behind.poll()] == [410]
    with pytest.raises(StatusError) as expired:
        again.list(CONFIG_MAP, Query(resource_version="5", resource_version_match="Exact"))
    assert expired.value.code == 410
