"""What has happened in a run, in order: for people to read, and to compare two runs by."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bireme.apiserver.rules import Object


class Entry(NamedTuple):
    """One thing that happened. `object` is told only when somebody reads it."""

    time: float
    who: str
    what: str
    object: Object | None = None


class Trace:
    """The entries of one run."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.entries: list[Entry] = []

    def add(self, who: str, what: str, obj: Object | None = None) -> None:
        self.entries.append(Entry(self._now(), who, what, obj))

    def lines(self) -> Iterator[str]:
        """The timeline: seconds since the start, who, and what."""
        for time, who, what, obj in self.entries:
            told = f"  {tell(obj)}" if obj is not None else ""
            yield f"{time:10.3f}  {who:<12} {what}{told}"

    def digest(self) -> str:
        """Equal for equal runs."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()


def tell(obj: Object) -> str:
    """What matters of an object, in a few words."""
    metadata, status, spec = obj["metadata"], obj.get("status") or {}, obj.get("spec") or {}
    words = [f"v{metadata['resourceVersion']}"]
    if "deletionTimestamp" in metadata:
        words.append("terminating")
    if "holderIdentity" in spec:
        words.append(f"held by {spec['holderIdentity']}")
    if status.get("phase"):
        words.append(status["phase"])
    words += [f"{c['type']}({c.get('reason', '')})" for c in status.get("conditions") or () if _is_true(c)]
    words += [_replica(record) for task in status.get("tasks") or () for record in task["replicas"]]
    words += [f"{c['name']}:{_state(c)}" for c in status.get("containerStatuses") or ()]
    if obj.get("reason"):
        words.append(f"{obj['reason']}: {obj.get('message', '')}")
    return " ".join(words)


def _is_true(condition: Object) -> bool:
    return bool(condition.get("status") == "True")


def _replica(record: Object) -> str:
    restarts = f"+{record['restarts']}" if record.get("restarts") else ""
    leaving = "/replacing" if record.get("replacing") else ""
    return f"{record['name']}={record.get('phase')}{restarts}{leaving}"


def _state(container: dict[str, Any]) -> str:
    state = container.get("state") or {}
    if "terminated" in state:
        return f"exit {state['terminated'].get('exitCode', 0)}"
    return next(iter(state), "?")
