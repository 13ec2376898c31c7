"""The shape of a pod: all that decides on which nodes it can run, shared by all pods alike."""

from collections.abc import Mapping
from functools import cached_property
from itertools import count
from typing import Any, Final

import msgspec

from bireme.api.paths import format_path
from bireme.api.term_limits import excess_terms
from bireme.scheduling.affinity_terms import CompiledRules, compile_rules
from bireme.scheduling.objects import Json, Node, Pod
from bireme.scheduling.requests import Amounts, pod_requests

UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_REPELS: Final = ("NoSchedule", "NoExecute")


class Relations(msgspec.Struct, frozen=True, dict=True):
    """What a pod demands of the pods beside it."""

    namespace: str
    labels: dict[str, str]
    ports: tuple[tuple[str, str, int], ...] = ()
    affinity: tuple[Json, ...] = ()
    anti_affinity: tuple[Json, ...] = ()
    spread: tuple[Json, ...] = ()

    @cached_property
    def rules(self) -> CompiledRules:
        """The same, ready to be asked."""
        return compile_rules(self.namespace, self.labels, self.affinity, self.anti_affinity, self.spread)


class Shape:
    """Requests and constraints. Two pods have the same Shape object if and only if they are alike."""

    __slots__ = (
        "claims",
        "excess",
        "key",
        "number",
        "place",
        "relations",
        "requests",
        "terms",
        "tolerations",
    )

    def __init__(self, key: bytes, number: int, pod: Pod, requests: Amounts) -> None:
        self.key, self.number, self.requests = key, number, requests
        self.terms = _node_terms(pod)
        self.tolerations = pod.spec.tolerations
        self.relations = _relations(pod)
        # Why it has too many terms to be placed; empty if it has not.
        self.excess = _excess(pod)
        self.claims = (pod.metadata.namespace, *claim_names(pod))
        # Shapes that want the same nodes share what is known about those.
        self.place = msgspec.json.encode((self.terms, self.tolerations))


def repelling(node: Node) -> list[Mapping[str, str]]:
    """The taints that keep pods away."""
    taints: list[Mapping[str, str]] = [each for each in node.spec.taints if each.get("effect") in _REPELS]
    if node.spec.unschedulable and not any(each["key"] == UNSCHEDULABLE["key"] for each in taints):
        taints.append(UNSCHEDULABLE)
    return taints


def _node_terms(pod: Pod) -> list[list[Json]]:
    """Alternatives, each of which must select the node."""
    terms: list[list[Json]] = []
    if pod.spec.node_selector:
        wanted = [
            {"key": key, "operator": "In", "values": [value]} for key, value in pod.spec.node_selector.items()
        ]
        terms.append([{"matchExpressions": wanted}])
    required = _section(pod.spec.affinity, "nodeAffinity")
    if required:
        terms.append(required.get("nodeSelectorTerms") or [])
    return terms


def _excess(pod: Pod) -> str:
    spec = {
        "affinity": pod.spec.affinity,
        "topologySpreadConstraints": pod.spec.topology_spread_constraints,
    }
    found = next(excess_terms(spec), None)
    return f"{format_path(found.path)}: {found.message}" if found is not None else ""


def _section(affinity: Json, name: str) -> Any:
    return (affinity.get(name) or {}).get("requiredDuringSchedulingIgnoredDuringExecution")


def claim_names(pod: Pod) -> list[str]:
    """The PersistentVolumeClaims that a pod uses, an ephemeral volume's included."""
    names = []
    for volume in pod.spec.volumes:
        if claim := volume.get("persistentVolumeClaim"):
            names.append(claim["claimName"])
        elif volume.get("ephemeral"):
            names.append(f"{pod.metadata.name}-{volume['name']}")
    return names


def _relations(pod: Pod) -> Relations | None:
    ports = host_ports(pod)
    near, apart = (
        tuple(_section(pod.spec.affinity, name) or ()) for name in ("podAffinity", "podAntiAffinity")
    )
    spread = tuple(
        each
        for each in pod.spec.topology_spread_constraints
        if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    )
    if not (ports or near or apart or spread):
        return None
    return Relations(pod.metadata.namespace, pod.metadata.labels, ports, near, apart, spread)


def host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    """Address, protocol and number of each port of the node that a pod takes."""
    return tuple(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])  # noqa: S104 - any
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


class Shapes:
    """Finds the shape of a pod; equal pods get the same object."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, Shape] = {}
        # Never given twice: what is remembered of a shape goes by its number.
        self._numbers = count()

    def of(self, pod: Pod) -> Shape:
        key = _key(pod)
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = Shape(key, next(self._numbers), pod, _requests(pod))
        return shape

    def __len__(self) -> int:
        return len(self._by_key)

    def prune(self, used: set[Shape]) -> None:
        """Forget the shapes that no pod has any more."""
        self._by_key = {key: shape for key, shape in self._by_key.items() if shape in used}


def _requests(pod: Pod) -> Amounts:
    spec = pod.spec
    return pod_requests(
        {
            "containers": spec.containers,
            "initContainers": spec.init_containers,
            "overhead": spec.overhead,
            "resources": spec.resources,
        }
    )


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def _key(pod: Pod) -> bytes:
    """All that a Shape is made of. Labels count only where the pod's own rules look at them."""
    spec = pod.spec
    containers = [
        (each.get("resources"), each.get("restartPolicy"), _port_key(each))
        for each in (*spec.init_containers, *spec.containers)
    ]
    pod_rules = {name: rule for name, rule in spec.affinity.items() if name != "nodeAffinity"}
    related = bool(pod_rules or spec.topology_spread_constraints or any(each[2] for each in containers))
    parts = (
        len(spec.init_containers),
        containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints if related else (),
        (pod.metadata.namespace, pod.metadata.labels) if related else (),
        (pod.metadata.namespace, *claims) if (claims := claim_names(pod)) else (),
    )
    return _ENCODER.encode(parts)


def _port_key(container: Json) -> list[Json]:
    return [port for port in container.get("ports") or () if port.get("hostPort")]
