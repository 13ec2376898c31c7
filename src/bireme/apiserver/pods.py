"""Pods: what may change, how they are bound to a node, and how long they take to go."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.rules import Object, Rules
from bireme.apiserver.times import write_time

FINISHED: Final = ("Succeeded", "Failed")
_DEFAULTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
}
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodRules(Rules):
    """The rules of pods."""

    def default(self, new: Object) -> None:
        spec = new.get("spec") or {}
        missing = {key: value for key, value in _DEFAULTS.items() if key not in spec}
        if missing or "spec" not in new:
            new["spec"] = spec | missing

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"phase": "Pending", "qosClass": quality_of_service(new["spec"])}

    def prepare_status(self, new: Object, old: Object) -> None:
        metadata, status = new["metadata"], new.get("status") or {}
        for field in ("ownerReferences", "deletionTimestamp"):
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        kept = {
            key: old["status"][key]
            for key in ("qosClass", "observedGeneration")
            if not status.get(key) and key in old["status"]
        }
        new["status"] = status | kept

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        if old is not None:
            return _update_problems(new["spec"], old["spec"])
        return [] if new["spec"].get("containers") else [required("spec.containers")]

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:
        quality, before = new["status"].get("qosClass"), old["status"].get("qosClass")
        changed = (
            [invalid_value("status.qosClass", quality, "field is immutable")] if quality != before else []
        )
        return changed + _revived(new["status"], old["status"], old["spec"]["restartPolicy"])

    def grace_seconds(self, obj: Object, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in FINISHED:
            return 0
        seconds: int = obj["spec"]["terminationGracePeriodSeconds"] if requested is None else requested
        return 1 if seconds < 0 else seconds


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from what the containers ask for."""
    resources = [
        container.get("resources") or {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    ]
    if not any(_compute(each, "requests") or _compute(each, "limits") for each in resources):
        return "BestEffort"
    guaranteed = all(
        len(limits := _compute(each, "limits")) == 2 and limits | _compute(each, "requests") == limits
        for each in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: Object, field: str) -> dict[str, Any]:
    amounts = resources.get(field) or {}
    return {key: amounts[key] for key in ("cpu", "memory") if key in amounts}


def _update_problems(new: Object, old: Object) -> list[FieldError]:
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            return [forbidden_value(f"spec.{field}", "pod updates may not add or remove containers")]
    errors = _deadline_problems(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    gates = {gate["name"] for gate in old.get("schedulingGates") or ()}
    errors += [
        forbidden_value(
            f"spec.schedulingGates[{index}]",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate["name"] not in gates
    ]
    kept = [_without_seconds(each) for each in new.get("tolerations") or ()]
    if any(_without_seconds(each) not in kept for each in old.get("tolerations") or ()):
        sentence = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden_value("spec.tolerations", sentence))
    if _frozen(new) != _frozen(old) and not _mends_grace(new, old):
        errors.append(forbidden_value("spec", _CHANGEABLE))
    return errors


def _deadline_problems(new: int | None, old: int | None) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        sentence = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid_value(field, None, sentence)]
    if old is not None and old < new:
        return [invalid_value(field, new, "must be less than or equal to previous value")]
    return []


def _without_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _frozen(spec: Object) -> Object:
    """What of a spec can't change."""
    changeable = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    frozen = {key: value for key, value in spec.items() if key not in changeable}
    for field in ("containers", "initContainers"):
        if field in frozen:
            frozen[field] = [container | {"image": ""} for container in frozen[field] or ()]
    return frozen


def _mends_grace(new: Object, old: Object) -> bool:
    field = "terminationGracePeriodSeconds"
    return old[field] < 0 and new[field] == 1 and _frozen(new) | {field: old[field]} == _frozen(old)


def _revived(new: Object, old: Object, restart_policy: str) -> list[FieldError]:
    """Containers that ended, can't be started again, and run all the same."""
    states = {each["name"]: each.get("state") or {} for each in new.get("containerStatuses") or ()}
    return [
        forbidden_value(
            f"status.containerStatuses[{index}].state", "may not be transitioned to non-terminated state"
        )
        for index, before in enumerate(old.get("containerStatuses") or ())
        if (ended := (before.get("state") or {}).get("terminated")) is not None
        and "terminated" not in states.get(before["name"], {"terminated": None})
        and not _may_restart(restart_policy, ended.get("exitCode", 0))
    ]


def _may_restart(restart_policy: str, exit_code: int) -> bool:
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)


def bound(pod: Object, binding: Object, now: datetime) -> Object:
    """The pod on the node that the Binding names; its labels and annotations go over to the pod."""
    metadata = dict(pod["metadata"])
    for field in ("labels", "annotations"):
        if given := (binding.get("metadata") or {}).get(field):
            metadata[field] = metadata.get(field, {}) | given
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    return pod | {
        "metadata": metadata,
        "spec": pod["spec"] | {"nodeName": binding["target"]["name"]},
        "status": with_condition(status, {"type": "PodScheduled", "status": "True"}, now),
    }


def unbindable(pod: Object) -> str:
    """Why a pod can't be bound; empty if it can."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node:
        return f'pod {name} is already assigned to node "{node}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if pod["spec"].get("schedulingGates") else ""


def disrupted(pod: Object, now: datetime) -> Object:
    """The pod marked as the target of an eviction."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    return pod | {"status": with_condition(pod["status"], condition, now)}


def with_condition(status: Object, condition: Object, now: datetime) -> Object:
    """A status with one condition set; its transition time moves only with its status."""
    conditions: list[Object] = list(status.get("conditions") or ())
    types = [each["type"] for each in conditions]
    place = types.index(condition["type"]) if condition["type"] in types else len(types)
    old = conditions[place] if place < len(conditions) else {}
    moved = write_time(now) if old.get("status") != condition["status"] else old.get("lastTransitionTime")
    head = {"type": condition["type"], "status": condition["status"], "lastProbeTime": None}
    conditions[place : place + 1] = [{**head, "lastTransitionTime": moved, **condition}]
    return status | {"conditions": conditions}
