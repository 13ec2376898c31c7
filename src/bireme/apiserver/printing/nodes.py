"""Nodes."""

from datetime import datetime
from typing import Any, Final

from bireme.apiserver.printing.ages import UNKNOWN, age
from bireme.apiserver.printing.fields import created, mapping, name_of, objects, text, text_map
from bireme.apiserver.rules import Object

_NONE: Final = "<none>"
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def node(obj: Object, now: datetime) -> list[Any]:
    status = mapping(obj, "status")
    info = mapping(status, "nodeInfo")
    addresses = objects(status, "addresses")
    return [
        name_of(obj),
        _state(obj, status),
        _roles(obj),
        age(created(obj), now),
        text(info, "kubeletVersion"),
        _address(addresses, "InternalIP"),
        _address(addresses, "ExternalIP"),
        text(info, "osImage") or UNKNOWN,
        _kernel(info),
        text(info, "containerRuntimeVersion") or UNKNOWN,
    ]


def _state(obj: Object, status: Object) -> str:
    told = [each for each in objects(status, "conditions") if each.get("type") == "Ready"]
    state = "Unknown"
    if told:
        state = "Ready" if told[-1].get("status") == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if mapping(obj, "spec").get("unschedulable") is True else state


def _roles(obj: Object) -> str:
    labels = text_map(mapping(obj, "metadata"), "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or _NONE


def _address(addresses: list[Object], kind: str) -> str:
    return next((text(each, "address") for each in addresses if each.get("type") == kind), _NONE)


def _kernel(info: Object) -> str:
    kernel, architecture = text(info, "kernelVersion") or UNKNOWN, text(info, "architecture")
    return f"{kernel} ({architecture})" if architecture else kernel
