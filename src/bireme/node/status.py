"""The status of a pod, as a kubelet writes it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from bireme.node.conditions import build_conditions
from bireme.node.containers import Life, container_id, unknown_end
from bireme.node.phase import FINISHED, derive_phase
from bireme.node.running import Waiting
from bireme.node.seen import Object, Seen
from bireme.node.times import write_time

_ADDRESSES: Final = ("hostIP", "hostIPs", "podIP", "podIPs")
_REFUSED_CODE: Final = 128
"""What container runtimes tell of a container that could not be created."""
_OURS: Final = frozenset(
    {
        *_ADDRESSES,
        "phase",
        "reason",
        "message",
        "conditions",
        "startTime",
        "initContainerStatuses",
        "containerStatuses",
        "observedGeneration",
    }
)


class Ending(NamedTuple):
    """Why a pod is to end. Without a phase, its containers' ends decide on it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    rejected: bool = False
    """Whether the pod can't run here at all."""


def build_status(
    pod: Object,
    lives: Sequence[Life],
    seen: Seen,
    waiting: Mapping[str, Waiting],
    ending: Ending | None,
    now: datetime,
) -> Object:
    """The whole status; equal to the pod's own where nothing has changed.

    A pod is finished only once nothing of it is alive.
    """
    old = pod.get("status") or {}
    alive = any(life.alive for life in lives)
    final = ending is not None and not alive
    if final and _is_settled(old, lives):
        return dict(old)
    kept = {life.name: why for life in lives if (why := _kept(life))} if ending is None else {}
    reasons = {**kept, **waiting}
    entries = {life.name: _entry(pod, life, reasons.get(life.name)) for life in lives}
    started = any(life.role == "main" and life.attempt >= 0 for life in lives)
    phase = _phase(pod, entries, ending, initialized=started, final=final)
    if final:
        entries = _closed(lives, entries, ending or Ending())
    if ending is not None and ending.rejected and all(life.attempt < 0 for life in lives):
        entries = {}
    shown = (old.get("phase") or "Pending") if alive and phase in FINISHED else phase
    sandbox = seen.shim == "alive" and shown not in FINISHED
    known = with_addresses(old, seen)
    return {
        **{field: value for field, value in old.items() if field not in _OURS},
        "phase": shown,
        **_why(old, shown, ending),
        "conditions": build_conditions(
            pod,
            entries,
            phase,
            ready_to_start=sandbox,
            notices=seen.notices,
            output_cut=seen.output_cut,
            now=now,
        ),
        "startTime": old.get("startTime") or write_time(now),
        **{field: known[field] for field in _ADDRESSES if field in known},
        **_statuses(lives, entries),
        **_generation(pod, old),
    }


def _is_settled(old: Object, lives: Sequence[Life]) -> bool:
    """Whether a finished pod's status tells all there is to tell."""
    return old.get("phase") in FINISHED and all(
        life.attempt < 0 or (life.known.get("state") or {}).get("terminated") == life.ended for life in lives
    )


def _phase(
    pod: Object, entries: Mapping[str, Object], ending: Ending | None, *, initialized: bool, final: bool
) -> str:
    if ending is not None and ending.phase:
        return ending.phase
    phase = derive_phase(pod, entries, initialized=initialized, final=final)
    return "Failed" if final and phase not in FINISHED else phase


def _why(old: Object, phase: str, ending: Ending | None) -> Object:
    """Reason and message of the phase: those that brought it about, for as long as it lasts."""
    if phase == old.get("phase"):
        given = {field: old.get(field) for field in ("reason", "message")}
    elif ending is not None and phase == ending.phase:
        given = {"reason": ending.reason, "message": ending.message}
    else:
        given = {}
    return {field: text for field, text in given.items() if text}


def with_addresses(status: Object, seen: Seen) -> Object:
    """A status with the addresses that are seen; others stay as they were told."""
    made = dict(status)
    for name, addresses in (("hostIP", seen.host_ips), ("podIP", seen.pod_ips)):
        if addresses:
            made |= {name: addresses[0], f"{name}s": [{"ip": each} for each in addresses]}
    return made


def _statuses(lives: Sequence[Life], entries: Mapping[str, Object]) -> Object:
    """Init containers in their order, the others by name."""
    first = [entries[life.name] for life in lives if life.role != "main" and life.name in entries]
    mains = [entries[life.name] for life in lives if life.role == "main" and life.name in entries]
    mains.sort(key=lambda entry: str(entry["name"]))
    lists = {"initContainerStatuses": first, "containerStatuses": mains}
    return {field: each for field, each in lists.items() if each}


def _generation(pod: Object, old: Object) -> Object:
    generation = max(pod["metadata"].get("generation") or 0, old.get("observedGeneration") or 0)
    return {"observedGeneration": generation} if generation else {}


# ---- one container


def _entry(pod: Object, life: Life, waiting: Waiting | None) -> Object:
    default = Waiting("PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating")
    attempt = life.attempt - 1 if life.starting else life.attempt
    state, last = _states(life, waiting, default)
    own = {"containerID": container_id(pod, life.name, attempt)} if attempt >= 0 else {}
    return {
        "name": life.name,
        "state": state,
        "lastState": last,
        "ready": life.is_ready,
        "started": life.is_started,
        "restartCount": max(attempt, 0),
        "image": life.spec.get("image") or "",
        "imageID": "",
        **own,
    }


def _states(life: Life, waiting: Waiting | None, default: Waiting) -> tuple[Object, Object]:
    """The state, and the last one."""
    previous: Object = {"terminated": life.previous} if life.previous is not None else {}
    if life.starting:
        return previous or _waits(default), life.known.get("lastState") or {}
    if life.alive and life.started is not None:
        return {"running": {"startedAt": write_time(life.started)}}, previous
    if life.ended is None:
        return _waits(waiting or default), {}
    ended: Object = {"terminated": life.ended}
    return (_waits(waiting), ended) if waiting else (ended, previous)


def _kept(life: Life) -> Waiting | None:
    """Why a container waits, as its status tells: it does until it starts."""
    told = (life.known.get("state") or {}).get("waiting")
    last = (life.known.get("lastState") or {}).get("terminated")
    if not told or life.alive or last != life.ended:
        return None
    return Waiting(told.get("reason") or "", told.get("message") or "")


def _waits(waiting: Waiting) -> Object:
    message = {"message": waiting.message} if waiting.message else {}
    return {"waiting": {"reason": waiting.reason} | message}


def _closed(lives: Sequence[Life], entries: Mapping[str, Object], ending: Ending) -> dict[str, Object]:
    """The entries of a pod that has ended: whatever could have run has an end.

    Main containers could once the init containers were through; of those, all up to the last that did. One
    that never started because the pod can't run here says why.
    """
    first = [life for life in lives if life.role != "main"]
    mains = [life for life in lives if life.role == "main"]
    through = not first or entries[first[-1].name]["ready"] or any(life.attempt >= 0 for life in mains)
    begun = [place for place, life in enumerate(first) if life.attempt >= 0]
    over = first[: begun[-1] + 1 if begun else 1] + (mains if through else [])
    refused = unknown_end() | {"reason": ending.reason, "message": ending.message, "exitCode": _REFUSED_CODE}
    ends = {
        life.name: refused if ending.rejected and life.attempt < 0 else unknown_end()
        for life in over
        if "terminated" not in entries[life.name]["state"]
    }
    return {
        name: entry | ({"state": {"terminated": ends[name]}} if name in ends else {})
        for name, entry in entries.items()
    }
