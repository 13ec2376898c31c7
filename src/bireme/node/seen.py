"""What the node agent sees of a pod, and what it remembers of its own dealings with it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

Object = dict[str, Any]
"""A pod, or a part of one, as plain data. It is shared: it is read, never changed."""


class ContainerSeen(msgspec.Struct, frozen=True):
    """The last attempt at a container, as a shim has it on record."""

    attempt: int
    started: datetime
    finished: datetime | None = None
    code: int = 0
    oom: bool = False
    error: str = ""
    """Why the program could not be run; such an attempt ends by itself with 126 or 127."""
    message: str = ""
    """The termination message of an attempt that has ended."""


class Hook(msgspec.Struct, frozen=True):
    """A lifecycle hook that was begun. `error` is empty where it went well."""

    begun: datetime
    finished: datetime | None = None
    error: str = ""

    @property
    def runs(self) -> bool:
        return self.finished is None


class History(msgspec.Struct, frozen=True):
    """What one probe has shown: the last result, how often in a row, and the verdict they led to."""

    begun: datetime | None = None
    runs: bool = False
    last: bool | None = None
    in_a_row: int = 0
    verdict: bool | None = None


class Dealings(msgspec.Struct, frozen=True):
    """What the agent has done with an attempt at a container.

    Kept in memory only: after a crash of the agent it is empty, and what was not finished begins again.
    """

    attempt: int = 0
    in_a_row: int = 0
    signalled: datetime | None = None
    killed: datetime | None = None
    post_start: Hook | None = None
    pre_stop: Hook | None = None
    startup: History = History()
    readiness: History = History()
    liveness: History = History()


class Problem(msgspec.Struct, frozen=True):
    """Why a container can't be started just now, or, without a name, the whole pod.

    A fatal one ends the pod: it can never run here.
    """

    reason: str
    message: str
    container: str = ""
    fatal: bool = False


class Seen(msgspec.Struct, frozen=True):
    """A pod's processes.

    `shim` is `lost` when it was killed, or the machine started anew: what had not ended on its record has
    ended nobody knows how; `rebooted` tells the one from the other. `stopping` is what the last step returned
    under that name. `problems` are those of this moment.
    """

    containers: Mapping[str, ContainerSeen] = {}
    dealings: Mapping[str, Dealings] = {}
    shim: Literal["absent", "alive", "lost"] = "absent"
    problems: tuple[Problem, ...] = ()
    stopping: datetime | None = None
    host_ips: tuple[str, ...] = ()
    pod_ips: tuple[str, ...] = ()
    rebooted: bool = False
    notices: tuple[str, ...] = ()
    """What is not as the pod's manifest says, because this machine lacks it."""
    output_cut: str = ""
    """Why output of a container is missing; empty if none is."""


def read_record(record: Mapping[str, Any], message: str = "") -> ContainerSeen:
    """A container from a shim's `state["containers"]`."""
    finished = record.get("finished")
    return ContainerSeen(
        attempt=record["attempt"],
        started=datetime.fromtimestamp(record["started"], UTC),
        finished=None if finished is None else datetime.fromtimestamp(finished, UTC),
        code=record.get("code", 0),
        oom=record.get("oom", False),
        error=record.get("error", ""),
        message=message,
    )
