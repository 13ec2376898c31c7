"""Snapshots, for tests of crashes; and what the modules may know."""

import ast
from datetime import datetime
from pathlib import Path

import pytest

import bireme.apiserver
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE, POD
from bireme.apiserver.lists import Query
from bireme.apiserver.store import Store

FOLDER = Path(bireme.apiserver.__file__).parent
SHELL = {"backend.py", "database.py", "inside.py", "reserve.py", "serving"}
SOURCES = sorted(path for path in FOLDER.rglob("*.py") if path.relative_to(FOLDER).parts[0] not in SHELL)
UNKNOWN = {
    "asyncio",
    "logging",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}


def test_a_restored_store_is_as_it_was(store: Store, now: datetime) -> None:
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, now, namespace="default")
    snapshot, version = store.snapshot(), store.version
    store.create(CONFIG_MAP, {"metadata": {"name": "b"}}, now, namespace="default")
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    store.restore(snapshot)
    assert [obj["metadata"]["name"] for obj in store.list(CONFIG_MAP).items] == ["a"]
    assert store.version == version
    (event,) = store.watch(CONFIG_MAP, Query(resource_version="2")).poll()
    assert event.object["metadata"]["name"] == "a"


def test_a_snapshot_serves_another_store_again_and_again(store: Store, now: datetime) -> None:
    snapshot = store.snapshot()
    for _ in range(2):
        other = Store()
        other.restore(snapshot)
        made = other.create(CONFIG_MAP, {"metadata": {"name": "a"}}, now, namespace="default")
        assert made["metadata"]["resourceVersion"] == "3"
    assert store.find(CONFIG_MAP, "a", namespace="default") is None


def test_watchers_are_cut_off_by_a_restore(store: Store, now: datetime) -> None:
    woken: list[bool] = []
    watcher = store.watch(CONFIG_MAP, wake=lambda: woken.append(True))
    store.restore(store.snapshot())
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, now, namespace="default")
    assert (watcher.closed, woken, watcher.poll()) == (True, [True], [])


def test_a_kind_that_a_snapshot_does_not_know_begins_empty_and_without_history(now: datetime) -> None:
    small = Store([NAMESPACE])
    small.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    large = Store()
    large.restore(small.snapshot())
    assert large.list(POD).items == []
    assert large.watch(POD, Query(resource_version="1")).poll()[0].type == "ERROR"
    assert large.watch(POD, Query(resource_version="2")).poll() == []


def test_two_stores_given_the_same_steps_are_the_same(now: datetime) -> None:
    stores = [Store(), Store()]
    for store in stores:
        store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
        for _ in range(3):
            store.create(CONFIG_MAP, {"metadata": {"generateName": "x-"}}, now, namespace="default")
    assert stores[0].snapshot() == stores[1].snapshot()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_the_transport_knows_of_an_event_loop(path: Path) -> None:
    """The store must run under virtual time: no clock, no chance, no I/O."""
    tree = ast.parse(path.read_text())
    names = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
    }
    assert names & UNKNOWN == ({"asyncio"} if path.stem == "local" else set())
