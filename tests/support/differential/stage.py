"""Plays on two servers: sends each call to both, compares, and finds the shortest play that still differs."""

import difflib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from support.differential.calls import SETTLE, WATCH, Call, Memory, Object
from support.differential.known import KNOWN
from support.differential.servers import Reply, Server
from support.differential.views import Eye

SETTLE_SECONDS = 90
PAUSE_SECONDS = 0.1
QUIET_ROUNDS = 4
SHOWN_LINES = 60


class Difference(NamedTuple):
    call: Call
    real: Object
    ours: Object

    def __str__(self) -> str:
        real, ours = (
            json.dumps(each, indent=1, sort_keys=True).split("\n") for each in (self.real, self.ours)
        )
        lines = difflib.unified_diff(real, ours, "real", "ours", lineterm="", n=2)
        return "\n".join(line[:300] for line in itertools.islice(lines, SHOWN_LINES))


class Side:
    """One server during one play."""

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._memory, self._eye = Memory(number), Eye()
        start = server.send(Call("GET", "/api/v1/namespaces"))
        self._memory.start = start.body["metadata"]["resourceVersion"]

    def rest(self, call: Call) -> Object:
        """The present state of what a SETTLE names."""
        views = [self.take(call._replace(path=path)) for path in call.path.split(",")]
        return {"code": [each["code"] for each in views], "warnings": [], "body": {"seen": views}}

    def take(self, call: Call) -> Object:
        filled = self._memory.fill(call)
        reply = self._send(filled)
        if (
            filled.accept == Call._field_defaults["accept"]
            and call.method != WATCH
            and "dryRun" not in call.params
        ):
            self._memory.remember(reply.body)
        return self._eye.view(filled, reply)

    def _send(self, call: Call) -> Reply:
        if call.method == WATCH:
            return self._server.watch(call)
        return self._server.send(call._replace(method="GET") if call.method == SETTLE else call)


class Stage:
    """Where plays are played; counts what agreed, and which known differences have shown."""

    def __init__(self, real: Server, ours: Server, first: int = 1) -> None:
        self._servers = (real, ours)
        self._numbers = itertools.count(first)
        self.agreed = 0
        self.known: Counter[str] = Counter()

    def play(self, calls: Sequence[Call]) -> Difference | None:
        """Play until the first difference."""
        number = next(self._numbers)
        real, ours = (Side(server, number) for server in self._servers)
        for call in calls:
            pair = _settled(real, ours, call) if call.method == SETTLE else (real.take(call), ours.take(call))
            if call.setup:
                continue
            if pair[0] != pair[1] and not self._is_known(call, *pair):
                return Difference(call, *pair)
            self.agreed += 1
        return None

    def _is_known(self, call: Call, real: Object, ours: Object) -> bool:
        """Whether the answers are alike but for known differences."""
        shown = []
        for each in KNOWN:
            if each.concerns(call, real, ours):
                levelled = each.level(real), each.level(ours)
                if levelled != (real, ours):
                    shown.append(each.name)
                real, ours = levelled
        if real == ours:
            self.known.update(shown)
        return real == ours

    def shorten(self, calls: Sequence[Call]) -> tuple[list[Call], Difference] | None:
        """A shorter play that still differs, made by leaving out one call after the other.

        None if it does not differ again.
        """
        found = self.play(calls)
        if found is None:
            return None
        rest = list(calls[: calls.index(found.call) + 1])
        for index in reversed(range(len(rest) - 1)):
            shorter = rest[:index] + rest[index + 1 :]
            if not _is_needed(rest, rest[index]) and (again := self.play(shorter)) is not None:
                rest, found = shorter, again
        return rest, found


def _is_needed(calls: Sequence[Call], call: Call) -> bool:
    """Whether the rest means nothing without a call: owners must be there, and at rest."""
    settles = any(each.method == SETTLE for each in calls)
    return call.setup or (settles and call.method in (SETTLE, "POST"))


def _settled(real: Side, ours: Side, call: Call) -> tuple[Object, Object]:
    """The state of both when they are alike and quiet, or when it has taken too long."""
    deadline = time.monotonic() + SETTLE_SECONDS
    quiet = 0
    while True:
        pair = real.rest(call), ours.rest(call)
        quiet = quiet + 1 if pair[0] == pair[1] or _is_level(call, *pair) else 0
        if quiet == QUIET_ROUNDS or time.monotonic() > deadline:
            return pair
        time.sleep(PAUSE_SECONDS)


def _is_level(call: Call, real: Object, ours: Object) -> bool:
    for each in KNOWN:
        if each.concerns(call, real, ours):
            real, ours = each.level(real), each.level(ours)
    return real == ours


def described(theme: str, seed: int, calls: Sequence[Call], difference: Difference) -> str:
    return "\n".join(_described(theme, seed, calls, difference))


def _described(theme: str, seed: int, calls: Sequence[Call], difference: Difference) -> Iterator[str]:
    yield f"theme {theme}, seed {seed}; the shortest play that differs:"
    yield from (f"  {call}" for call in calls)
    yield f"the last one is answered differently (- is the real server, + is ours):\n{difference}"
