"""A replica that is told to end goes on serving webhooks, but is not ready, until it has drained."""

import asyncio
import ssl
from pathlib import Path

import aiohttp

from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import make_authority
from bireme.kube.clock import utc_now
from bireme.run.webhooks import Options, Webhooks
from support.jobs import generic
from support.ports import free_port
from unit.control.test_webhook_server import review
from unit.kube.scripted import FakeClock, ScriptedTransport, calm_client

DRAIN_SECONDS = 10.0
AUTHORITY = make_authority(utc_now())


def test_webhooks_are_served_until_they_have_drained(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificates)
    (tmp_path / "ca.key").write_bytes(AUTHORITY.key)

    async def main() -> None:
        clock, transport, port = FakeClock(), ScriptedTransport(), free_port()
        options = Options(
            tmp_path, host="127.0.0.1", port=port, names=("127.0.0.1",), drain_seconds=DRAIN_SECONDS
        )
        webhooks = Webhooks(calm_client(transport, clock), options, Metrics())
        task = asyncio.create_task(webhooks.run())
        while webhooks.not_ready():
            await asyncio.sleep(0)
        trust = ssl.create_default_context(cadata=AUTHORITY.certificates.decode())
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
