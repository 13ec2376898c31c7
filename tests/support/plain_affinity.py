"""The rules of placement in their plainest form: every term is asked about every pod and every node.

The scheduler answers the same questions by indexes (bireme.scheduling.neighbours, Nodes.allowing); properties
compare the two.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bireme.scheduling.labels import Labels, any_term_selects, selects, tolerates
from bireme.scheduling.nodes import Nodes
from bireme.scheduling.objects import Node
from bireme.scheduling.offers import Offers
from bireme.scheduling.placement import Member
from bireme.scheduling.room import Counts, Mask, Room
from bireme.scheduling.shape import Relations, Shape, repelling
from bireme.scheduling.state import State

Json = dict[str, Any]


class PlainResident(NamedTuple):
    """A pod on a node."""

    uid: str
    namespace: str
    labels: Labels
    column: int
    relations: Relations | None


def residents_of(state: State) -> list[PlainResident]:
    return [
        PlainResident(
            uid, each.pod.metadata.namespace, each.pod.metadata.labels, column, each.shape.relations
        )
        for uid, each in state.pods.items()
        if each.holds and (column := state.nodes.columns.get(each.node)) is not None
    ]


def allows(shape: Shape, node: Node) -> bool:
    """Whether the node's labels and taints let the pod in."""
    name, labels = node.metadata.name, node.metadata.labels
    if not all(any_term_selects(terms, name, labels) for terms in shape.terms):
        return False
    return all(tolerates(shape.tolerations, taint) for taint in repelling(node))


class PlainNeighbours:
    """The pods on nodes; all of them are looked at for each question."""

    def __init__(
        self, nodes: Nodes, residents: Sequence[PlainResident], namespaces: Mapping[str, Labels]
    ) -> None:
        self._nodes, self._namespaces = nodes, namespaces
        self._residents = list(residents)

    def add(self, member: Member, column: int) -> None:
        relations = member.shape.relations
        self._residents.append(PlainResident(member.uid, member.namespace, member.labels, column, relations))

    def allowing(self, namespace: str, labels: Labels, relations: Relations | None, eligible: Mask) -> Mask:
        mask = eligible & self._unrepelled(namespace, labels)
        if relations is None:
            return mask
        mask &= self._free_ports(relations)
        for term in relations.anti_affinity:
            domains, counts = self._count(term, relations)
            mask &= ~_in_domain(domains, counts > 0)
        for term in relations.affinity:
            mask &= self._near(term, relations)
        for constraint in relations.spread:
            mask &= self._spread(constraint, relations, eligible)
        return mask

    def _free_ports(self, relations: Relations) -> Mask:
        mask = np.ones(self._nodes.room.size, dtype=bool)
        for each in self._residents:
            if each.relations and _clash(each.relations.ports, relations.ports):
                mask[each.column] = False
        return mask

    def _unrepelled(self, namespace: str, labels: Labels) -> Mask:
        mask = np.ones(self._nodes.room.size, dtype=bool)
        for resident in self._residents:
            for term in resident.relations.anti_affinity if resident.relations is not None else ():
                assert resident.relations is not None
                if self._meant(term, resident.relations, namespace, labels):
                    domains, _ = self._nodes.domains(term["topologyKey"])
                    if domains[resident.column] >= 0:
                        mask &= domains != domains[resident.column]
        return mask

    def _near(self, term: Json, relations: Relations) -> Mask:
        domains, counts = self._count(term, relations)
        if not counts.any() and self._meant(term, relations, relations.namespace, relations.labels):
            return domains >= 0
        return _in_domain(domains, counts > 0)

    def _count(self, term: Json, relations: Relations) -> tuple[Counts, Counts]:
        domains, names = self._nodes.domains(term["topologyKey"])
        meant = [
            each.column
            for each in self._residents
            if self._meant(term, relations, each.namespace, each.labels)
        ]
        return domains, _tally(domains, meant, len(names))

    def _meant(self, term: Json, relations: Relations, namespace: str, labels: Labels) -> bool:
        if not self._in_namespaces(term, relations.namespace, namespace):
            return False
        return selects(_with_keys(term, relations.labels), labels)

    def _in_namespaces(self, term: Json, own: str, other: str) -> bool:
        named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if not named and selector is None:
            return other == own
        return other in named or (selector is not None and selects(selector, self._namespaces.get(other, {})))

    def _spread(self, constraint: Json, relations: Relations, eligible: Mask) -> Mask:
        domains, names = self._nodes.domains(constraint["topologyKey"])
        selector = _with_keys(constraint, relations.labels)
        honours = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
        counted = (domains >= 0) & (eligible if honours else True)
        meant = [
            each.column
            for each in self._residents
            if each.namespace == relations.namespace
            and counted[each.column]
            and selects(selector, each.labels)
        ]
        counts = _tally(domains, meant, len(names))
        present = np.unique(domains[counted])
        least = int(counts[present].min()) if len(present) else 0
        if len(present) < (constraint.get("minDomains") or 1):
            least = 0
        own = 1 if selects(selector, relations.labels) else 0
        return _in_domain(domains, counts + own - least <= constraint["maxSkew"]) & counted


def place_plainly(
    state: State, room: Room, neighbours: PlainNeighbours, members: Sequence[Member], eligible: Mask
) -> dict[str, int] | None:
    """Place members of one shape, one after the other, each where it fits tightest."""
    columns: dict[str, int] = {}
    for member in members:
        shape = member.shape
        allowed = neighbours.allowing(member.namespace, member.labels, shape.relations, eligible)
        offers = Offers(room, state.nodes.whole, state.ranks())
        column = offers.of(None, shape.requests, allowed).tightest(1)
        if column is None:
            return None
        room.take(shape.requests, np.array([column]), np.array([1]))
        neighbours.add(member, column)
        columns[member.uid] = column
    return columns


def _with_keys(rule: Json, labels: Labels) -> Json | None:
    selector: Json | None = rule.get("labelSelector")
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in rule.get(field) or ()
        if key in labels
    ]
    if selector is None or not more:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


def _clash(first: Sequence[tuple[str, str, int]], second: Sequence[tuple[str, str, int]]) -> bool:
    anywhere = "0.0.0.0"
    return any(
        one[1:] == two[1:] and (one[0] == two[0] or anywhere in (one[0], two[0]))
        for one in first
        for two in second
    )


def _tally(domains: Counts, columns: list[int], size: int) -> Counts:
    numbers = domains[columns] if columns else np.zeros(0, dtype=np.int64)
    return np.bincount(numbers[numbers >= 0], minlength=size).astype(np.int64)


def _in_domain(domains: Counts, wanted: Mask) -> Mask:
    if not len(wanted):
        return np.zeros(len(domains), dtype=bool)
    return (domains >= 0) & wanted[np.maximum(domains, 0)]
