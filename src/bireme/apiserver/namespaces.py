"""Namespaces: they hold other objects, and go only when those have gone."""

from datetime import datetime
from typing import Final

from bireme.apiserver.errors import FieldError, invalid_value
from bireme.apiserver.rules import Object, Rules
from bireme.apiserver.times import write_time

IMMORTAL: Final = ("default", "kube-system", "kube-public")
FINALIZER: Final = "kubernetes"
"""It stands in the spec, and is taken away when the namespace is empty."""
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class NamespaceRules(Rules):
    """The rules of namespaces."""

    def default(self, new: Object) -> None:
        metadata = new["metadata"]
        if "name" in metadata:
            metadata["labels"] = metadata.get("labels", {}) | {_NAME_LABEL: metadata["name"]}

    def prepare_create(self, new: Object) -> None:
        # Again, for a name that was made only now.
        self.default(new)
        spec = new.get("spec") or {}
        finalizers = spec.get("finalizers") or []
        if FINALIZER not in finalizers:
            spec = spec | {"finalizers": [*finalizers, FINALIZER]}
        new["spec"] = spec
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object) -> None:
        new["spec"] = old["spec"]

    def prepare_status(self, new: Object, old: Object) -> None:  # noqa: ARG002
        self.default(new)
        status = new.get("status") or {}
        new["status"] = status | {"phase": status.get("phase") or "Active"}

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:  # noqa: ARG002
        phase, going = new["status"]["phase"], "deletionTimestamp" in new["metadata"]
        if not going and phase != "Active":
            return [
                invalid_value("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
            ]
        if going and phase != "Terminating":
            sentence = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [invalid_value("status.Phase", phase, sentence)]
        return []

    def hold(self, obj: Object, now: datetime) -> Object | None:
        if "deletionTimestamp" in obj["metadata"]:
            return obj if obj["spec"].get("finalizers") else None
        metadata = obj["metadata"] | {"deletionTimestamp": write_time(now)}
        return obj | {"metadata": metadata, "status": obj["status"] | {"phase": "Terminating"}}

    def may_go(self, obj: Object) -> bool:
        return not obj["spec"].get("finalizers")


def is_terminating(namespace: Object) -> bool:
    terminating: bool = namespace["status"].get("phase") == "Terminating"
    return terminating


def finalized(namespace: Object) -> Object:
    """The namespace once it is empty."""
    rest = [each for each in namespace["spec"].get("finalizers") or () if each != FINALIZER]
    return namespace | {"spec": {"finalizers": rest} if rest else {}}
