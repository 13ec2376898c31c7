"""A guarded client asks before each try of a write: a lease can be lost while a call waits for the next."""

import asyncio

import pytest

from bireme.kube.errors import NotAllowedError
from bireme.kube.resources import PODS
from unit.kube.scripted import InstantClock, ScriptedTransport, calm_client, status

BODY = {"metadata": {"name": "a"}}


class Lease:
    """Held for so many questions."""

    def __init__(self, times: int) -> None:
        self.times = times

    def is_held(self) -> bool:
        self.times -= 1
        return self.times >= 0


def test_a_write_is_not_tried_again_after_the_lease_is_lost() -> None:
    transport = ScriptedTransport()
    client = calm_client(transport, InstantClock())
    transport.answer(429, status(429), {"Retry-After": "20"})
    guarded = client.guarded(Lease(1).is_held)
    with pytest.raises(NotAllowedError, match="no longer allowed to write"):
        asyncio.run(guarded.create(PODS, "default", BODY))
    assert len(transport.sent) == 1
    assert client.statistics() == {("create", "pods", "429"): 1}, "both count together"


def test_reading_is_always_allowed() -> None:
    transport = ScriptedTransport()
    transport.answer(200, BODY)
    client = calm_client(transport, InstantClock()).guarded(lambda: False)
    assert asyncio.run(client.get(PODS, "default", "a")) == BODY


def test_the_client_that_a_guarded_one_was_made_from_stays_free() -> None:
    transport = ScriptedTransport()
    transport.answer(201, BODY)
    client = calm_client(transport, InstantClock())
    client.guarded(lambda: False)
    assert asyncio.run(client.create(PODS, "default", BODY)) == BODY
