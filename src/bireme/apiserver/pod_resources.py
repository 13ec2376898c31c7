"""What pods ask for: the class of service that follows from it, and what a whole pod asks for by default."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bireme.api.quantity import ZERO, Quantity, parse_quantity
from bireme.apiserver.rules import Object

_COMPUTE: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"

Amounts = Mapping[str, Any]


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from what the pod or its containers ask for."""
    if (whole := spec.get("resources")) is not None:
        wanted, limits = [_compute(whole.get("requests"))], [_compute(whole.get("limits"))]
    else:
        resources = [
            container.get("resources") or {}
            for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        ]
        wanted = [_compute((each.get("limits") or {}) | (each.get("requests") or {})) for each in resources]
        limits = [_compute(each.get("limits")) for each in resources]
    if not any(wanted) and not any(limits):
        return "BestEffort"
    guaranteed = all(len(each) == len(_COMPUTE) for each in limits) and _sums(wanted) == _sums(limits)
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: Amounts | None) -> dict[str, int]:
    """The billionths of CPU and memory, where there are any."""
    if not amounts:
        return {}
    read = {key: parse_quantity(amounts[key]).nanos for key in _COMPUTE if key in amounts}
    return {key: nanos for key, nanos in read.items() if nanos > 0}


def _sums(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in amounts:
        for key, nanos in each.items():
            sums[key] = sums.get(key, 0) + nanos
    return sums


def with_requests(container: Object) -> Object:
    """A container that requests what it has a limit for, and no request."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits or limits.keys() <= requests.keys():
        return container
    return container | {"resources": resources | {"requests": limits | requests}}


def with_pod_resources(spec: Object) -> Object:
    """A spec whose own resources, if it gives any, are complete: by its containers, then by its limits."""
    resources = spec.get("resources")
    if not resources or not (resources.get("limits") or resources.get("requests")):
        return spec
    requests = dict(resources.get("requests") or {})
    limits = dict(resources.get("limits") or {})
    for key, amount in _effective(spec, "limits").items():
        if key.startswith(_HUGE_PAGES) and key not in requests:
            limits.setdefault(key, amount)
    if not limits:
        return spec
    for key, amount in _effective(spec, "requests").items():
        if key in _COMPUTE:
            requests.setdefault(key, amount)
    for key, amount in limits.items():
        if _is_for_pods(key):
            requests.setdefault(key, amount)
    return spec | {"resources": resources | {"limits": limits, "requests": requests}}


def _is_for_pods(key: str) -> bool:
    return key in _COMPUTE or key.startswith(_HUGE_PAGES)


def _effective(spec: Object, field: str) -> dict[str, str]:
    """What the containers need at most at any time; sidecars stay while others come and go."""
    needed: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        needed = _added(needed, _amounts(container, field))
    sidecars: dict[str, Quantity] = {}
    at_start: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, field)
        if container.get("restartPolicy") == "Always":
            needed, sidecars = _added(needed, amounts), _added(sidecars, amounts)
            at_start = _largest(at_start, sidecars)
        else:
            at_start = _largest(at_start, _added(amounts, sidecars))
    return {key: str(amount) for key, amount in _largest(needed, at_start).items()}


def _amounts(container: Object, field: str) -> dict[str, Quantity]:
    amounts = (container.get("resources") or {}).get(field) or {}
    return {key: parse_quantity(amount) for key, amount in amounts.items()}


def _added(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
    return one | {
        key: one[key] + amount if one.get(key, ZERO).nanos else amount for key, amount in other.items()
    }


def _largest(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
    larger = {key: amount for key, amount in other.items() if key not in one or one[key].nanos < amount.nanos}
    return one | larger
