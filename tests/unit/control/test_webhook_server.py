"""Webhooks over HTTPS: answers, refusals to answer, and a quick end."""

import asyncio
import contextlib
import gc
import io
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bireme.control.metrics import Metrics
from bireme.control.webhooks.bodies import BodyBudget
from bireme.control.webhooks.certificates import Leaf, make_authority, renew_leaf
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.reviews import LARGEST_OBJECT
from bireme.control.webhooks.server import WebhookServer
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from support.jobs import generic
from support.ports import free_port
from unit.kube.scripted import ScriptedTransport


@contextlib.asynccontextmanager
async def served(
    folder: Path, metrics: Metrics, **options: Any
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    authority = make_authority(utc_now())
    leaf = renew_leaf(Leaf(), authority, ("127.0.0.1",), utc_now())
    (folder / "crt").write_bytes(leaf.certificate)
    (folder / "key").write_bytes(leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    trust = ssl.create_default_context(cadata=authority.certificates.decode())
    port = free_port()
    server = WebhookServer(QueueAccess(Client(ScriptedTransport()), "controller", "home"), metrics, **options)
    await server.start(context, "127.0.0.1", port)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield session, f"https://127.0.0.1:{port}"
        # The connection is still open, as that of an API server is.
        await server.stop()


def review(obj: dict[str, Any], user: str = "ann") -> bytes:
    request = {"uid": "1", "operation": "CREATE", "object": obj, "userInfo": {"username": user}}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def nested(obj: dict[str, Any]) -> bytes:
    """A review of an object that is nested as deeply as an API server takes it."""
    levels = 2000
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    return review(obj | {"spec": "HERE"}).replace(b'"HERE"', deep)


def crowded(element: bytes) -> bytes:
    """A review of an object within its size, with as many elements as there can be."""
    elements = (element * (3_000_000 // len(element))).rstrip(b",")
    return review(generic() | {"spec": "HERE"}).replace(b'"HERE"', b"[" + elements + b"]")


def large(size: int) -> bytes:
    job = generic()
    job["spec"]["replicaSpecs"][0]["template"]["metadata"] = {"annotations": {"a": "x" * size}}
    return review(job)


@pytest.mark.parametrize(
    ("path", "body", "status", "result"),
    [
        ("/validate", review(generic()), 200, "allowed"),
        ("/validate", review(generic(successRules=[{}])), 200, "refused"),
        ("/default", review(generic()), 200, "allowed"),
        ("/queue", review(generic()), 200, "allowed"),
        ("/validate", b"junk", 400, "malformed"),
        ("/validate", nested(generic()), 200, "refused"),
        ("/default", nested(generic()), 200, "refused"),
        ("/queue", nested(generic()), 200, "refused"),
        (
            "/validate",
            nested(generic() | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            200,
            "allowed",
        ),
        ("/validate", b'{"request":' * 2000 + b"1" + b"}" * 2000, 400, "malformed"),
        ("/validate", crowded(b"[],"), 200, "refused"),
        ("/queue", crowded(b'{"":0},'), 200, "refused"),
        ("/validate", large(LARGEST_OBJECT), 200, "refused"),
        ("/validate", large(2 * LARGEST_OBJECT + 300_000), 413, "malformed"),
        ("/queue", review({"metadata": "x", "spec": [1]}), 500, "error"),
    ],
    ids=[
        "right",
        "wrong",
        "default",
        "no-queue",
        "junk",
        "deep",
        "deep-default",
        "deep-queue",
        "deep-leaves",
        "deep-junk",
        "many-lists",
        "many-objects",
        "large",
        "larger-than-any-review",
        "no-object-of-an-api-server",
    ],
)
def test_a_review_is_answered_and_counted(
    tmp_path: Path, path: str, body: bytes, status: int, result: str
) -> None:
    metrics = Metrics()

    async def main() -> None:
        async with (
            served(tmp_path, metrics) as (session, url),
            session.post(url + path, data=io.BytesIO(body)) as reply,
        ):
            assert reply.status == status
            if status == 200:
                response = (await reply.json())["response"]
                assert (response["uid"], response["allowed"]) == ("1", result == "allowed")

    asyncio.run(main())
    # A connection that was left open would be told of now.
    gc.collect()
    name = path.strip("/")
    assert (
        f'bireme_webhook_reviews_total{{result="{result}",webhook="{name}"}} 1.0' in metrics.text().decode()
    )


def test_bytes_in_flight_are_bounded_and_given_back(tmp_path: Path) -> None:
    """A body that waits takes all bytes; the next is told to come again, and is served once they are free."""
    first, second = review(generic("a" * 40)), review(generic())

    async def main() -> None:
        budget = BodyBudget(most=len(first) + len(second) - 2)
        async with served(tmp_path, Metrics(), bodies=budget) as (session, url):
            going_on = asyncio.Event()

            async def slowly() -> AsyncIterator[bytes]:
                yield first[:-1]
                await going_on.wait()
                yield first[-1:]

            async def send() -> int:
                async with session.post(url + "/validate", data=slowly()) as reply:
                    return reply.status

            waiting = asyncio.create_task(send())
            while budget.in_flight < len(first) - 1:
                await asyncio.sleep(0)
            async with session.post(url + "/validate", data=second) as reply:
                assert reply.status == 503
                assert reply.headers["Retry-After"] == "1"
            going_on.set()
            assert await waiting == 200
            async with session.post(url + "/validate", data=second) as reply:
                assert reply.status == 200

    asyncio.run(main())


def test_reviews_beyond_the_waiting_ones_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served(tmp_path, Metrics(), most_waiting=0) as (session, url),
            session.post(url + "/validate", data=b"not even a review") as reply,
        ):
            assert reply.status == 503

    asyncio.run(main())


def test_broken_body_is_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with served(tmp_path, Metrics()) as (session, url):
            seen = asyncio.Event()

            async def endless() -> AsyncIterator[bytes]:
                yield b"x"
                seen.set()
                await asyncio.Event().wait()

            sending = asyncio.create_task(session.post(url + "/validate", data=endless()).__aenter__())
            await seen.wait()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            while not caplog.records:
                await asyncio.sleep(0)

    asyncio.run(main())
    (record,) = caplog.records
    assert record.getMessage().startswith("the body of a review broke off: ")
    assert record.exc_info is None
