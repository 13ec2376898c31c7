"""Nodes: where pods run."""

from collections.abc import Iterator

from bireme.apiserver import formats
from bireme.apiserver.checks import duplicate
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value
from bireme.apiserver.rules import Object, Rules


class NodeRules(Rules):
    """The rules of Nodes: they are created with their status."""

    def default(self, new: Object) -> None:
        spec = new.get("spec") or {}
        new["spec"] = spec | _networks(spec)
        new["status"] = _with_allocatable(new.get("status") or {})

    def prepare_create(self, new: Object) -> None:
        new["spec"] = {key: value for key, value in new["spec"].items() if key != "configSource"}
        new["status"] = {key: value for key, value in new["status"].items() if key != "config"}

    def prepare_update(self, new: Object, old: Object) -> None:
        if "configSource" not in old["spec"]:
            new["spec"] = {key: value for key, value in new["spec"].items() if key != "configSource"}

    def prepare_status(self, new: Object, old: Object) -> None:
        status = _with_allocatable(new.get("status") or {})
        if "config" not in (old.get("status") or {}):
            status = {key: value for key, value in status.items() if key != "config"}
        new["status"] = status

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return [] if old is None else list(_changes(new["spec"], old["spec"]))

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return list(_taint_problems(new["spec"]))

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:  # noqa: ARG002
        return list(_address_problems(new["status"]))


def _networks(spec: Object) -> Object:
    """`podCIDR` is the first of `podCIDRs`, and counts where they differ."""
    one, several = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not several or several[0] != one):
        return {"podCIDRs": [one]}
    return {"podCIDR": several[0]} if several and not one else {}


def _with_allocatable(status: Object) -> Object:
    if status.get("capacity") and not status.get("allocatable"):
        return status | {"allocatable": status["capacity"]}
    return status


def _changes(new: Object, old: Object) -> Iterator[FieldError]:
    networks = old.get("podCIDRs")
    if networks and networks != new.get("podCIDRs"):
        sentence = 'node updates may not change podCIDR except from "" to valid'
        yield forbidden_value("spec.podCIDRs", sentence)
    if old.get("providerID") and old["providerID"] != new.get("providerID"):
        sentence = 'node updates may not change providerID except from "" to valid'
        yield forbidden_value("spec.providerID", sentence)


def _taint_problems(spec: Object) -> Iterator[FieldError]:
    seen = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        field, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        for problem in formats.label_key(key):
            yield invalid_value(f"{field}.key", key, problem)
        for problem in formats.label_value(taint.get("value", "")):
            yield invalid_value(f"{field}.value", taint.get("value"), problem)
        if (key, effect) in seen:
            yield duplicate(field, taint)
        seen.add((key, effect))


def _address_problems(status: Object) -> Iterator[FieldError]:
    addresses = status.get("addresses") or []
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield duplicate(f"status.addresses[{index}]", address)
