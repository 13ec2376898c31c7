"""What pods demand of the pods beside them: ports, affinity, anti-affinity, spread.

Few pods have such demands, so nothing is kept for them: the residents are counted when asked.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np

from bireme.scheduling.labels import Labels, selects
from bireme.scheduling.nodes import Nodes
from bireme.scheduling.objects import Json
from bireme.scheduling.room import Counts, Mask
from bireme.scheduling.shape import Relations, Shape


class Resident(NamedTuple):
    """A pod on a node, as its neighbours see it."""

    uid: str
    namespace: str
    labels: Labels
    column: int
    relations: Relations | None


class Newcomer(Protocol):
    """A pod that a plan puts on a node."""

    @property
    def uid(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    def at(self, column: int) -> Resident: ...


class Neighbours:
    """The pods that are on nodes, with those that a plan would put there.

    A copy sees what is added to its original, also later on, and keeps what is added to itself.
    """

    def __init__(
        self,
        nodes: Nodes,
        present: Callable[[], Iterable[Resident]],
        repelling: Sequence[Resident],
        namespaces: Mapping[str, Labels],
    ) -> None:
        self._nodes, self._namespaces, self._present = nodes, namespaces, present
        self._gone: frozenset[str] = frozenset()
        # Most are never looked at: they are made into residents when they are.
        self._added: list[list[tuple[Sequence[Newcomer], Mapping[str, int]]]] = [[]]
        self._repelling: list[list[Resident]] = [list(repelling), []]

    @property
    def repel(self) -> bool:
        """Whether a pod without demands may still be kept away by others."""
        return any(self._repelling)

    def copy(self) -> "Neighbours":
        return self.without(frozenset())

    def without(self, uids: frozenset[str]) -> "Neighbours":
        """As it would be with these pods gone."""
        other = copy.copy(self)
        other._gone = self._gone | uids if uids else self._gone
        other._added = [*self._added, []]
        other._repelling = [*self._repelling, []]
        return other

    def add(self, pods: Sequence["Newcomer"], columns: Mapping[str, int]) -> None:
        """Let pods be there too, each on the column that is found by its uid."""
        self._added[-1].append((pods, columns))
        for each in pods:
            relations = each.shape.relations
            if relations is not None and relations.anti_affinity:
                self._repelling[-1].append(each.at(columns[each.uid]))

    def _newcomers(self) -> Iterator[Resident]:
        for pods, columns in chain(*self._added):
            for each in pods:
                yield each.at(columns[each.uid])

    def _residents(self) -> Iterator[Resident]:
        everybody = chain(self._present(), self._newcomers())
        return (each for each in everybody if each.uid not in self._gone)

    def _repellers(self) -> Iterator[Resident]:
        return (each for each in chain(*self._repelling) if each.uid not in self._gone)

    def allowing(self, namespace: str, labels: Labels, relations: Relations | None, eligible: Mask) -> Mask:
        """The nodes among the eligible that all demands leave."""
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
        if relations.ports:
            for each in self._residents():
                if each.relations and _clash(each.relations.ports, relations.ports):
                    mask[each.column] = False
        return mask

    def _unrepelled(self, namespace: str, labels: Labels) -> Mask:
        mask = np.ones(self._nodes.room.size, dtype=bool)
        for resident in self._repellers():
            assert resident.relations is not None
            for term in resident.relations.anti_affinity:
                if self._meant(term, resident.relations, namespace, labels):
                    domains, _ = self._nodes.domains(term["topologyKey"])
                    if domains[resident.column] >= 0:
                        mask &= domains != domains[resident.column]
        return mask

    def _near(self, term: Json, relations: Relations) -> Mask:
        domains, counts = self._count(term, relations)
        if not counts.any() and self._meant(term, relations, relations.namespace, relations.labels):
            # The first of a set that wants to be together.
            return domains >= 0
        return _in_domain(domains, counts > 0)

    def _count(self, term: Json, relations: Relations) -> tuple[Counts, Counts]:
        domains, names = self._nodes.domains(term["topologyKey"])
        meant = [
            each.column
            for each in self._residents()
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
        """The domains in which one pod more keeps the skew."""
        domains, names = self._nodes.domains(constraint["topologyKey"])
        selector = _with_keys(constraint, relations.labels)
        counted = (domains >= 0) & (eligible if _honours_affinity(constraint) else True)
        meant = [
            each.column
            for each in self._residents()
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


def _honours_affinity(constraint: Json) -> bool:
    return bool(constraint.get("nodeAffinityPolicy", "Honor") == "Honor")


def _with_keys(rule: Json, labels: Labels) -> Json | None:
    """The rule's selector, with the own values of matchLabelKeys and mismatchLabelKeys in it."""
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
    anywhere = "0.0.0.0"  # noqa: S104 - compared, not bound
    return any(
        one[1:] == two[1:] and (one[0] == two[0] or anywhere in (one[0], two[0]))
        for one in first
        for two in second
    )


def _tally(domains: Counts, columns: list[int], size: int) -> Counts:
    numbers = domains[columns] if columns else np.zeros(0, dtype=np.int64)
    return np.bincount(numbers[numbers >= 0], minlength=size).astype(np.int64)


def _in_domain(domains: Counts, wanted: Mask) -> Mask:
    """The nodes that are in one of the wanted domains."""
    if not len(wanted):
        return np.zeros(len(domains), dtype=bool)
    return (domains >= 0) & wanted[np.maximum(domains, 0)]
