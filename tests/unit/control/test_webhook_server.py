"""Webhooks over HTTPS: answers, refusals to answer, and a quick end."""

import asyncio
import contextlib
import gc
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import Certificates, renewed
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import build_app, serve, stop
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from support.jobs import generic
from support.ports import free_port
from unit.kube.scripted import ScriptedTransport


@contextlib.asynccontextmanager
async def served(folder: Path, metrics: Metrics) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    made = renewed(Certificates(), ("127.0.0.1",), utc_now(), published=False)
    (folder / "crt").write_bytes(made.certificate)
    (folder / "key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    trust = ssl.create_default_context(cadata=made.authorities.decode())
    port = free_port()
    app = build_app(QueueAccess(Client(ScriptedTransport()), "controller"), metrics)
    runner = await serve(app, context, "127.0.0.1", port)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        yield session, f"https://127.0.0.1:{port}"
        # The connection is still open, as that of an API server is.
        await stop(runner)


def review(obj: dict[str, Any], user: str = "ann") -> bytes:
    request = {"uid": "1", "operation": "CREATE", "object": obj, "userInfo": {"username": user}}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def nested(obj: dict[str, Any]) -> bytes:
    """A review of an object that is nested as deeply as an API server takes it."""
    levels = 2000
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    return review(obj | {"spec": "HERE"}).replace(b'"HERE"', deep)


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
    ],
)
def test_a_review_is_answered_and_counted(
    tmp_path: Path, path: str, body: bytes, status: int, result: str
) -> None:
    metrics = Metrics()

    async def main() -> None:
        async with (
            served(tmp_path, metrics) as (session, url),
            session.post(url + path, data=body) as reply,
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
