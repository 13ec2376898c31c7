"""What containers may be told of their own pod: its fields, and the resources that it asks for."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from bireme.api.quantity import NANOS_PER_UNIT, ZERO, Quantity, parse_quantity
from bireme.node.containers import roles
from bireme.node.seen import Object

_SUBSCRIPT: Final = re.compile(r"metadata\.(annotations|labels)\['(.*)'\]", re.DOTALL)
_WITH_FALLBACK: Final = ("cpu", "memory", "ephemeral-storage")
_ESCAPES: Final = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES_TOO: Final = {'"': r"\"", "\\": r"\\"}


class NotOfferedError(ValueError):
    """There is no such field, or no such resource, to be told of."""


_FIELDS: Final[Mapping[str, Callable[[Object], str]]] = {
    "metadata.name": lambda pod: _text(pod["metadata"], "name"),
    "metadata.namespace": lambda pod: _text(pod["metadata"], "namespace"),
    "metadata.uid": lambda pod: _text(pod["metadata"], "uid"),
    "metadata.labels": lambda pod: _lines(pod["metadata"].get("labels") or {}),
    "metadata.annotations": lambda pod: _lines(pod["metadata"].get("annotations") or {}),
    "spec.nodeName": lambda pod: _text(pod["spec"], "nodeName"),
    "spec.host": lambda pod: _text(pod["spec"], "nodeName"),
    "spec.serviceAccountName": lambda pod: _text(pod["spec"], "serviceAccountName"),
    "status.hostIP": lambda pod: _text(pod.get("status") or {}, "hostIP"),
    "status.hostIPs": lambda pod: _addresses(pod, "hostIPs"),
    "status.podIP": lambda pod: _text(pod.get("status") or {}, "podIP"),
    "status.podIPs": lambda pod: _addresses(pod, "podIPs"),
}


def field_value(pod: Object, path: str) -> str:
    """A field of a pod as text; raises NotOfferedError. Addresses are read from the pod's status."""
    if match := _SUBSCRIPT.fullmatch(path):
        return _text(pod["metadata"].get(match[1]) or {}, match[2])
    if (read := _FIELDS.get(path)) is None:
        raise NotOfferedError(f"field label not supported: {path}")
    return read(pod)


def _text(fields: Object, field: str) -> str:
    return str(fields.get(field) or "")


def _addresses(pod: Object, field: str) -> str:
    return ",".join(each["ip"] for each in (pod.get("status") or {}).get(field) or ())


def _lines(words: Mapping[str, str]) -> str:
    """A line `key="value"` for each, by key; quoted as Go quotes."""
    return "\n".join(f'{key}="{"".join(map(_quoted, words[key]))}"' for key in sorted(words))


def _quoted(letter: str) -> str:
    if letter in _ESCAPES_TOO or letter in _ESCAPES:
        return (_ESCAPES_TOO | _ESCAPES)[letter]
    if letter.isprintable():
        return letter
    number = ord(letter)
    return (
        f"\\x{number:02x}"
        if number < 0x80
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def resource_value(
    pod: Object, ref: Object, container: Object | None = None, allocatable: Mapping[str, str] | None = None
) -> str:
    """A container's request or limit in units of the divisor, rounded up; raises NotOfferedError.

    The container is the one that the reference names, else the given one. Without a limit of its own it has
    its pod's, and without that all that the node can give.
    """
    which, _, resource = ref["resource"].partition(".")
    offered = resource in _WITH_FALLBACK or resource.startswith("hugepages-")
    if which not in ("limits", "requests") or not offered:
        raise NotOfferedError(f"unsupported container resource : {ref['resource']}")
    named = _named(pod, ref["containerName"]) if ref.get("containerName") else container
    amount = _amount((named or {}).get("resources") or {}, which, resource)
    if which == "limits" and not amount.nanos and resource in _WITH_FALLBACK:
        amount = _fallback(pod, resource, allocatable or {})
    divisor = parse_quantity(ref.get("divisor") or "0")
    return str(_divided(resource, amount, divisor if divisor.nanos else Quantity(NANOS_PER_UNIT)))


def _named(pod: Object, name: str) -> Object:
    for container, _ in roles(pod["spec"]):
        if container["name"] == name:
            return container
    raise NotOfferedError(f"container {name} not found")


def _amount(resources: Object, which: str, resource: str) -> Quantity:
    given = (resources.get(which) or {}).get(resource)
    return ZERO if given is None else parse_quantity(given)


def _fallback(pod: Object, resource: str, allocatable: Mapping[str, str]) -> Quantity:
    most = parse_quantity(allocatable.get(resource) or "0")
    own = _amount(pod["spec"].get("resources") or {}, "limits", resource)
    return own if own.nanos else most


def _divided(resource: str, amount: Quantity, divisor: Quantity) -> int:
    """CPUs are counted in thousandths, all else in whole units."""
    if resource == "cpu":
        return -(-amount.millis() // divisor.millis())
    return -(-amount.units() // divisor.units())
