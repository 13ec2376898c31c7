"""The phase of a pod, as a kubelet derives it from the states of its containers."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from bireme.node.backoff import restarts
from bireme.node.containers import Role, roles
from bireme.node.seen import Object

FINISHED: Final = ("Succeeded", "Failed")
_Count = Literal[
    "failed", "pending", "unready", "waiting", "running", "stopped", "restarting", "succeeded", "none"
]


def derive_phase(pod: Object, entries: Mapping[str, Object], *, initialized: bool, final: bool) -> str:
    """The phase that goes with these container statuses.

    `initialized`: a main container was started once. `final`: nothing is started again, whatever the policy.
    """
    counts: Counter[_Count] = Counter()
    for container, role in roles(pod["spec"]):
        counts.update(_counts(pod["spec"], container, role, entries[container["name"]]))
    if counts["failed"]:
        return "Failed"
    if counts["pending"] or counts["waiting"] or (counts["unready"] and not initialized):
        return "Pending"
    if counts["running"]:
        return "Running"
    if counts["restarting"] and not final:
        return "Running"
    return "Succeeded" if counts["stopped"] == counts["succeeded"] else "Failed"


def _counts(spec: Object, container: Object, role: Role, entry: Object) -> list[_Count]:
    state = entry["state"]
    if role == "init":
        return [_init(spec, container, entry)]
    if "running" in state:
        unready = role == "sidecar" and not entry.get("started")
        return ["running", "unready"] if unready else ["running"]
    ended = _end(entry)
    if role == "sidecar":
        return [] if ended is not None else ["waiting"]
    if ended is None:
        return ["waiting"]
    counts: list[_Count] = ["stopped"]
    if restarts(container, spec, ended["exitCode"]):
        counts.append("restarting")
    # An end that a container already waits behind does not count as a success.
    if "terminated" in state and ended["exitCode"] == 0:
        counts.append("succeeded")
    return counts


def _init(spec: Object, container: Object, entry: Object) -> _Count:
    ended = _end(entry)
    if "running" in entry["state"] or ended is None:
        return "pending"
    if ended["exitCode"] != 0 and not restarts(container, spec, ended["exitCode"]):
        return "failed"
    return "none"


def _end(entry: Object) -> Object | None:
    """How a container that does not run ended last."""
    ended: Object | None = entry["state"].get("terminated") or (entry.get("lastState") or {}).get(
        "terminated"
    )
    return ended
