"""Lists: order, pages of one version, and what becomes of them when the version is forgotten."""

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE
from bireme.apiserver.lists import Page, Query
from bireme.apiserver.store import Store


def create(store: Store, now: datetime, *names: str, namespace: str = "default", **labels: str) -> None:
    for name in names:
        body = {"metadata": {"name": name, "labels": labels}}
        store.create(CONFIG_MAP, body, now, namespace=namespace)


def names(page: Page) -> list[str]:
    return [obj["metadata"]["name"] for obj in page.items]


def pages(store: Store, **query: Any) -> Iterator[Page]:
    page = store.list(CONFIG_MAP, Query(**query), namespace="default")
    yield page
    while page.continue_token:
        following = Query(**query, continue_token=page.continue_token)
        page = store.list(CONFIG_MAP, following, namespace="default")
        yield page


def refusal(store: Store, **query: Any) -> StatusError:
    with pytest.raises(StatusError) as refused:
        store.list(CONFIG_MAP, Query(**query), namespace="default")
    return refused.value


def test_lists_are_sorted_and_carry_the_latest_version(store: Store, now: datetime) -> None:
    create(store, now, "c", "a", "b")
    page = store.list(CONFIG_MAP)
    assert (names(page), page.version) == (["a", "b", "c"], store.version)


def test_a_namespace_is_sorted_by_its_key(store: Store, now: datetime) -> None:
    """`a-b/x` stands before `a/x`: a dash is less than a slash."""
    for namespace in ("a", "a-b"):
        store.create(NAMESPACE, {"metadata": {"name": namespace}}, now)
        create(store, now, "x", namespace=namespace)
    assert [obj["metadata"]["namespace"] for obj in store.list(CONFIG_MAP).items] == ["a-b", "a"]
    assert [obj["metadata"]["namespace"] for obj in store.list(CONFIG_MAP, namespace="a").items] == ["a"]


def test_lists_are_selected(store: Store, now: datetime) -> None:
    create(store, now, "a", "b", role="x")
    create(store, now, "c", role="y")
    assert names(store.list(CONFIG_MAP, Query(label_selector="role=x"))) == ["a", "b"]
    assert names(store.list(CONFIG_MAP, Query(field_selector="metadata.name!=a"))) == ["b", "c"]


def test_pages_are_cut_by_the_limit(store: Store, now: datetime) -> None:
    create(store, now, *"abcde")
    cut = list(pages(store, limit=2))
    assert [names(page) for page in cut] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.remaining for page in cut] == [3, 1, None]


def test_a_selected_page_does_not_count_what_remains(store: Store, now: datetime) -> None:
    create(store, now, "a", "b", role="x")
    create(store, now, "c", role="y")
    first, second = pages(store, limit=2, label_selector="role=x")
    assert (names(first), first.remaining) == (["a", "b"], None)
    assert names(second) == []


def test_pages_show_the_version_of_the_first(store: Store, now: datetime) -> None:
    create(store, now, *"abcd")
    walk = pages(store, limit=2)
    first = next(walk)
    store.delete(CONFIG_MAP, "c", now, namespace="default")
    store.patch(CONFIG_MAP, "d", {"data": {"k": "v"}}, namespace="default")
    create(store, now, "e")
    second = next(walk)
    assert names(second) == ["c", "d"]
    assert "data" not in second.items[1]
    assert second.version == first.version
    assert names(store.list(CONFIG_MAP)) == ["a", "b", "d", "e"]


def test_a_page_of_a_forgotten_version_is_gone_but_the_rest_can_be_had(store: Store, now: datetime) -> None:
    create(store, now, *"abcd")
    token = store.list(CONFIG_MAP, Query(limit=2), namespace="default").continue_token
    store.delete(CONFIG_MAP, "c", now, namespace="default")
    store.compact()
    error = refusal(store, continue_token=token, limit=2)
    assert (error.code, error.reason) == (410, "Expired")
    assert error.message.startswith("The provided continue parameter is too old to display a consistent list")
    rest = Query(continue_token=error.status["metadata"]["continue"], limit=2)
    page = store.list(CONFIG_MAP, rest, namespace="default")
    assert (names(page), page.version) == (["d"], store.version)


def test_versions_can_be_asked_for(store: Store, now: datetime) -> None:
    create(store, now, "a")
    version = str(store.version)
    create(store, now, "b")
    at = Query(resource_version=version, resource_version_match="Exact")
    since = Query(resource_version=version, resource_version_match="NotOlderThan")
    assert names(store.list(CONFIG_MAP, at)) == ["a"]
    assert names(store.list(CONFIG_MAP, since)) == ["a", "b"]
    assert names(store.list(CONFIG_MAP, Query(resource_version=version))) == ["a", "b"]
    assert names(store.list(CONFIG_MAP, Query(resource_version=version, limit=5))) == ["a"]
    assert names(store.list(CONFIG_MAP, Query(resource_version="0", limit=1))) == ["a", "b"]


def test_an_old_version_of_what_did_not_change_is_what_is(store: Store, now: datetime) -> None:
    create(store, now, "a")
    version = str(store.version)
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, now)
    page = store.list(CONFIG_MAP, Query(resource_version=version, resource_version_match="Exact"))
    assert (names(page), str(page.version)) == (["a"], version)


def test_a_forgotten_version_is_expired(store: Store, now: datetime) -> None:
    create(store, now, "a", "b")
    store.compact()
    error = refusal(store, resource_version="3", resource_version_match="Exact")
    assert (error.code, error.message) == (410, "The resourceVersion for the provided list is too old.")


def token(**fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"resource_version": "999"}, 504, "Timeout: Too large resource version: 999, current: 2"),
        ({"resource_version": "abc"}, 400, 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ({"resource_version_match": "Exact"}, 422, "is forbidden unless resourceVersion is provided"),
        ({"resource_version_match": "X", "resource_version": "1"}, 422, 'supported values: "Exact"'),
        ({"resource_version_match": "Exact", "resource_version": "0"}, 422, 'forbidden for resourceVersion'),
        ({"continue_token": "!"}, 400, "invalid continue token: continue key is not valid"),
        ({"continue_token": token(v="x")}, 400, "server does not recognize this encoded version x"),
        ({"continue_token": token(v="meta.k8s.io/v1")}, 400, "continue key is not valid"),
        ({"continue_token": token(v="meta.k8s.io/v1", rv=99, start="a")}, 504, "Too large resource version"),
        ({"continue_token": token(v="meta.k8s.io/v1", rv=1, start="a"), "resource_version": "1"}, 400,
         "specifying resource version is not allowed when using continue"),
    ],
    ids=["future", "no number", "match alone", "match", "exactly any", "no token", "token of another server",
         "empty token", "token of the future", "token and version"],
)  # fmt: skip
def test_queries_that_are_refused(store: Store, query: dict[str, Any], code: int, words: str) -> None:
    error = refusal(store, **query)
    assert (error.code, words in error.message) == (code, True), error.message


def test_a_version_of_the_future_says_so_to_programs_too(store: Store) -> None:
    details = refusal(store, resource_version="999").status["details"]
    assert details["causes"][0]["reason"] == "ResourceVersionTooLarge"


WRITES = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["put", "delete"])), max_size=6)


@given(st.integers(1, 4), st.lists(WRITES, max_size=6))
def test_pages_together_are_the_list_whatever_is_written_between(limit: int, writes: list[Any]) -> None:
    now = datetime.fromisoformat("2026-01-01T00:00:00Z")
    store = Store()
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    create(store, now, *"abde")
    whole = names(store.list(CONFIG_MAP))
    seen: list[str] = []
    for page, between in zip(pages(store, limit=limit), [*writes, *[[]] * 10], strict=False):
        seen += names(page)
        for name, what in between:
            there = store.find(CONFIG_MAP, name, namespace="default") is not None
            if what == "delete" and there:
                store.delete(CONFIG_MAP, name, now, namespace="default")
            elif what == "put" and not there:
                create(store, now, name)
    assert seen == whole
