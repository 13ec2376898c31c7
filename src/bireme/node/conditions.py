"""The conditions of a pod that a kubelet sets."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from bireme.node.containers import Role, roles
from bireme.node.phase import FINISHED
from bireme.node.seen import Object
from bireme.node.times import write_time

READY_TO_START: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
SCHEDULED: Final = "PodScheduled"
AS_WRITTEN: Final = "bireme.dev/RunsAsWritten"
"""False, with what stands in for what, where this machine lacks something; else it is not there."""
OUTPUT_COMPLETE: Final = "bireme.dev/OutputComplete"
"""False, with the reason, if output was cut because the disk was full; else it is not there."""
OURS: Final = frozenset(
    {READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED, AS_WRITTEN, OUTPUT_COMPLETE}
)


class Say(NamedTuple):
    """What a condition says."""

    status: bool
    reason: str = ""
    message: str = ""


def build_conditions(
    pod: Object,
    entries: Mapping[str, Object],
    phase: str,
    *,
    ready_to_start: bool,
    now: datetime,
    notices: Sequence[str] = (),
    output_cut: str = "",
) -> list[Object]:
    """Those of others as they are, then ours; lastTransitionTime moves only with the status."""
    old = (pod.get("status") or {}).get("conditions") or ()
    others = [each for each in old if each["type"] not in OURS]
    containers = _containers_ready(pod, entries, phase)
    says = {
        READY_TO_START: Say(ready_to_start),
        INITIALIZED: _initialized(pod, entries, phase),
        READY: _ready(pod, others) if containers.status else containers,
        CONTAINERS_READY: containers,
        SCHEDULED: Say(True),
    }
    before = {each["type"]: each for each in old}
    generation = pod["metadata"].get("generation")
    made = [_condition(kind, before.get(kind), say, generation, now) for kind, say in says.items()]
    # These two are there only if they are False, and then stay: a new agent does not know the notices.
    exceptions = {
        AS_WRITTEN: Say(False, "Substituted", "\n".join(notices)),
        OUTPUT_COMPLETE: Say(False, "DiskFull", output_cut),
    }
    for kind, say in exceptions.items():
        if say.message:
            made.append(_condition(kind, before.get(kind), say, generation, now))
        elif kind in before:
            made.append(before[kind])
    return [*others, *made]


def with_foreign(status: Object, server: Object) -> Object:
    """Our status with what others have written to the server: their conditions, and the end of the pod."""
    if not status:
        return server
    ours = [each for each in status.get("conditions") or () if each["type"] in OURS]
    others = [each for each in server.get("conditions") or () if each["type"] not in OURS]
    merged = status | {"conditions": [*others, *ours]}
    if server.get("phase") in FINISHED and status.get("phase") not in FINISHED:
        merged |= {key: server[key] for key in ("phase", "reason", "message") if key in server}
    return merged


def _condition(kind: str, old: Object | None, say: Say, generation: int | None, now: datetime) -> Object:
    status = "True" if say.status else "False"
    same = old is not None and old.get("status") == status and old.get("lastTransitionTime")
    optional = {"reason": say.reason, "message": say.message, "observedGeneration": generation}
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": same or write_time(now),
        **{field: value for field, value in optional.items() if value},
    }


def _containers_ready(pod: Object, entries: Mapping[str, Object], phase: str) -> Say:
    asked = [container["name"] for container, role in roles(pod["spec"]) if role != "init"]
    unknown = [name for name in asked if name not in entries]
    unready = [name for name in asked if name in entries and not entries[name]["ready"]]
    if phase == "Failed":
        return Say(False, "PodFailed")
    if phase == "Succeeded" and not unknown:
        return Say(False, "PodCompleted")
    message = _listed(unknown, unready, "unready")
    return Say(False, "ContainersNotReady", message) if message else Say(True)


def _listed(unknown: Sequence[str], others: Sequence[str], word: str) -> str:
    parts = [
        f"containers with {what} status: [{' '.join(names)}]"
        for what, names in (("unknown", unknown), (word, others))
        if names
    ]
    return ", ".join(parts)


def _ready(pod: Object, conditions: Sequence[Object]) -> Say:
    """Whether the conditions hold that the pod itself asks for."""
    found = {each["type"]: each["status"] for each in conditions}
    missing = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in found:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found[kind] != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {found[kind]}')
    return Say(False, "ReadinessGatesNotReady", ", ".join(missing)) if missing else Say(True)


def _initialized(pod: Object, entries: Mapping[str, Object], phase: str) -> Say:
    asked = [(container["name"], role) for container, role in roles(pod["spec"]) if role != "main"]
    unknown = [name for name, _ in asked if name not in entries]
    incomplete = [name for name, role in asked if name in entries and not _is_past(entries[name], role)]
    if phase == "Succeeded" and not unknown:
        return Say(True, "PodCompleted")
    message = _listed(unknown, incomplete, "incomplete")
    if not message or _was_initialized(pod, entries):
        return Say(True)
    return Say(False, "ContainersNotInitialized", message)


def _is_past(entry: Object, role: Role) -> bool:
    return bool(entry.get("started") if role == "sidecar" else entry["ready"])


def _was_initialized(pod: Object, entries: Mapping[str, Object]) -> bool:
    """A pod that was initialized once stays so, also while a sidecar starts again."""
    for container, role in roles(pod["spec"]):
        state = (entries.get(container["name"]) or {}).get("state") or {}
        if role == "main" and ("running" in state or "terminated" in state):
            return True
    old = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == INITIALIZED and each["status"] == "True" for each in old)
