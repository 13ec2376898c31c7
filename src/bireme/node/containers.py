"""One container at a time: what its last attempt has come to, from the shim's record and the pod's status.

The status outlives shims and the agent: an end that stands there is not told differently later, and an
attempt that stands there as running, and that no shim knows, has ended nobody knows how.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal

import msgspec

from bireme.node import probes
from bireme.node.orders import HookName, ProbeName
from bireme.node.seen import ContainerSeen, Dealings, Object, Seen
from bireme.node.times import read_time, write_time

Role = Literal["init", "sidecar", "main"]
UNKNOWN_CODE: Final = 137
UNKNOWN_REASON: Final = "ContainerStatusUnknown"
NOT_FOUND: Final = "The container could not be located when the pod was terminated"
_DEADLY: Final[tuple[ProbeName, ...]] = ("livenessProbe", "startupProbe")
_LONGEST_MESSAGE: Final = 4096
_MESSAGES_OF_A_POD: Final = 12 * 1024


class Life(msgspec.Struct, frozen=True):
    """A container and its last attempt; -1 before the first.

    `ended` is the terminated state of that attempt, `previous` the one of the attempt before.
    """

    spec: Object
    role: Role
    known: Object
    attempt: int = -1
    alive: bool = False
    started: datetime | None = None
    finished: datetime | None = None
    ended: Object | None = None
    previous: Object | None = None
    error: str = ""
    dealings: Dealings = Dealings()

    @property
    def name(self) -> str:
        name: str = self.spec["name"]
        return name

    @property
    def exit_code(self) -> int:
        code: int = (self.ended or {}).get("exitCode", 0)
        return code

    @property
    def failed(self) -> bool:
        """Whether its end counts as a failure; running out of memory does, whatever the exit code."""
        return self.ended is not None and (self.exit_code != 0 or self.ended.get("reason") == "OOMKilled")

    @property
    def is_unknown(self) -> bool:
        """Whether it has ended nobody knows how."""
        return self.ended is not None and self.ended.get("reason") == UNKNOWN_REASON

    @property
    def is_reported(self) -> bool:
        """Whether the pod's status already tells of this attempt as running."""
        running = "running" in (self.known.get("state") or {})
        return running and self.known.get("restartCount") == self.attempt

    @property
    def starting(self) -> bool:
        """Alive, and not to be told of yet: its postStart hook has not done its work."""
        return self.alive and (bool(self.error) or self._hook_missing)

    @property
    def _hook_missing(self) -> bool:
        if self.handler("postStart") is None or self.is_reported:
            return False
        hook = self.dealings.post_start
        return hook is None or hook.runs or bool(hook.error)

    @property
    def runs(self) -> bool:
        return self.alive and not self.starting

    @property
    def is_started(self) -> bool:
        """Whether it runs and its startup probe, if any, has succeeded; what the status tells stays so."""
        if not self.runs:
            return False
        verdict = self.dealings.startup.verdict
        return not self.spec.get("startupProbe") or bool(
            self._told("started") if verdict is None else verdict
        )

    @property
    def is_ready(self) -> bool:
        if self.role == "init":
            return self.ended is not None and self.exit_code == 0
        verdict = self.dealings.readiness.verdict
        ready = not self.spec.get("readinessProbe") or bool(
            self._told("ready") if verdict is None else verdict
        )
        return self.is_started and ready

    def _told(self, field: str) -> bool:
        return self.is_reported and bool(self.known.get(field))

    def handler(self, hook: HookName) -> Object | None:
        handler: Object | None = (self.spec.get("lifecycle") or {}).get(hook)
        return handler


def roles(spec: Object) -> Iterator[tuple[Object, Role]]:
    """The containers of a pod's spec, in the order in which they start."""
    for container in spec.get("initContainers") or ():
        yield container, "sidecar" if container.get("restartPolicy") == "Always" else "init"
    for container in spec["containers"]:
        yield container, "main"


def container_id(pod: Object, name: str, attempt: int) -> str:
    return f"bireme://{pod['metadata']['uid']}/{name}/{attempt}"


def observe(pod: Object, seen: Seen) -> tuple[Life, ...]:
    """The containers of a pod as they are, in the order in which they start."""
    status = pod.get("status") or {}
    known = {
        each["name"]: each
        for field in ("initContainerStatuses", "containerStatuses")
        for each in status.get(field) or ()
    }
    return tuple(
        _life(pod, container, role, known.get(container["name"]) or {}, seen)
        for container, role in roles(pod["spec"])
    )


def _life(pod: Object, container: Object, role: Role, known: Object, seen: Seen) -> Life:
    reported = known.get("restartCount", 0) if known.get("containerID") else -1
    record = seen.containers.get(container["name"])
    if record is not None and record.attempt < reported:
        record = None
    life = Life(container, role, known, reported if record is None else record.attempt)
    dealings = seen.dealings.get(life.name)
    life = msgspec.structs.replace(
        life,
        dealings=dealings if dealings and dealings.attempt == life.attempt else Dealings(life.attempt),
        previous=_end_of(known, container_id(pod, life.name, life.attempt - 1)),
    )
    if record is not None:
        return _from_record(pod, life, record, lost=seen.shim == "lost")
    return _from_status(pod, life) if life.attempt >= 0 else life


def _from_record(pod: Object, life: Life, record: ContainerSeen, *, lost: bool) -> Life:
    # A record may be of a shim that is gone; the status knows.
    told = _end_of(life.known, container_id(pod, life.name, record.attempt))
    alive = record.finished is None and not lost and told is None
    return msgspec.structs.replace(
        life, alive=alive, started=record.started, finished=record.finished, error=record.error,
        ended=None if alive else told or _ended(pod, life, record),
    )  # fmt: skip


def _from_status(pod: Object, life: Life) -> Life:
    """A container that ran, and that no shim knows of: the one that ran it is gone."""
    own = container_id(pod, life.name, life.attempt)
    ended = _end_of(life.known, own) or unknown_end(own)
    return msgspec.structs.replace(
        life, ended=ended, started=_time_of(ended, "startedAt"), finished=_time_of(ended, "finishedAt")
    )


def _time_of(ended: Object, field: str) -> datetime | None:
    return read_time(ended[field]) if ended.get(field) else None


def _end_of(known: Object, own: str) -> Object | None:
    """How an attempt ended, as far as the status tells."""
    for field in ("state", "lastState"):
        ended: Object | None = (known.get(field) or {}).get("terminated")
        if ended is not None and ended.get("containerID") == own:
            return ended
    return None


def _ended(pod: Object, life: Life, record: ContainerSeen) -> Object:
    own = container_id(pod, life.name, record.attempt)
    if record.finished is None:
        return unknown_end(own)
    message = _message(pod, record)
    return {
        "exitCode": record.code,
        "reason": _reason(record),
        **({"message": message} if message else {}),
        "startedAt": write_time(record.started),
        "finishedAt": write_time(record.finished),
        "containerID": own,
    }


def unknown_end(own: str = "") -> Object:
    """The end of a container of which nothing is known."""
    ended = {
        "exitCode": UNKNOWN_CODE,
        "reason": UNKNOWN_REASON,
        "message": NOT_FOUND,
        "startedAt": None,
        "finishedAt": None,
    }
    return ended | ({"containerID": own} if own else {})


def _reason(record: ContainerSeen) -> str:
    if record.error:
        return "StartError"
    if record.oom:
        return "OOMKilled"
    return "Error" if record.code else "Completed"


def _message(pod: Object, record: ContainerSeen) -> str:
    """What a container said at its end, cut so that those of all containers fit into a status."""
    count = sum(1 for _ in roles(pod["spec"]))
    said = record.message.encode(errors="replace")[:_LONGEST_MESSAGE]
    whole = b": ".join(part for part in (record.error.encode(errors="replace"), said) if part)
    return whole[: min(_LONGEST_MESSAGE, _MESSAGES_OF_A_POD // count)].decode(errors="ignore")


def failed_probe(life: Life) -> ProbeName | None:
    """The probe that the container has failed for good, and has to be stopped for."""
    return next((name for name in _DEADLY if life.spec.get(name) and _verdict(life, name) is False), None)


def _verdict(life: Life, name: ProbeName) -> bool | None:
    return probes.history(life.dealings, name).verdict
