"""Events are counted up rather than repeated."""

import asyncio
from datetime import UTC, datetime, timedelta

from bireme.apiserver.kinds import EVENT, NAMESPACE
from bireme.apiserver.local import LocalTransport
from bireme.apiserver.store import Store
from bireme.control.events import EventRecorder
from bireme.kube.client import Client
from bireme.planning.actions import EmitEvent
from bireme.testing.builders import generic_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT_SAID = EmitEvent("Warning", "QuotaExceeded", "no room")


def test_the_same_thing_said_again_is_counted_and_later_said_anew() -> None:
    async def main() -> None:
        store = Store()
        store.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
        transport = LocalTransport(store, lambda: NOW)
        recorder = EventRecorder(Client(transport))
        for minutes in (0, 1, 2, 30):
            await recorder.record(generic_job(), EVENT_SAID, NOW + timedelta(minutes=minutes))
        await recorder.record(generic_job(), EmitEvent("Normal", "Running", "all"), NOW)
        counts = sorted((event["reason"], event["count"]) for event in store.all(EVENT))
        assert counts == [("QuotaExceeded", 1), ("QuotaExceeded", 3), ("Running", 1)]
        assert recorder.failures == 0
        await transport.close()

    asyncio.run(main())


def test_an_event_that_can_not_be_written_is_no_failure() -> None:
    async def main() -> None:
        transport = LocalTransport(Store(), lambda: NOW)
        recorder = EventRecorder(Client(transport))
        await recorder.record(generic_job(), EVENT_SAID, NOW)
        assert recorder.failures == 1
        await transport.close()

    asyncio.run(main())
