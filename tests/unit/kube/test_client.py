"""Calls are typed, made again where that is safe, paged, and counted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bireme.api.core import Pod
from bireme.kube.client import Client
from bireme.kube.codec import Malformed
from bireme.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    DecodeError,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from bireme.kube.resources import CONFIG_MAPS, NODES, PODS
from unit.kube.scripted import InstantClock, ScriptedTransport, calm_client, page, pod, status

BODY = {"metadata": {"name": "a"}}
LOST = TransportError("reset by peer")
REFUSED = TransportError("connection refused", ambiguous=False)
Call = Callable[[Client], Awaitable[Any]]

SAFE: dict[str, Call] = {
    "get": lambda client: client.get(PODS, "default", "a"),
    "list": lambda client: client.list(PODS, type=Pod),
    "delete of a UID": lambda client: client.delete(PODS, "default", "a", uid="u"),
    "apply": lambda client: client.patch(PODS, "default", "a", BODY, kind="apply"),
}
UNSAFE: dict[str, Call] = {
    "create": lambda client: client.create(PODS, "default", BODY),
    "delete": lambda client: client.delete(PODS, "default", "a"),
    "merge patch": lambda client: client.patch(PODS, "default", "a", BODY),
    "JSON patch": lambda client: client.patch(PODS, "default", "a", [], kind="json"),
    "status patch": lambda client: client.patch(PODS, "default", "a", BODY, subresource="status"),
    "replace": lambda client: client.replace(PODS, "default", "a", BODY),
    "bind": lambda client: client.bind("default", "a", "node"),
}
Failure = KubeError | tuple[int, dict[str, str]]
PASSING: dict[str, Failure] = {
    "no answer": LOST,
    "429": (429, {}),
    "500": (500, {}),
    "503": (503, {}),
    "504": (504, {}),
}


class Bench:
    """A client, its transport and its clock."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport()
        self.clock = InstantClock()
        self.client = calm_client(self.transport, self.clock)

    def fail(self, failure: Failure, times: int = 1) -> None:
        for _ in range(times):
            if isinstance(failure, KubeError):
                self.transport.fail(failure)
            else:
                self.transport.answer(failure[0], status(failure[0]), failure[1])

    def run(self, call: Call) -> Any:
        async def main() -> Any:
            return await call(self.client)

        return asyncio.run(main())


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("call", SAFE.values(), ids=SAFE)
@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
def test_a_call_that_may_be_made_twice_is(bench: Bench, call: Call, failure: Failure) -> None:
    bench.fail(failure, times=2)
    bench.transport.answer(200, page(1))
    bench.run(call)
    assert len(bench.transport.sent) == 3
    assert bench.clock.slept == [0.1, 0.2]


@pytest.mark.parametrize("call", UNSAFE.values(), ids=UNSAFE)
@pytest.mark.parametrize("failure", [LOST, (500, {}), (503, {}), (504, {})], ids=str)
def test_a_call_that_may_have_been_done_is_not_made_again(bench: Bench, call: Call, failure: Failure) -> None:
    bench.fail(failure)
    with pytest.raises((TransportError, ServerError)):
        bench.run(call)
    assert len(bench.transport.sent) == 1


@pytest.mark.parametrize("call", UNSAFE.values(), ids=UNSAFE)
@pytest.mark.parametrize("failure", [(429, {}), (503, {"Retry-After": "1"}), REFUSED], ids=str)
def test_a_call_that_was_certainly_not_done_is_made_again(bench: Bench, call: Call, failure: Failure) -> None:
    bench.fail(failure)
    bench.transport.answer(201, BODY)
    bench.run(call)
    assert len(bench.transport.sent) == 2


def test_waits_double_up_to_a_limit_and_the_fifth_failure_is_raised(bench: Bench) -> None:
    bench.fail((500, {}), times=5)
    with pytest.raises(ServerError):
        bench.run(SAFE["get"])
    assert bench.clock.slept == [0.1, 0.2, 0.4, 0.8]


def test_waits_are_jittered_down_to_a_half() -> None:
    bench = Bench()
    client = Client(bench.transport, clock=bench.clock, random=lambda: 0.0)
    bench.fail((500, {}), times=5)
    with pytest.raises(ServerError):
        asyncio.run(client.get(PODS, "default", "a"))
    assert bench.clock.slept == [0.05, 0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    ("headers", "details", "waited"),
    [
        ({"Retry-After": "3"}, {}, 3.1),
        ({"retry-after": "3"}, {}, 3.1),
        ({}, {"retryAfterSeconds": 2}, 2.1),
        ({"Retry-After": "86400"}, {}, 30.1),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, 0.1),
    ],
)
def test_retry_after_is_honoured(
    bench: Bench, headers: dict[str, str], details: dict[str, Any], waited: float
) -> None:
    bench.transport.answer(429, status(429, "TooManyRequests", **details), headers)
    bench.transport.answer(200, BODY)
    bench.run(UNSAFE["create"])
    assert bench.clock.slept == [waited]


def test_the_last_429_is_raised_with_what_the_server_asked_for(bench: Bench) -> None:
    bench.fail((429, {"Retry-After": "1"}), times=5)
    with pytest.raises(TooManyRequests) as caught:
        bench.run(UNSAFE["create"])
    assert caught.value.retry_after == 1


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
    ],
)
def test_an_answer_that_is_no_passes_through_at_once(
    bench: Bench, code: int, reason: str, expected: type[KubeError]
) -> None:
    bench.transport.answer(code, status(code, reason))
    with pytest.raises(expected, match=f"{reason} for a test"):
        bench.run(SAFE["get"])


def test_an_object_is_decoded_into_the_type_asked_for(bench: Bench) -> None:
    bench.transport.answer(200, pod("a", 7))
    got = bench.run(lambda client: client.get(PODS, "default", "a", type=Pod))
    assert isinstance(got, Pod)
    assert got.metadata.resource_version == "7"


def test_an_answer_that_is_no_json_is_an_error_of_ours(bench: Bench) -> None:
    bench.transport.answer(200, b"<html>")
    with pytest.raises(DecodeError):
        bench.run(SAFE["get"])


def test_a_list_is_paged(bench: Bench) -> None:
    bench.transport.answer(200, page(5, pod("a", 1), pod("b", 2), more="token"))
    bench.transport.answer(200, page(5, pod("c", 3)))
    listing = bench.run(
        lambda client: client.list(PODS, "default", type=Pod, label_selector="a=b", page_size=2)
    )
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "5"
    first, second = (sent.params for sent in bench.transport.sent)
    assert first == {"labelSelector": "a=b", "limit": "2"}
    assert second == {"labelSelector": "a=b", "limit": "2", "continue": "token"}


def test_a_list_of_large_objects_has_small_pages(bench: Bench) -> None:
    """The first page is small; those after it are as large as the mean size of objects allows."""
    large = [{**pod(str(number), number), "spec": {"x": "x" * 2_000_000}} for number in range(3)]
    bench.transport.answer(200, page(5, *large, more="token"))
    bench.transport.answer(200, page(5, *(pod(f"s{number}", number) for number in range(4)), more="more"))
    bench.transport.answer(200, page(5))
    bench.run(lambda client: client.list(PODS, "default", type=Pod))
    assert [sent.params["limit"] for sent in bench.transport.sent] == ["16", "4", "500"]


def test_a_list_whose_pages_are_gone_begins_again_and_in_the_end_without_pages(bench: Bench) -> None:
    for version in (5, 6):
        bench.transport.answer(200, page(version, pod("a", 1), more="token"))
        bench.transport.answer(410, status(410, "Expired"))
    bench.transport.answer(200, page(7, pod("a", 1), pod("b", 2)))
    listing = bench.run(lambda client: client.list(PODS, type=Pod, page_size=1))
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    assert bench.transport.sent[-1].params == {}


def test_items_of_a_list_are_told_what_they_are(bench: Bench) -> None:
    bench.transport.answer(200, {"metadata": {}, "items": [{"metadata": {"name": "n"}}]})
    listing = bench.run(lambda client: client.list(NODES, type=dict))
    assert listing.items == [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]


def test_a_list_of_null_is_empty(bench: Bench) -> None:
    bench.transport.answer(200, {"metadata": {"resourceVersion": "1"}, "items": None})
    assert bench.run(lambda client: client.list(PODS, type=Pod)).items == []


def test_one_malformed_object_does_not_hide_the_others(bench: Bench) -> None:
    broken = pod("broken", 2) | {"spec": []}
    bench.transport.answer(200, page(5, pod("a", 1), broken))
    found: list[Malformed] = []
    listing = bench.run(lambda client: client.list(PODS, type=Pod, on_malformed=found.append))
    assert [item.metadata.name for item in listing.items] == ["a"]
    assert found == [Malformed("default", "broken", "Expected `object`, got `array` - at `$.spec`")]


def test_a_malformed_object_of_which_nobody_takes_note_is_an_error(bench: Bench) -> None:
    bench.transport.answer(200, page(5, pod("broken", 2) | {"spec": []}))
    with pytest.raises(DecodeError, match=r"items\[0\]\.spec"):
        bench.run(lambda client: client.list(PODS, type=Pod))


def test_create_names_its_field_manager(bench: Bench) -> None:
    bench.transport.answer(201, BODY)
    bench.run(lambda client: client.create(CONFIG_MAPS, "ns", BODY, dry_run=True))
    (sent,) = bench.transport.sent
    assert (sent.method, sent.path) == ("POST", "/api/v1/namespaces/ns/configmaps")
    assert sent.params == {"fieldManager": "bireme", "dryRun": "All"}
    assert sent.body == BODY


def test_delete_carries_its_options(bench: Bench) -> None:
    bench.transport.answer(200, {})
    call = bench.client.delete(PODS, "ns", "a", uid="u", grace_seconds=0, propagation="Background")
    assert bench.run(lambda _: call) is True
    assert bench.transport.sent[0].body == {
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u"},
    }


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict")])
def test_delete_of_what_is_gone_or_another_is_false(bench: Bench, code: int, reason: str) -> None:
    bench.transport.answer(code, status(code, reason))
    assert bench.run(lambda client: client.delete(PODS, "ns", "a", uid="u")) is False


def test_a_conflict_without_a_uid_to_compare_is_raised(bench: Bench) -> None:
    bench.transport.answer(409, status(409, "Conflict"))
    with pytest.raises(Conflict):
        bench.run(lambda client: client.delete(PODS, "ns", "a"))


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_each_kind_of_patch_says_what_it_is(bench: Bench, kind: Any, content_type: str) -> None:
    bench.transport.answer(200, BODY)
    bench.run(lambda client: client.patch(PODS, "ns", "a", BODY, kind=kind, subresource="status", force=True))
    (sent,) = bench.transport.sent
    assert sent.content_type == content_type
    assert sent.path == "/api/v1/namespaces/ns/pods/a/status"
    assert sent.params["force"] == "true"


def test_bind_names_node_and_uid(bench: Bench) -> None:
    bench.transport.answer(201, status(201))
    bench.run(lambda client: client.bind("ns", "a", "node-1", uid="u"))
    (sent,) = bench.transport.sent
    assert sent.path == "/api/v1/namespaces/ns/pods/a/binding"
    assert sent.body["metadata"]["uid"] == "u"
    assert sent.body["target"]["name"] == "node-1"


def test_output_of_a_pod_without_a_node_is_an_error_that_says_so(bench: Bench) -> None:
    """The API server answers 204 and an empty body."""
    bench.transport.refuse_stream(ApiError(204))

    async def read(client: Client) -> list[bytes]:
        return [chunk async for chunk in client.log("ns", "a")]

    with pytest.raises(ApiError, match="the pod a has not been scheduled to a node yet") as refused:
        bench.run(read)
    assert refused.value.code == 400


def test_every_call_is_counted_by_verb_resource_and_code(bench: Bench) -> None:
    bench.fail((500, {}))
    bench.fail(LOST)
    bench.transport.answer(200, BODY)
    bench.run(SAFE["get"])
    assert bench.client.statistics() == {
        ("get", "pods", "500"): 1,
        ("get", "pods", "error"): 1,
        ("get", "pods", "200"): 1,
    }
