"""Whether a process waits as it should before it makes a call again."""

from collections.abc import Callable
from typing import Final

from bireme.testing.simulation.network import Call

_LONGEST_ASKED_SECONDS: Final = 30.0
"""A server that asks for more gets this much."""
_PATIENCE_SECONDS: Final = 10.0
_MOST_REFUSALS: Final = 25
"""In that time; changes of pods may well be reason enough for a few."""

Key = tuple[str, ...]


class Patience:
    """Remembers what each life of a process was refused; its methods return what is wrong, or nothing."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._refused: dict[Key, list[float]] = {}
        self._asked: dict[tuple[Key, bytes], float] = {}
        """When a call may be made again that was put off."""

    def sent(self, call: Call) -> str:
        """Whoever is told to come back later does."""
        early = self._asked.get((_key(call), call.request.body), 0.0) - self._time()
        return f"{call} is sent {early:g} s too early" if early > 0 else ""

    def told(self, call: Call, code: int) -> None:
        """Take note of an answer."""
        if code == 429 and call.fault is not None:
            asked = min(int(call.fault.seconds), _LONGEST_ASKED_SECONDS)
            self._asked[_key(call), call.request.body] = self._time() + asked

    def refused(self, call: Call, code: int) -> str:
        """Whoever is refused waits longer each time, however little else there is to do."""
        key, now = _key(call), self._time()
        recent = [time for time in self._refused.get(key, ()) if time > now - _PATIENCE_SECONDS]
        self._refused[key] = [*recent, now]
        if len(recent) != _MOST_REFUSALS:
            return ""
        return f"{call} was answered with {code} {len(recent)} times in {_PATIENCE_SECONDS:g} s"


def _key(call: Call) -> Key:
    return call.identity, call.request.method, call.request.path
