"""Pods: how many containers are ready, what holds the others up, and how often they began again."""

from datetime import datetime
from typing import Any, Final

from bireme.apiserver.printing.ages import age, human_duration, read_moment
from bireme.apiserver.printing.fields import has_condition, mapping, number, objects, present, text
from bireme.apiserver.rules import Object

_NONE: Final = "<none>"
_ENDED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class _Restarts:
    """How often containers began again, and when the last of them had ended before."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count = 0
        self.last: datetime | None = None

    def add(self, container: Object) -> None:
        self.count += number(container, "restartCount")
        before = container.get("lastState")
        if before and (moment := _ended_at(before)) and (self.last is None or moment > self.last):
            self.last = moment

    def shown(self, now: datetime) -> str:
        if self.count and self.last:
            return f"{self.count} ({human_duration(now - self.last)} ago)"
        return str(self.count)


def _ended_at(state: object) -> datetime | None:
    terminated = state.get("terminated") if isinstance(state, dict) else None
    return read_moment(terminated.get("finishedAt")) if isinstance(terminated, dict) else None


class _Progress:
    """What a pod's containers have come to: the init containers up to the first that is not done, then,
    where that one does not hold the pod up, the others."""

    def __init__(self, spec: Object, status: Object, conditions: list[Object]) -> None:
        self.reason = _own_reason(status, conditions)
        self.ready = 0
        self.restarts = _Restarts()
        self._status = status
        self._conditions = conditions
        self._inits = objects(spec, "initContainers")
        sidecars = [text(each, "name") for each in self._inits if each.get("restartPolicy") == "Always"]
        self.expected = len(objects(spec, "containers")) + len(sidecars)
        self._sidecars = sidecars
        self._of_sidecars = _Restarts()
        if self._is_initialized() or self._was_initialized():
            self.restarts = self._of_sidecars
            self._follow_containers()

    def _is_initialized(self) -> bool:
        """Whether no init container holds the pod up; else the reason says which one does and why."""
        for index, container in enumerate(objects(self._status, "initContainerStatuses")):
            self.restarts.add(container)
            is_sidecar = text(container, "name") in self._sidecars
            if is_sidecar:
                self._of_sidecars.add(container)
            state = mapping(container, "state")
            terminated = present(state, "terminated")
            if terminated is not None and number(terminated, "exitCode") == 0:
                continue
            if is_sidecar and container.get("started") is True:
                self.ready += container.get("ready") is True
                continue
            self.reason = f"Init:{self._held_up_by(state, index)}"
            return False
        return True

    def _held_up_by(self, state: Object, index: int) -> str:
        terminated = present(state, "terminated")
        if terminated is not None:
            return _ending(terminated)
        waits_for = text(mapping(state, "waiting"), "reason")
        if waits_for not in ("", "PodInitializing"):
            return waits_for
        return f"{index}/{len(self._inits)}"

    def _was_initialized(self) -> bool:
        told = (each for each in self._conditions if each.get("type") == "Initialized")
        return next(told, {}).get("status") == "True"

    def _follow_containers(self) -> None:
        """The first container that says anything gives the reason."""
        runs, failure = False, ""
        for container in reversed(objects(self._status, "containerStatuses")):
            self.restarts.add(container)
            state = mapping(container, "state")
            terminated = present(state, "terminated")
            if waits_for := text(mapping(state, "waiting"), "reason"):
                self.reason = waits_for
            elif terminated is not None:
                self.reason = _ending(terminated)
                failure = self.reason if number(terminated, "exitCode") else failure
            elif container.get("ready") is True and present(state, "running") is not None:
                runs = True
                self.ready += 1
        if self.reason == "Completed":
            self.reason = self._although_completed(runs, failure)

    def _although_completed(self, runs: bool, failure: str) -> str:
        """A pod is not completed while others of its containers run, or when one has failed."""
        if runs and has_condition(self._conditions, "Ready"):
            return "Running"
        return failure or ("NotReady" if runs else "Completed")


def pod(obj: Object, now: datetime) -> list[Any]:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    told = objects(status, "conditions")
    progress = _Progress(spec, status, told)
    return [
        text(metadata, "name"),
        f"{progress.ready}/{progress.expected}",
        _going(metadata, status) or progress.reason,
        progress.restarts.shown(now),
        age(metadata.get("creationTimestamp"), now),
        _address(status),
        text(spec, "nodeName") or _NONE,
        text(status, "nominatedNodeName") or _NONE,
        _gates(spec, told),
    ]


def conditions(obj: Object) -> list[Object]:
    """That the pod has ended, if it has."""
    phase = text(mapping(obj, "status"), "phase")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _ending(terminated: Object) -> str:
    if reason := text(terminated, "reason"):
        return reason
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _own_reason(status: Object, told: list[Object]) -> str:
    """What the pod says of itself, before its containers are asked."""
    for each in told:
        if each.get("reason") == "SchedulingGated" and each.get("type") == "PodScheduled":
            return "SchedulingGated"
    return text(status, "reason") or text(status, "phase")


def _going(metadata: Object, status: Object) -> str:
    """What is said of a pod that is being deleted; empty of any other."""
    if metadata.get("deletionTimestamp") is None:
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if text(status, "phase") in _ENDED else "Terminating"


def _address(status: Object) -> str:
    """The first address: where both fields are set, the older one has the last word."""
    if address := text(status, "podIP"):
        return address
    addresses = objects(status, "podIPs")
    return (text(addresses[0], "ip") if addresses else "") or _NONE


def _gates(spec: Object, told: list[Object]) -> str:
    if not (listed := objects(spec, "readinessGates")):
        return _NONE
    gates = [text(each, "conditionType") for each in listed]
    # The first condition of a type counts.
    states = {text(each, "type"): each.get("status") for each in reversed(told)}
    return f"{sum(states.get(gate) == 'True' for gate in gates)}/{len(gates)}"
