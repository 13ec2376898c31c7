"""Many requests over several connections, and what went wrong."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from support.custom_kinds import GROUP, build_crd
from support.custom_schemas import SCHEMAS
from support.hostile.shots import Gunner, Shot, complaint
from support.hostile.targets import NAMES, NODE, SPACE, TARGETS, valid
from support.wire import Address, Answer, HungUpError, Wire

CONNECTIONS = 6
TEND_EVERY = 100
MOST_FAILURES = 20
UNFRAMED_SECONDS = 0.2
_SHOWN = 3000
_BINDING = {"metadata": {"name": "o0"}, "target": {"kind": "Node", "name": NODE}}


class Failure(NamedTuple):
    """A request that was not answered as it must be."""

    seed: int
    number: int
    raw: bytes
    complaint: str
    body: bytes

    def __str__(self) -> str:
        told = f"{self.complaint}: seed {self.seed}, request {self.number}:"
        return f"{told}\n{_shown(self.raw)}\nanswer: {_shown(self.body)}"


class Salvo:
    """Sends the requests of a seed, and keeps what went wrong, and how often each code came."""

    def __init__(self, seed: int, address: Address) -> None:
        self.failures: list[Failure] = []
        self.codes: Counter[int] = Counter()
        self._seed, self._address = seed, address
        self._gunner = Gunner(seed, address)

    async def fire(self, first: int, count: int) -> None:
        """Send so many requests, from the first number on; stops early when too much is wrong."""
        numbers = iter(range(first, first + count))
        async with asyncio.TaskGroup() as group:
            for connection in range(CONNECTIONS):
                group.create_task(self._shoot(numbers, tends=connection == 0))

    async def clear(self) -> None:
        """Remove all that was made."""
        async with await Wire.open(self._address) as wire:
            for path in _everything():
                await wire.ask("DELETE", path)

    async def _shoot(self, numbers: Iterator[int], *, tends: bool) -> None:
        try:
            wire = await Wire.open(self._address)
            for turn, number in enumerate(numbers):
                if len(self.failures) >= MOST_FAILURES:
                    break
                if tends and turn % TEND_EVERY == 0:
                    await tend(self._address)
                wire = await self._try(wire, number)
            wire.close()
        except (HungUpError, TimeoutError) as error:
            self.failures.append(Failure(self._seed, -1, b"", f"the server is gone: {error}", b""))

    async def _try(self, wire: Wire, number: int) -> Wire:
        shot = self._gunner.shot(number)
        try:
            answer = await self._exchange(wire, shot)
        except HungUpError:
            if shot.is_http:
                self._fail(number, shot, "the server hung up", b"")
        except TimeoutError:
            self._fail(number, shot, "no answer", b"")
        else:
            if answer is not None:
                self.codes[answer.code] += 1
                if found := complaint(shot, answer):
                    self._fail(number, shot, found, answer.body)
                if _can_go_on(shot, answer):
                    return wire
        wire.close()
        return await Wire.open(self._address)

    async def _exchange(self, wire: Wire, shot: Shot) -> Answer | None:
        await wire.send(shot.raw)
        if shot.hangs_up:
            return None
        if not shot.is_http:
            return await _patience(wire)
        head = await wire.receive_head()
        # A stream may go on for an hour: its head is all that is looked at.
        if head.is_chunked or shot.is_head:
            return head
        return head._replace(body=await wire.body(head))

    def _fail(self, number: int, shot: Shot, found: str, body: bytes) -> None:
        self.failures.append(Failure(self._seed, number, shot.raw, found, body))


async def _patience(wire: Wire) -> Answer | None:
    """An answer to what may be no whole request, if there is one soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UNFRAMED_SECONDS):
            return await wire.receive_head()
    return None


def _can_go_on(shot: Shot, answer: Answer) -> bool:
    is_whole = shot.is_http and not answer.is_chunked and answer.code != 101
    return is_whole and answer.headers.get("connection", "").lower() != "close"


async def tend(address: Address) -> None:
    """See to it that there is something to aim at."""
    async with await Wire.open(address) as wire:
        for path, body in _grounds():
            await wire.ask("POST", path, body)


def _grounds() -> Iterator[tuple[str, object]]:
    yield "/api/v1/namespaces", {"metadata": {"name": SPACE}}
    yield "/api/v1/nodes", {"metadata": {"name": NODE}}
    pod = {"metadata": {"name": "o0"}, "spec": {"containers": [{"name": "c0", "image": "x"}]}}
    yield f"/api/v1/namespaces/{SPACE}/pods", pod
    yield f"/api/v1/namespaces/{SPACE}/pods/o0/binding", _BINDING
    yield f"/api/v1/namespaces/{SPACE}/configmaps", {"metadata": {"name": "o0"}, "data": {"a": "b"}}
    for name, schema in SCHEMAS.items():
        yield "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", build_crd(name, schema)
    random = Random(0)
    for target in TARGETS:
        for name in NAMES:
            yield target.collection, valid(random, target, name)


def _everything() -> Iterator[str]:
    """What to delete so that nothing is left but what was there before."""
    yield "/api/v1/nodes"
    for target in TARGETS:
        if f"/{SPACE}/" in target.collection:
            yield f"{target.collection}?gracePeriodSeconds=0"
    for name in SCHEMAS:
        yield f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.{GROUP}"


def _shown(raw: bytes) -> str:
    return repr(raw) if len(raw) <= _SHOWN else f"{raw[:_SHOWN]!r}... ({len(raw)} bytes)"
