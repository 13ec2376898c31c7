"""Pods: the rules of their kind, how they are bound to a node, and how they are marked for eviction.

What is filled in is in `pod_defaults`, what is refused in `pod_validation` and `pod_updates`.
"""

from datetime import datetime
from typing import Final

from bireme.apiserver.errors import FieldError, required
from bireme.apiserver.pod_defaults import begin_pod, default_pod
from bireme.apiserver.pod_resources import quality_of_service as quality_of_service
from bireme.apiserver.pod_updates import count_problems, kept_status, status_problems, update_problems
from bireme.apiserver.pod_validation import new_problems, spec_problems
from bireme.apiserver.rules import Object, Rules
from bireme.apiserver.times import write_time

FINISHED: Final = ("Succeeded", "Failed")


class PodRules(Rules):
    """The rules of pods."""

    def default(self, new: Object) -> None:
        default_pod(new)

    def prepare_create(self, new: Object) -> None:
        begin_pod(new)

    def prepare_status(self, new: Object, old: Object) -> None:
        metadata = new["metadata"]
        for field in ("ownerReferences", "deletionTimestamp"):
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        new["status"] = kept_status(new.get("status") or {}, old["status"])

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        if old is None:
            return [] if new["spec"].get("containers") else [required("spec.containers")]
        counts = count_problems(new["spec"], old["spec"])
        return counts or update_problems(new["spec"], old["spec"])

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return [*spec_problems(new["spec"]), *(new_problems(new["spec"]) if old is None else ())]

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:
        return status_problems(new, old)

    def grace_seconds(self, obj: Object, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in FINISHED:
            return 0
        seconds: int = obj["spec"]["terminationGracePeriodSeconds"] if requested is None else requested
        return 1 if seconds < 0 else seconds


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
