"""The transport to a store in the same process: paths, codes, streams; and our client on top of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import pytest

from bireme.api.core import Pod
from bireme.apiserver.local import LocalTransport
from bireme.apiserver.store import Store
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, Gone, TransportError
from bireme.kube.resources import PODS
from bireme.kube.transport import Transport

T = TypeVar("T")
NAMESPACED = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
JOBS = "/apis/batch.tensorstack.dev/v1beta1/namespaces/default/genericjobs"
JOB = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "metadata": {"name": "a"}}

CONFIG = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'


@pytest.fixture
def transport(store: Store, now: datetime) -> LocalTransport:
    return LocalTransport(store, lambda: now)


async def ask(
    transport: Transport,
    method: str,
    path: str,
    body: object = None,
    media_type: str = "application/json",
    **params: str,
) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    response = await transport.request(method, path, params=params, body=data, content_type=media_type)
    assert response.headers["Content-Type"] == "application/json"
    return response.status, json.loads(response.body)


def run(steps: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(90):
            return await steps()

    return asyncio.run(bounded())


def test_an_object_lives_over_the_wire(transport: LocalTransport) -> None:
    pods = f"{NAMESPACED}/pods"

    async def steps() -> list[Any]:
        return [
            await ask(transport, "POST", pods, POD),
            await ask(transport, "GET", f"{pods}/a"),
            await ask(transport, "PATCH", f"{pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE),
            await ask(transport, "PATCH", f"{pods}/a/status", {"status": {"phase": "Running"}}, MERGE),
            await ask(transport, "GET", f"{pods}/a/status"),
            await ask(transport, "PUT", f"{pods}/a", POD),
            await ask(
                transport, "POST", f"{pods}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}}
            ),
            await ask(transport, "POST", f"{pods}/a/eviction", {"metadata": {"name": "a"}}),
            await ask(transport, "DELETE", f"{pods}/a", {"gracePeriodSeconds": 0}),
            await ask(transport, "GET", f"{pods}/a"),
        ]

    answers = run(steps)
    assert [code for code, _ in answers] == [201, 200, 200, 200, 200, 200, 201, 201, 200, 404]
    assert answers[4][1]["status"]["phase"] == "Running"
    assert answers[6][1] == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    assert answers[8][1]["kind"] == "Pod"
    assert answers[9][1]["reason"] == "NotFound"


def test_lists_say_of_our_kinds_only_what_they_are(transport: LocalTransport) -> None:
    async def steps() -> tuple[Any, Any, Any]:
        await ask(transport, "POST", f"{NAMESPACED}/pods", POD)
        await ask(transport, "POST", JOBS, JOB)
        return (
            await ask(transport, "GET", "/api/v1/pods", limit="1"),
            await ask(transport, "GET", JOBS),
            await ask(transport, "GET", f"{NAMESPACED}/pods", labelSelector="x=y"),
        )

    (_, pods), (_, jobs), (_, none) = run(steps)
    assert (pods["kind"], pods["apiVersion"], pods["metadata"]) == ("PodList", "v1", {"resourceVersion": "4"})
    assert ("kind" in pods["items"][0], jobs["items"][0]["kind"]) == (False, "GenericJob")
    assert none["items"] == []


def test_pages_are_walked_over_the_wire(transport: LocalTransport) -> None:
    async def steps() -> tuple[Any, Any]:
        for name in "abc":
            await ask(transport, "POST", f"{NAMESPACED}/configmaps", {"metadata": {"name": name}})
        _, first = await ask(transport, "GET", f"{NAMESPACED}/configmaps", limit="2")
        token = {"continue": first["metadata"]["continue"]}
        _, second = await ask(transport, "GET", f"{NAMESPACED}/configmaps", limit="2", **token)
        return first, second

    first, second = run(steps)
    assert first["metadata"]["remainingItemCount"] == 1
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/frobs", 404),
        ("GET", "/healthz", 404),
        ("GET", "/", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/batch.tensorstack.dev/v1/genericjobs", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", f"{NAMESPACED}/configmaps/a/status", 404),
        ("GET", f"{NAMESPACED}/pods/a/log", 405),
        ("GET", f"{NAMESPACED}/pods/a/status/more", 404),
        ("POST", f"{NAMESPACED}/pods/a", 405),
        ("PUT", f"{NAMESPACED}/pods", 405),
        ("PATCH", f"{NAMESPACED}/pods", 405),
        ("GET", f"{NAMESPACED}/pods/a/binding", 405),
        ("DELETE", f"{NAMESPACED}/pods/a/status", 405),
        ("GET", f"{NAMESPACED}/pods?watch", 404),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces", 200),
        ("GET", "/api/v1/nodes", 200),
    ],
)
def test_paths_lead_somewhere_or_nowhere(
    transport: LocalTransport, method: str, path: str, code: int
) -> None:
    assert run(lambda: ask(transport, method, path))[0] == code


@pytest.mark.parametrize(
    ("method", "path", "body", "media_type", "params", "code"),
    [
        ("POST", "configmaps", b"{nope", "application/json", {}, 400),
        ("POST", "configmaps", b"", "application/json", {}, 400),
        ("POST", "configmaps", b"a: b", "application/yaml", {}, 415),
        ("PATCH", "configmaps/a", b"{nope", MERGE, {}, 400),
        ("PATCH", "configmaps/a", b"{}", "text/plain", {}, 415),
        ("PATCH", "configmaps/a", b"{}", "application/apply-patch+yaml", {}, 422),
        ("PATCH", "configmaps/a", CONFIG, "application/apply-patch+yaml", {"fieldManager": "m"}, 415),
        ("PATCH", "configmaps/a", b"{}", MERGE, {"force": "true"}, 422),
        ("PATCH", "configmaps/a", b"{}", MERGE, {"fieldValidation": "x"}, 422),
        ("DELETE", "configmaps/a", b"{nope", "application/json", {}, 400),
        ("DELETE", "configmaps/a", None, "application/json", {"gracePeriodSeconds": "x"}, 400),
        ("DELETE", "configmaps/a", None, "application/json", {"propagationPolicy": "x"}, 422),
        ("GET", "configmaps", None, "application/json", {"limit": "x"}, 400),
        ("GET", "configmaps", None, "application/json", {"watch": "true"}, 400),
        ("DELETE", "configmaps/a", None, "application/json", {"dryRun": "All"}, 200),
        ("DELETE", "configmaps/a", None, "application/json", {"dryRun": "Some"}, 422),
        ("POST", "configmaps", b'{"metadata": {"name": "b"}}', "application/json; charset=utf-8", {}, 201),
        ("DELETE", "configmaps/a", None, "application/json", {"orphanDependents": "false"}, 200),
        ("DELETE", "configmaps", None, "application/json", {"labelSelector": "x=y"}, 200),
    ],
)
def test_requests_that_are_refused_or_taken(
    transport: LocalTransport,
    method: str,
    path: str,
    body: bytes | None,
    media_type: str,
    params: dict[str, str],
    code: int,
) -> None:
    async def steps() -> int:
        await ask(transport, "POST", f"{NAMESPACED}/configmaps", {"metadata": {"name": "a"}})
        response = await transport.request(
            method, f"{NAMESPACED}/{path}", params=params, body=body, content_type=media_type
        )
        return response.status

    assert run(steps) == code


def test_what_is_gone_is_told_by_a_status(transport: LocalTransport) -> None:
    async def steps() -> Any:
        await ask(transport, "POST", JOBS, JOB)
        return await ask(transport, "DELETE", f"{JOBS}/a")

    code, body = run(steps)
    assert (code, body["status"], "code" in body) == (200, "Success", False)
    assert body["details"] == {
        "name": "a",
        "group": "batch.tensorstack.dev",
        "kind": "genericjobs",
        "uid": "00000000-0000-4000-8000-000000000002",
    }


# ---- streams


async def events(chunks: AsyncIterator[bytes], count: int) -> list[tuple[str, str]]:
    """So many events, however they come in chunks."""
    seen: list[tuple[str, str]] = []
    while len(seen) < count:
        for line in (await anext(chunks)).splitlines():
            event = json.loads(line)
            seen.append((event["type"], event["object"]["metadata"].get("name", "")))
    return seen


def test_a_stream_wakes_up_when_something_happens(transport: LocalTransport) -> None:
    async def steps() -> list[tuple[str, str]]:
        async with transport.stream(f"{NAMESPACED}/pods", params={"labelSelector": "x=y"}) as chunks:
            told = asyncio.create_task(events(chunks, 2))
            await asyncio.sleep(0)
            labelled = POD | {"metadata": {"name": "b", "labels": {"x": "y"}}}
            await ask(transport, "POST", f"{NAMESPACED}/pods", POD)
            await ask(transport, "POST", f"{NAMESPACED}/pods", labelled)
            await asyncio.sleep(0)
            await ask(transport, "PATCH", f"{NAMESPACED}/pods/b", {"metadata": {"labels": {"x": "z"}}}, MERGE)
            return await told

    assert run(steps) == [("ADDED", "b"), ("DELETED", "b")]


def test_what_happened_meanwhile_comes_in_one_chunk(transport: LocalTransport) -> None:
    async def steps() -> int:
        async with transport.stream(f"{NAMESPACED}/configmaps", params={}) as chunks:
            for name in "abc":
                await ask(transport, "POST", f"{NAMESPACED}/configmaps", {"metadata": {"name": name}})
            return len((await anext(chunks)).splitlines())

    assert run(steps) == 3


def test_bookmarks_are_sent_on_demand_to_those_who_want_them(transport: LocalTransport) -> None:
    async def steps() -> list[tuple[str, str]]:
        wanted = {"allowWatchBookmarks": "true"}
        path = f"{NAMESPACED}/configmaps"
        async with transport.stream(path, params=wanted) as eager, transport.stream(path, params={}) as plain:
            seen = asyncio.create_task(events(plain, 1))
            await asyncio.sleep(0)
            transport.send_bookmarks()
            told = await events(eager, 1)
            await ask(transport, "POST", path, {"metadata": {"name": "a"}})
            return told + await seen

    assert run(steps) == [("BOOKMARK", ""), ("ADDED", "a")]


def test_a_stream_ends_after_its_time(transport: LocalTransport) -> None:
    async def steps() -> list[bytes]:
        loop = asyncio.get_running_loop()
        async with transport.stream(f"{NAMESPACED}/pods", params={"timeoutSeconds": "5"}) as chunks:
            rest = asyncio.create_task(_all(chunks))
            await asyncio.sleep(0)
            clock = loop.time
            loop.time = lambda: clock() + 5  # type: ignore[method-assign]
            return await rest

    assert run(steps) == []


def test_a_stream_from_a_forgotten_version_says_so_and_ends(transport: LocalTransport, store: Store) -> None:
    async def steps() -> list[Any]:
        await ask(transport, "POST", f"{NAMESPACED}/configmaps", {"metadata": {"name": "a"}})
        store.compact()
        async with transport.stream(f"{NAMESPACED}/configmaps", params={"resourceVersion": "1"}) as chunks:
            return [json.loads(chunk) async for chunk in chunks]

    (event,) = run(steps)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize("how", ["close", "restore"])
def test_streams_end_with_the_server(transport: LocalTransport, store: Store, how: str) -> None:
    async def steps() -> list[bytes]:
        async with transport.stream(f"{NAMESPACED}/pods", params={}) as chunks:
            rest = asyncio.create_task(_all(chunks))
            await asyncio.sleep(0)
            if how == "close":
                await transport.close()
            else:
                store.restore(store.snapshot())
            return await rest

    assert run(steps) == []


async def _all(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        (f"{NAMESPACED}/pods", {"labelSelector": "a b"}, 400),
        (f"{NAMESPACED}/pods", {"timeoutSeconds": "x"}, 400),
        (f"{NAMESPACED}/pods/a", {}, 405),
        ("/api/v1/frobs", {}, 404),
    ],
    ids=["selector", "time", "one object", "nowhere"],
)
def test_a_stream_that_is_refused_does_not_begin(
    transport: LocalTransport, path: str, params: dict[str, str], code: int
) -> None:
    async def steps() -> int:
        with pytest.raises(ApiError) as refused:
            async with transport.stream(path, params=params):
                pass
        return refused.value.code

    assert run(steps) == code


def test_a_closed_transport_gives_no_answer(transport: LocalTransport) -> None:
    async def steps() -> None:
        await transport.close()
        await transport.close()
        with pytest.raises(TransportError, match="closed"):
            await transport.request("GET", "/api/v1/pods")
        with pytest.raises(TransportError, match="closed"):
            async with transport.stream("/api/v1/pods", params={}):
                pass

    run(steps)


# ---- our client


def test_our_client_finds_a_server(transport: LocalTransport, store: Store) -> None:
    async def steps() -> tuple[list[str], str, str]:
        client = Client(transport)
        await client.create(PODS, "default", POD)
        listing = await client.list(PODS, type=Pod)
        seen = []
        watch = client.watch(PODS, resource_version=listing.resource_version, type=Pod)
        async with contextlib.aclosing(watch):
            await client.bind("default", "a", "node")
            await client.delete(PODS, "default", "a", grace_seconds=0)
            async for event in watch:
                seen.append(f"{event.type} {event.object.spec.node_name}")
                if event.type == "DELETED":
                    break
        return seen, listing.items[0].metadata.name, listing.items[0].status.phase

    assert run(steps) == (["MODIFIED node", "MODIFIED node", "DELETED node"], "a", "Pending")


def test_our_client_hears_of_a_forgotten_version(transport: LocalTransport, store: Store) -> None:
    async def steps() -> None:
        client = Client(transport)
        await client.create(PODS, "default", POD)
        store.compact()
        async with contextlib.aclosing(client.watch(PODS, resource_version="1", type=Pod)) as watch:
            with pytest.raises(Gone):
                await anext(watch)

    run(steps)
