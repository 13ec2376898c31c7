"""The rules of CustomResourceDefinitions. What a cluster's controllers do is done with the write here."""

from datetime import datetime
from typing import Final

from bireme.apiserver import crd_problems
from bireme.apiserver.errors import FieldError
from bireme.apiserver.rules import Object, Rules
from bireme.apiserver.times import write_time

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Taken away when the objects of the CRD have gone."""


def condition(type_: str, status: str, reason: str, message: str, moment: str) -> Object:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def with_condition(crd: Object, new: Object) -> Object:
    """A CRD with a condition in the place of the one of its type; the time is when its status changed."""
    status = crd.get("status") or {}
    conditions = status.get("conditions", [])
    old = next((each for each in conditions if each["type"] == new["type"]), None)
    if old is None:
        conditions = [*conditions, new]
    else:
        if old["status"] == new["status"]:
            new = new | {"lastTransitionTime": old["lastTransitionTime"]}
        conditions = [new if each is old else each for each in conditions]
    return crd | {"status": status | {"conditions": conditions}}


class CrdRules(Rules):
    """Names are accepted, and the kind established, at once."""

    def default(self, new: Object) -> None:
        spec = dict(new.get("spec") or {})
        names = dict(spec.get("names") or {})
        if kind := names.get("kind"):
            names["singular"] = names.get("singular") or kind.lower()
            names["listKind"] = names.get("listKind") or f"{kind}List"
        spec["names"] = names
        spec["conversion"] = spec.get("conversion") or {"strategy": "None"}
        new["spec"] = spec

    def prepare_create(self, new: Object) -> None:
        moment = new["metadata"]["creationTimestamp"]
        new["status"] = {
            "conditions": [
                condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", moment),
                condition(
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                    moment,
                ),
            ],
            "acceptedNames": new["spec"]["names"],
            "storedVersions": _storage(new["spec"]),
        }

    def prepare_update(self, new: Object, old: Object) -> None:
        status = old.get("status") or {}
        stored = status.get("storedVersions", [])
        stored = [*stored, *(name for name in _storage(new["spec"]) if name not in stored)]
        new["status"] = status | {"acceptedNames": new["spec"]["names"], "storedVersions": stored}

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return list(crd_problems.problems(new, old))

    def hold(self, obj: Object, now: datetime) -> Object | None:
        """It stays until its objects have gone."""
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata:
            return None
        moment, finalizers = write_time(now), metadata.get("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers = [*finalizers, FINALIZER]
        going = condition(
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            moment,
        )
        marked = metadata | {"deletionTimestamp": moment, "finalizers": finalizers}
        return with_condition(obj | {"metadata": marked}, going)


def _storage(spec: Object) -> list[str]:
    names = [each.get("name", "") for each in spec.get("versions") or () if each.get("storage")]
    return names[:1]
