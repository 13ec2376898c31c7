"""A replica that is told to end goes on serving webhooks, but is not ready, until it has drained."""

import asyncio
import base64
import ssl
from typing import Any

import aiohttp

from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import Certificates, renewed
from bireme.kube.clock import utc_now
from bireme.run.webhooks import WebhookOptions, Webhooks
from support.jobs import generic
from support.ports import free_port
from unit.control.test_webhook_server import review
from unit.kube.scripted import FakeClock, ScriptedTransport, calm_client

DRAIN_SECONDS = 10.0
MADE = renewed(Certificates(), ("127.0.0.1",), utc_now(), published=False)


def secret() -> dict[str, Any]:
    files = {"ca.crt": MADE.authorities, "tls.crt": MADE.certificate, "tls.key": MADE.key}
    data = {name: base64.b64encode(value).decode() for name, value in files.items()}
    return {"kind": "Secret", "metadata": {"name": "bireme-webhooks"}, "data": data}


def test_webhooks_are_served_until_they_have_drained() -> None:
    async def main() -> None:
        clock, transport, port = FakeClock(), ScriptedTransport(), free_port()
        transport.answer(body=secret())
        transport.answer(body={"status": {"userInfo": {"username": "controller"}}})
        options = WebhookOptions("127.0.0.1", port, own_certificates=False, drain_seconds=DRAIN_SECONDS)
        webhooks = Webhooks(calm_client(transport, clock), "bireme-system", options, Metrics())
        task = asyncio.create_task(webhooks.run())
        while webhooks.not_ready():
            await asyncio.sleep(0)
        trust = ssl.create_default_context(cadata=MADE.authorities.decode())
        url = f"https://127.0.0.1:{port}/validate"

        async def connection_after_answer() -> str | None:
            async with session.post(url, data=review(generic())) as reply:
                assert (await reply.json())["response"]["allowed"]
                return reply.headers.get("Connection")

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            assert await connection_after_answer() is None
            task.cancel()
            await clock.advance(DRAIN_SECONDS - 0.1)
            assert webhooks.not_ready() == ["webhooks: this replica ends"]
            for _ in range(5):
                assert await connection_after_answer() == "close"
            assert not task.done()
            await clock.advance(0.2)
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())
