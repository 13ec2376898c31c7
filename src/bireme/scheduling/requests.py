"""What a pod asks of a node, in whole numbers: thousandths of a CPU, units of everything else."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from bireme.api.quantity import NANOS_PER_UNIT, Quantity, QuantityError, parse_quantity

Amounts = dict[str, int]

PODS: Final = "pods"
_BINARY: Final = ("memory", "ephemeral-storage")
# No node has as much, and all that its pods may ask for together stays within 64 bits.
_MOST: Final = 2**55


@lru_cache(maxsize=4096)
def is_quantity(text: str | float) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


@lru_cache(maxsize=4096)
def asked(resource: str, text: str | float) -> int:
    """What somebody asks for, rounded up."""
    quantity = parse_quantity(text)
    return min(quantity.millis() if resource == "cpu" else quantity.units(), _MOST)


@lru_cache(maxsize=4096)
def available(resource: str, text: str | float) -> int:
    """What somebody can give, rounded down."""
    quantity = parse_quantity(text)
    return min(quantity.millis_available() if resource == "cpu" else quantity.units_available(), _MOST)


def read_asked(resources: Mapping[str, str | float]) -> Amounts:
    return {name: asked(name, text) for name, text in resources.items()}


def read_available(resources: Mapping[str, str | float]) -> Amounts:
    return {name: available(name, text) for name, text in resources.items()}


def write_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """As quantities, the way Kubernetes writes them; nothing for what is zero."""
    return {name: show(name, amount) for name, amount in sorted(amounts.items()) if amount}


def show(resource: str, amount: int) -> str:
    """One amount as a quantity."""
    if resource == "cpu":
        return str(Quantity(amount * 10**6))
    binary = resource in _BINARY or resource.startswith("hugepages-")
    return str(Quantity(amount * NANOS_PER_UNIT, "BinarySI" if binary else "DecimalSI"))


def add(total: Amounts, more: Mapping[str, int], times: int = 1) -> None:
    """Add in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod's scheduling counts: the larger of its containers together and of each init container.

    An init container that stays (restartPolicy Always) counts with the containers, and with every init
    container after it. A limit without a request is one; the pod's overhead comes on top.
    """
    running: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            add(running, own)
            own = {}
        _raise(peak, _sum(running, own))
    for container in spec.get("containers") or ():
        add(running, _container_requests(container))
    _raise(peak, running)
    peak = _with_pod_level(peak, spec)
    add(peak, read_asked(spec.get("overhead") or {}))
    peak[PODS] = 1
    return {name: amount for name, amount in peak.items() if amount}


def _with_pod_level(peak: Amounts, spec: Mapping[str, Any]) -> Amounts:
    """Requests of the pod as a whole, where it states them, stand for its containers'."""
    return peak | _container_requests(spec) if spec.get("resources") else peak


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return read_asked(resources.get("limits") or {}) | read_asked(resources.get("requests") or {})


def _sum(first: Amounts, second: Amounts) -> Amounts:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {*first, *second}}


def _raise(peak: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        peak[name] = max(peak.get(name, 0), amount)


def total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """The sum of many."""
    whole: Amounts = {}
    for part in parts:
        add(whole, part)
    return whole
