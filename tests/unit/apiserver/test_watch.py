"""Watches: what is told, from where on, and what happens to one who falls behind."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE, POD
from bireme.apiserver.lists import Query
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Event, Watcher


def write(store: Store, now: datetime, name: str, namespace: str = "default", **labels: str) -> None:
    if store.find(CONFIG_MAP, name, namespace=namespace) is None:
        body = {"metadata": {"name": name, "labels": labels}}
        store.create(CONFIG_MAP, body, now, namespace=namespace)
    else:
        store.patch(CONFIG_MAP, name, {"metadata": {"labels": labels}}, namespace=namespace)


def told(watcher: Watcher) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in watcher.poll()]


def test_a_watch_tells_what_happened_after_its_version(store: Store, now: datetime) -> None:
    write(store, now, "a")
    watcher = store.watch(CONFIG_MAP, Query(resource_version=str(store.version)))
    assert told(watcher) == []
    write(store, now, "a", changed="1")
    write(store, now, "b")
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    assert told(watcher) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert told(watcher) == []


def test_the_past_can_be_told(store: Store, now: datetime) -> None:
    version = str(store.version)
    write(store, now, "a")
    write(store, now, "a", changed="1")
    events = store.watch(CONFIG_MAP, Query(resource_version=version)).poll()
    assert [event.type for event in events] == ["ADDED", "MODIFIED"]
    assert [event.object["metadata"]["labels"] for event in events[1:]] == [{"changed": "1"}]
    assert "labels" not in events[0].object["metadata"]


@pytest.mark.parametrize("version", ["", "0"], ids=["none", "any"])
def test_without_a_version_a_watch_begins_with_all_there_is(
    store: Store, now: datetime, version: str
) -> None:
    write(store, now, "b")
    write(store, now, "a")
    watcher = store.watch(CONFIG_MAP, Query(resource_version=version))
    write(store, now, "c")
    assert told(watcher) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_initial_events_end_with_a_bookmark(store: Store, now: datetime) -> None:
    write(store, now, "a")
    query = Query(send_initial_events=True, resource_version_match="NotOlderThan", allow_bookmarks=True)
    added, bookmark = store.watch(CONFIG_MAP, query).poll()
    assert added.type == "ADDED"
    assert (bookmark.type, bookmark.object) == (
        "BOOKMARK",
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(store.version),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    )


@pytest.mark.parametrize(
    "query",
    [Query(send_initial_events=True), Query(resource_version_match="NotOlderThan")],
    ids=["events without a match", "a match without events"],
)
def test_initial_events_need_a_match(store: Store, query: Query) -> None:
    with pytest.raises(StatusError) as refused:
        store.watch(CONFIG_MAP, query)
    assert refused.value.status["details"]["causes"][0]["field"] == "resourceVersionMatch"


def test_a_watch_is_of_one_kind_and_namespace(store: Store, now: datetime) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, now)
    watcher = store.watch(CONFIG_MAP, namespace="default")
    everywhere = store.watch(CONFIG_MAP)
    write(store, now, "a", namespace="other")
    write(store, now, "b")
    store.create(
        POD, {"metadata": {"name": "c"}, "spec": {"containers": [{"name": "c"}]}}, now, namespace="default"
    )
    assert told(watcher) == [("ADDED", "b")]
    assert told(everywhere) == [("ADDED", "a"), ("ADDED", "b")]


def test_for_a_selector_objects_come_and_go(store: Store, now: datetime) -> None:
    watcher = store.watch(CONFIG_MAP, Query(label_selector="role=x"))
    write(store, now, "a", role="x", step="1")
    write(store, now, "a", role="x", step="2")
    write(store, now, "a", role="y", step="3")
    version = str(store.version)
    write(store, now, "a", role="y", step="4")
    write(store, now, "a", role="x", step="5")
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    events = watcher.poll()
    steps = [(event.type, event.object["metadata"]["labels"]["step"]) for event in events]
    assert steps == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2"), ("ADDED", "5"), ("DELETED", "5")]
    assert events[2].object["metadata"]["resourceVersion"] == version


def test_fields_select_too(store: Store, now: datetime) -> None:
    watcher = store.watch(POD, Query(field_selector="status.phase=Running"))
    store.create(
        POD, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}, now, namespace="default"
    )
    for phase in ("Running", "Succeeded"):
        store.patch(POD, "a", {"status": {"phase": phase}}, namespace="default", subresource="status")
    assert told(watcher) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_bookmark_is_as_far_as_was_told(store: Store, now: datetime) -> None:
    watcher = store.watch(CONFIG_MAP, Query(resource_version=str(store.version)))
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, now)
    assert watcher.poll() == []
    passed = str(store.version)
    write(store, now, "a")
    assert watcher.bookmark().object["metadata"] == {"resourceVersion": passed}
    assert told(store.watch(CONFIG_MAP, Query(resource_version=passed))) == [("ADDED", "a")]


def test_a_version_of_the_future_is_waited_for(store: Store, now: datetime) -> None:
    watcher = store.watch(CONFIG_MAP, Query(resource_version=str(store.version + 1)))
    write(store, now, "a")
    assert told(watcher) == []
    write(store, now, "b")
    assert told(watcher) == [("ADDED", "b")]


def expiry(events: list[Event]) -> tuple[str, int, str, str]:
    (event,) = events
    status = event.object
    return event.type, status["code"], status["reason"], status["message"]


def test_a_forgotten_version_is_expired(now: datetime) -> None:
    store = Store(history=2)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    for name in "abcd":
        write(store, now, name)
    assert told(store.watch(CONFIG_MAP, Query(resource_version="4"))) == [("ADDED", "c"), ("ADDED", "d")]
    late = store.watch(CONFIG_MAP, Query(resource_version="3"))
    assert expiry(late.poll()) == ("ERROR", 410, "Expired", "too old resource version: 3 (4)")
    assert late.closed
    assert late.poll() == []


def test_the_history_of_one_kind_is_not_used_up_by_another(now: datetime) -> None:
    store = Store(history=2)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    version = str(store.version)
    for name in "abcd":
        write(store, now, name)
    assert store.watch(POD, Query(resource_version=version)).poll() == []


def test_one_who_falls_behind_is_told_so(now: datetime) -> None:
    store = Store(history=3)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    watcher = store.watch(CONFIG_MAP)
    for name in "abc":
        write(store, now, name)
    assert len(watcher.poll()) == 3
    for name in "defgh":
        write(store, now, name)
    assert expiry(watcher.poll())[:2] == ("ERROR", 410)


@pytest.mark.parametrize("history", [0, 1, 2, 5])
def test_exactly_the_last_changes_are_kept(now: datetime, history: int) -> None:
    store = Store(history=history)
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    for index in range(12):
        write(store, now, f"n{index}")
        kept = min(history, index + 1)
        start = store.version - kept
        assert len(told(store.watch(CONFIG_MAP, Query(resource_version=str(start))))) == kept
        if index + 1 > history:
            behind = store.watch(CONFIG_MAP, Query(resource_version=str(start - 1)))
            assert expiry(behind.poll())[1] == 410


def test_a_watcher_is_woken_by_its_kind_until_it_is_closed(store: Store, now: datetime) -> None:
    calls: list[int] = []
    watcher = store.watch(CONFIG_MAP, wake=lambda: calls.append(store.version))
    write(store, now, "a")
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, now)
    watcher.close()
    write(store, now, "b")
    assert calls == [3]
    assert told(watcher) == []


def test_a_malformed_version_is_refused(store: Store) -> None:
    with pytest.raises(StatusError, match="invalid syntax"):
        store.watch(CONFIG_MAP, Query(resource_version="abc"))


WRITES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "", "gone"]), st.booleans()), max_size=20
)


@given(WRITES, st.sampled_from(["", "role=x", "role!=x"]))
def test_whoever_lists_and_watches_knows_what_a_list_would_say(
    writes: list[tuple[str, str, bool]], selector: str
) -> None:
    now = datetime.fromisoformat("2026-01-01T00:00:00Z")
    store = Store()
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    write(store, now, "a", role="x")
    query = Query(label_selector=selector)
    page = store.list(CONFIG_MAP, query)
    known: dict[str, Any] = {obj["metadata"]["name"]: obj for obj in page.items}
    watcher = store.watch(CONFIG_MAP, Query(label_selector=selector, resource_version=str(page.version)))
    for name, role, polls in writes:
        if role != "gone":
            write(store, now, name, role=role)
        elif store.find(CONFIG_MAP, name, namespace="default") is not None:
            store.delete(CONFIG_MAP, name, now, namespace="default")
        if polls:
            follow(known, watcher)
    follow(known, watcher)
    assert known == {obj["metadata"]["name"]: obj for obj in store.list(CONFIG_MAP, query).items}


def follow(known: dict[str, Any], watcher: Watcher) -> None:
    for event in watcher.poll():
        name = event.object["metadata"]["name"]
        assert (name in known) is (event.type != "ADDED")
        if event.type == "DELETED":
            del known[name]
        else:
            known[name] = event.object
