"""Writers that remember what was acknowledged, and a watcher that remembers what it was told.

ledger = Ledger(seed)
await ledger.run(address)     # until the server is gone
ledger.check(await everything(address))
"""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from support.wire import Address, Answer, HungUpError, Wire

Object = dict[str, Any]
SPACE = "load"
WRITERS = 4
_NAMES = 6
_PODS = f"/api/v1/namespaces/{SPACE}/pods"
_MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
_LAST = "last"
_PATIENCE_SECONDS = 90
_MERGE = {"Content-Type": "application/merge-patch+json"}


class State(NamedTuple):
    """What an object is at one moment; None of everything is that there is none."""

    uid: str | None = None
    version: int = 0
    content: str = ""


GONE = State()


class Ledger:
    """What clients know of the objects that they write, each its own."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.known: dict[str, State] = {}
        """By path: what was acknowledged last."""
        self.possible: dict[str, list[Object | None]] = defaultdict(list)
        """By path: what was asked for last, and not acknowledged; None is to be gone."""
        self.seen: dict[int, tuple[str, str]] = {}
        """By version: the object, and how it was then."""
        self.acknowledged = 0

    async def write(self, address: Address) -> None:
        """Write with several clients until the server is gone."""
        seeds = [self._random.random() for _ in range(WRITERS)]
        writers = [Writer(self, number, seed) for number, seed in enumerate(seeds)]
        await asyncio.gather(*(writer.run(address) for writer in writers))

    def acknowledge(self, path: str, obj: Object | None) -> None:
        self.acknowledged += 1
        self.possible.pop(path, None)
        self.known[path] = GONE if obj is None else state(obj)
        if obj is not None:
            self.see(path, obj)

    def see(self, path: str, obj: Object) -> None:
        """One version is one state of one object, for ever."""
        version, content = int(obj["metadata"]["resourceVersion"]), canonical(obj)
        assert self.seen.setdefault(version, (path, content)) == (path, content), (
            f"version {version} is used twice"
        )

    def check(self, found: dict[str, Object]) -> None:
        """Hold what the server has against what it has acknowledged; it is what is known from now on."""
        for path in {*self.known, *found, *self.possible}:
            obj = found.get(path)
            now = GONE if obj is None else state(obj)
            if now != self.known.get(path, GONE):
                assert path in self.possible, (
                    f"{path}: {self.known.get(path)} became {now}, and nobody asked for it"
                )
                assert any(_fits(asked, obj) for asked in self.possible[path]), (
                    f"{path} is half written: {obj}"
                )
            if obj is not None:
                self.see(path, obj)
            self.known[path] = now
        self.possible.clear()


def _fits(asked: Object | None, obj: Object | None) -> bool:
    """Whether an object is as one was asked to be, as a whole."""
    if asked is None or obj is None:
        return asked is None and obj is None
    return all(obj.get(part) == asked[part] for part in asked)


class Writer:
    """One client on one connection, with objects of its own."""

    def __init__(self, ledger: Ledger, number: int, seed: float) -> None:
        self._ledger, self._random = ledger, Random(seed)
        self._maps = [f"{_MAPS}/w{number}-{index}" for index in range(_NAMES)]
        self._pods = [f"{_PODS}/w{number}-{index}" for index in range(_NAMES)]

    async def run(self, address: Address) -> None:
        with contextlib.suppress(HungUpError):
            async with await Wire.open(address) as wire:
                while True:
                    await self._step(wire)

    async def _step(self, wire: Wire) -> None:
        step = self._random.choice([self._map, self._map, self._map, self._pod, self._pod, self._collection])
        await step(wire)

    async def _map(self, wire: Wire) -> None:
        path = self._random.choice(self._maps)
        data = {"a": self._text(), "b": "x" * self._random.choice([1, 100, 20_000])}
        data["c"] = data["a"]
        if self._ledger.known.get(path, GONE) == GONE:
            await self._create(wire, path, {"data": data})
        elif self._random.random() < 0.3:
            await self._delete(wire, path)
        else:
            await self._patch(wire, path, path, {"data": data})

    async def _pod(self, wire: Wire) -> None:
        path = self._random.choice(self._pods)
        if self._ledger.known.get(path, GONE) == GONE:
            await self._create(
                wire, path, {"spec": {"containers": [{"name": "c", "image": "x"}]}}, compared=()
            )
        elif self._random.random() < 0.3:
            await self._delete(wire, f"{path}?gracePeriodSeconds=0", path)
        else:
            status = {"phase": "Running", "message": self._text()}
            await self._patch(wire, f"{path}/status", path, {"status": status}, compared=())

    async def _collection(self, wire: Wire) -> None:
        """Make some objects, and delete them in one request."""
        batch = f"batch-{self._text()}"
        paths = [f"{_MAPS}/{batch}-{index}" for index in range(5)]
        for path in paths:
            await self._create(wire, path, {"data": {"a": "1"}}, labels={"batch": batch})
        for path in paths:
            self._ledger.possible[path].append(None)
        selector = f"labelSelector=batch%3D{batch}"
        answer = await wire.ask("DELETE", f"{_MAPS}?{selector}")
        assert answer.code == 200, answer
        for path in paths:
            self._ledger.acknowledge(path, None)

    async def _create(
        self,
        wire: Wire,
        path: str,
        content: Object,
        *,
        labels: Object | None = None,
        compared: tuple[str, ...] = ("data",),
    ) -> None:
        collection, _, name = path.rpartition("/")
        self._ledger.possible[path].append({part: content[part] for part in compared})
        metadata = {"name": name} | ({"labels": labels} if labels else {})
        self._acknowledge(path, await wire.ask("POST", collection, {"metadata": metadata, **content}))

    async def _patch(
        self, wire: Wire, target: str, path: str, content: Object, *, compared: tuple[str, ...] = ("data",)
    ) -> None:
        self._ledger.possible[path].append({part: content[part] for part in compared})
        self._acknowledge(path, await wire.ask("PATCH", target, content, _MERGE))

    async def _delete(self, wire: Wire, target: str, path: str = "") -> None:
        self._ledger.possible[path or target].append(None)
        answer = await wire.ask("DELETE", target)
        assert answer.code == 200, answer
        self._ledger.acknowledge(path or target, None)

    def _acknowledge(self, path: str, answer: Answer) -> None:
        assert answer.code in (200, 201), answer
        self._ledger.acknowledge(path, answer.json())

    def _text(self) -> str:
        return f"{self._random.randrange(1 << 40):x}"


class Follower:
    """One who watches ConfigMaps, and goes on from where it was after a restart."""

    def __init__(self, version: str) -> None:
        self._version = version
        self.objects: dict[str, int] = {}
        """What is there by what it was told: names with their versions."""
        self.told: list[int] = []
        self.expired = False

    async def follow(self, address: Address, *, up_to: str = "") -> None:
        """Take in events until the server is gone, or tells that the object `up_to` is deleted."""
        path = f"{_MAPS}?watch=true&resourceVersion={self._version}&timeoutSeconds=3600"
        with contextlib.suppress(HungUpError):
            async with await Wire.open(address) as wire:
                await wire.send(wire.request("GET", path))
                head = await wire.receive_head()
                assert head.code == 200, head
                async for line in wire.lines():
                    event = json.loads(line)
                    self._take(event)
                    if up_to and (event["type"], event["object"]["metadata"].get("name")) == (
                        "DELETED",
                        up_to,
                    ):
                        return

    async def catch_up(self, address: Address) -> None:
        """Take in all that has happened, up to the end of an object that is made and deleted now."""
        async with await Wire.open(address) as wire:
            made = await wire.ask("POST", _MAPS, {"metadata": {"name": _LAST}})
            gone = await wire.ask("DELETE", f"{_MAPS}/{_LAST}")
            assert (made.code, gone.code) == (201, 200), (made, gone)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self.follow(address, up_to=_LAST)

    def _take(self, event: Object) -> None:
        if event["type"] == "ERROR":
            assert event["object"]["code"] == 410, event
            self.expired = True
            return
        metadata = event["object"]["metadata"]
        version, name = int(metadata["resourceVersion"]), metadata["name"]
        assert not self.told or version > self.told[-1], f"version {version} was told twice, or late"
        assert (event["type"] == "ADDED") == (name not in self.objects), (
            f"{event['type']} of {name} came out of turn"
        )
        self.told.append(version)
        self._version = str(version)
        if event["type"] == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = version


def state(obj: Object) -> State:
    metadata = obj["metadata"]
    return State(metadata["uid"], int(metadata["resourceVersion"]), canonical(obj))


def canonical(obj: Object) -> str:
    """As it is compared: lists leave out what kind an object is."""
    return json.dumps(
        {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}, sort_keys=True
    )


async def everything(address: Address) -> dict[str, Object]:
    """All that the server has of what is written here, by path."""
    async with await Wire.open(address) as wire:
        return {
            f"{collection}/{item['metadata']['name']}": item
            for collection in (_MAPS, _PODS)
            for item in (await wire.ask("GET", collection)).json()["items"]
        }


async def prepare(address: Address) -> str:
    """Make the namespace; return the version from which on a watch sees everything."""
    async with await Wire.open(address) as wire:
        created = await wire.ask("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        assert created.code == 201, created
        listed = await wire.ask("GET", _MAPS)
    version: str = listed.json()["metadata"]["resourceVersion"]
    return version


def moments(random: Random, count: int) -> Iterator[float]:
    """For how many seconds the server is let live, each time: often hardly at all."""
    return (random.choice([0.02, 0.1, 0.3, 0.8]) * random.random() for _ in range(count))
