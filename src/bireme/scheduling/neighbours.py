"""What pods demand of the pods beside them: host ports, affinity, anti-affinity, spread.

`Residents` indexes pods on nodes by class, by the anti-affinity terms that they carry, and by host port.
`State` keeps one for the pods of the cluster, from the first time that a rule is asked; plans add layers with
the pods that they would place. `Neighbours` is such a stack of layers, with some pods taken out.

`Neighbours.constraints` works out which nodes are left for a pod. It reads the matching pods of all layers
once, and then follows the pods that are added to its own layer, so a gang of n pods with t terms costs about
n + t instead of n × n × t.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bireme.scheduling.affinity_terms import Anchors, Json, Matches, Pair, PodClass, TermSet, class_of
from bireme.scheduling.labels import Labels
from bireme.scheduling.nodes import Nodes
from bireme.scheduling.room import Counts, Mask
from bireme.scheduling.shape import Relations, Shape
from bireme.scheduling.work import Work

K = TypeVar("K")
V = TypeVar("V")

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not bound


class Resident(NamedTuple):
    """A pod on a node, as its neighbours see it."""

    uid: str
    pods: PodClass
    node: str
    relations: Relations | None


class Newcomer(Protocol):
    """A pod that a plan puts on a node."""

    @property
    def uid(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    def at(self, node: str) -> Resident: ...


class _ByLabel:
    """Classes of pods, found by the labels that they have."""

    def __init__(self) -> None:
        # Dictionaries as ordered sets: the count of work must not depend on the order of hashes.
        self._by_pair: dict[Pair, dict[PodClass, None]] = {}
        self._by_key: dict[str, dict[PodClass, None]] = {}

    def add(self, pods: PodClass) -> None:
        for pair in pods.labels:
            self._by_pair.setdefault(pair, {})[pods] = None
            self._by_key.setdefault(pair[0], {})[pods] = None

    def remove(self, pods: PodClass) -> None:
        for pair in pods.labels:
            _drop(self._by_pair, pair, pods)
            _drop(self._by_key, pair[0], pods)

    def candidates(self, anchors: Anchors) -> Iterator[PodClass]:
        """The classes that have one of the labels; some may come twice."""
        for pair in anchors.pairs:
            yield from self._by_pair.get(pair, ())
        for key in anchors.keys:
            yield from self._by_key.get(key, ())


class _ByAnchor:
    """Sets of terms, found by the labels that they look for."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[TermSet, None]] = {}
        self._by_key: dict[str, dict[TermSet, None]] = {}
        self._all: dict[TermSet, None] = {}

    def add(self, terms: TermSet) -> None:
        for pair in terms.anchors.pairs:
            self._by_pair.setdefault(pair, {})[terms] = None
        for key in terms.anchors.keys:
            self._by_key.setdefault(key, {})[terms] = None
        if terms.anchors.all:
            self._all[terms] = None

    def remove(self, terms: TermSet) -> None:
        for pair in terms.anchors.pairs:
            _drop(self._by_pair, pair, terms)
        for key in terms.anchors.keys:
            _drop(self._by_key, key, terms)
        self._all.pop(terms, None)

    def candidates(self, pods: PodClass) -> Iterator[TermSet]:
        """The sets that may select the class; some may come twice."""
        yield from self._all
        for pair in sorted(pods.labels):
            yield from self._by_pair.get(pair, ())
            yield from self._by_key.get(pair[0], ())


def _drop(index: dict[K, dict[V, None]], key: K, value: V) -> None:
    values = index.get(key)
    if values is not None:
        values.pop(value, None)
        if not values:
            del index[key]


class Residents:
    """Pods on nodes, indexed by all that rules look at."""

    def __init__(self) -> None:
        self._pods: dict[str, Resident] = {}
        # Each by uid, with the name of the node.
        self.of_class: dict[PodClass, dict[str, str]] = {}
        self.carrying: dict[TermSet, dict[str, str]] = {}
        self.on_port: dict[tuple[str, int], dict[str, Resident]] = {}
        self._classes = _ByLabel()
        self._terms = _ByAnchor()

    def add(self, resident: Resident) -> None:
        uid, node = resident.uid, resident.node
        self.remove(uid)
        self._pods[uid] = resident
        alike = self.of_class.get(resident.pods)
        if alike is None:
            alike = self.of_class[resident.pods] = {}
            self._classes.add(resident.pods)
        alike[uid] = node
        if resident.relations is None:
            return
        apart = resident.relations.rules.apart
        if apart is not None:
            if apart not in self.carrying:
                self._terms.add(apart)
            self.carrying.setdefault(apart, {})[uid] = node
        for _, protocol, number in resident.relations.ports:
            self.on_port.setdefault((protocol, number), {})[uid] = resident

    def remove(self, uid: str) -> None:
        resident = self._pods.pop(uid, None)
        if resident is None:
            return
        if _leave(self.of_class, resident.pods, uid):
            self._classes.remove(resident.pods)
        if resident.relations is None:
            return
        apart = resident.relations.rules.apart
        if apart is not None and _leave(self.carrying, apart, uid):
            self._terms.remove(apart)
        for _, protocol, number in resident.relations.ports:
            _leave(self.on_port, (protocol, number), uid)

    def classes_for(self, terms: TermSet) -> Iterable[PodClass]:
        """The classes that the terms may select."""
        if terms.anchors.all:
            return self.of_class
        return dict.fromkeys(self._classes.candidates(terms.anchors))

    def terms_for(self, pods: PodClass) -> Iterable[TermSet]:
        """The anti-affinity terms of residents that may select the class."""
        return dict.fromkeys(self._terms.candidates(pods))


def _leave(index: dict[K, dict[str, V]], key: K, uid: str) -> bool:
    """Take a pod out; say whether it was the last."""
    pods = index.get(key)
    if pods is None:
        return False
    pods.pop(uid, None)
    if pods:
        return False
    del index[key]
    return True


class _Layer:
    """Pods that a plan adds. Most are never looked at: they are indexed when they are."""

    __slots__ = ("_pending", "_residents", "log", "repels")

    def __init__(self) -> None:
        self._pending: list[tuple[Sequence[Newcomer], Mapping[str, int]]] = []
        self._residents: Residents | None = None
        self.log: list[Resident] = []
        self.repels = False

    def add(self, pods: Sequence[Newcomer], columns: Mapping[str, int]) -> None:
        self._pending.append((pods, columns))
        if not self.repels:
            self.repels = any(
                (relations := each.shape.relations) is not None and relations.anti_affinity for each in pods
            )

    def residents(self, nodes: Nodes) -> Residents | None:
        if self._pending:
            if self._residents is None:
                self._residents = Residents()
            for pods, columns in self._pending:
                for each in pods:
                    resident = each.at(nodes.name(columns[each.uid]))
                    self._residents.add(resident)
                    self.log.append(resident)
            self._pending.clear()
        return self._residents


class Neighbours:
    """The pods that are on nodes, with those that a plan would put there.

    A copy sees what is added to its original, also later on, and keeps what is added to itself.
    """

    def __init__(
        self,
        nodes: Nodes,
        present: Callable[[], Residents],
        matches: Matches,
        work: Work,
        *,
        repels: bool,
    ) -> None:
        self.nodes, self.matches, self.work = nodes, matches, work
        self._present, self._repels = present, repels
        self.gone: frozenset[str] = frozenset()
        self._layers = [_Layer()]

    @property
    def repel(self) -> bool:
        """Whether a pod without demands may still be kept away by others."""
        return self._repels or any(layer.repels for layer in self._layers)

    def copy(self) -> "Neighbours":
        return self.without(frozenset())

    def without(self, uids: frozenset[str]) -> "Neighbours":
        """As it would be with these pods gone."""
        other = copy.copy(self)
        other.gone = self.gone | uids if uids else self.gone
        other._layers = [*self._layers, _Layer()]
        return other

    def add(self, pods: Sequence[Newcomer], columns: Mapping[str, int]) -> None:
        """Let pods be there too, each on the column that is found by its uid."""
        self._layers[-1].add(pods, columns)

    def residents(self) -> list[Residents]:
        """The pods of the cluster, then those of each layer."""
        layers = (layer.residents(self.nodes) for layer in self._layers)
        return [self._present(), *(each for each in layers if each is not None)]

    def added(self) -> list[Resident]:
        """The pods of the own layer, in the order in which they came."""
        self._layers[-1].residents(self.nodes)
        return self._layers[-1].log

    def constraints(self, relations: Relations | None, eligible: Mask) -> "Constraints":
        """What is left of the eligible nodes for pods with these relations, as pods are added here."""
        return Constraints(self, relations, eligible)

    def columns(self, pods: Mapping[str, str]) -> list[int]:
        """The nodes of pods, given by uid and name of the node, without pods that are gone."""
        self.work.spend(len(pods))
        gone, known = self.gone, self.nodes.columns
        return [
            column
            for uid, node in pods.items()
            if uid not in gone and (column := known.get(node)) is not None
        ]


class Constraints:
    """The nodes that pods of one shape may use beside their neighbours.

    Follows the own layer of its Neighbours. Other layers must not change while it is used.
    """

    def __init__(self, neighbours: Neighbours, relations: Relations | None, eligible: Mask) -> None:
        self._neighbours, self._relations = neighbours, relations
        self._nodes, self._work = neighbours.nodes, neighbours.work
        self._residents = neighbours.residents()
        self._seen = len(neighbours.added())
        self._repelled: dict[PodClass, Mask] = {}
        self._mask = eligible.copy()
        self._near: list[_Near] = []
        self._spread: list[_Spread] = []
        if relations is not None:
            self._start(relations, eligible)

    def _start(self, relations: Relations, eligible: Mask) -> None:
        for _, protocol, number in relations.ports:
            for residents in self._residents:
                for each in residents.on_port.get((protocol, number), {}).values():
                    self._keep_ports(relations, each)
        self._work.spend(
            40 * (len(relations.affinity) + len(relations.spread)) + len(relations.anti_affinity)
        )
        own, rules = class_of(relations.namespace, relations.labels), relations.rules
        if rules.apart is not None:
            for key, columns in self._selected(rules.apart).items():
                self._exclude(self._mask, key, columns)
        for rule, terms in rules.near:
            near = _Near(self._nodes, rule, terms, is_own=bool(self._keys(terms, own)))
            near.add(self._selected(terms).get(rule["topologyKey"], ()))
            self._near.append(near)
        for rule, terms in rules.spread:
            spread = _Spread(self._nodes, rule, terms, eligible, is_own=bool(self._keys(terms, own)))
            spread.add(self._selected(terms).get(rule["topologyKey"], ()))
            self._spread.append(spread)

    def _keys(self, terms: TermSet, pods: PodClass) -> tuple[str, ...]:
        return self._neighbours.matches.keys(terms, pods)

    def _selected(self, terms: TermSet) -> dict[str, list[int]]:
        """Where the pods are that the terms select, by topology key."""
        found: dict[str, list[int]] = {}
        for residents in self._residents:
            for pods in residents.classes_for(terms):
                self._work.spend(4)
                keys = self._keys(terms, pods)
                if keys:
                    columns = self._neighbours.columns(residents.of_class[pods])
                    for key in keys:
                        found.setdefault(key, []).extend(columns)
        return found

    def _exclude(self, mask: Mask, key: str, columns: Sequence[int]) -> None:
        """Leave out the domains of these nodes; a node outside of all domains has nobody beside it."""
        if not columns:
            return
        self._work.spend_on_arrays(len(mask), 8)
        domains, names = self._nodes.domains(key)
        excluded = np.zeros(len(names) + 1, dtype=bool)
        excluded[domains[columns]] = True
        excluded[-1] = False
        mask &= ~excluded[domains]

    def allowed(self, namespace: str, labels: Labels) -> Mask:
        """The nodes that are left for one more pod. Not to be changed."""
        self._follow()
        self._work.spend_on_arrays(len(self._mask), 4 + 4 * len(self._near) + 12 * len(self._spread))
        mask = self._mask & self._unrepelled(class_of(namespace, labels))
        for near in self._near:
            mask &= near.mask()
        for spread in self._spread:
            mask &= spread.mask()
        return mask

    def _unrepelled(self, pods: PodClass) -> Mask:
        """The nodes that no resident keeps the class away from."""
        known = self._repelled.get(pods)
        if known is None:
            known = self._repelled[pods] = np.ones(len(self._mask), dtype=bool)
            for residents in self._neighbours.residents():
                for terms in residents.terms_for(pods):
                    self._work.spend(1)
                    keys = self._keys(terms, pods)
                    if keys:
                        columns = self._neighbours.columns(residents.carrying[terms])
                        for key in keys:
                            self._exclude(known, key, columns)
        return known

    def _follow(self) -> None:
        """Take in what was added since."""
        log = self._neighbours.added()
        while self._seen < len(log):
            resident = log[self._seen]
            self._seen += 1
            column = self._nodes.columns.get(resident.node)
            if column is not None and resident.uid not in self._neighbours.gone:
                self._take_in(resident, column)

    def _take_in(self, resident: Resident, column: int) -> None:
        self._work.spend(8 + len(self._near) + len(self._spread) + len(self._repelled))
        self._take_in_repeller(resident, column)
        if self._relations is None:
            return
        self._keep_ports(self._relations, resident)
        apart = self._relations.rules.apart
        if apart is not None:
            for key in self._keys(apart, resident.pods):
                self._exclude(self._mask, key, [column])
        rules: list[_Near | _Spread] = [*self._near, *self._spread]
        for rule in rules:
            if self._keys(rule.terms, resident.pods):
                rule.add([column])

    def _take_in_repeller(self, resident: Resident, column: int) -> None:
        apart = resident.relations.rules.apart if resident.relations is not None else None
        if apart is not None:
            for pods, mask in self._repelled.items():
                for key in self._keys(apart, pods):
                    self._exclude(mask, key, [column])

    def _keep_ports(self, relations: Relations, resident: Resident) -> None:
        """Leave out the node of a pod that has a port which is wanted."""
        self._work.spend(1)
        theirs = resident.relations.ports if resident.relations is not None else ()
        column = self._nodes.columns.get(resident.node)
        if theirs and column is not None and resident.uid not in self._neighbours.gone:
            self._work.spend(len(theirs) * len(relations.ports))
            if _clash(theirs, relations.ports):
                self._mask[column] = False


class _Near:
    """A term of podAffinity: a domain in which a pod is that it selects."""

    def __init__(self, nodes: Nodes, rule: Json, terms: TermSet, *, is_own: bool) -> None:
        self.terms, self._is_own = terms, is_own
        self._domains, names = nodes.domains(rule["topologyKey"])
        self._wanted = np.zeros(len(names) + 1, dtype=bool)

    def add(self, columns: Sequence[int]) -> None:
        if columns:
            self._wanted[self._domains[columns]] = True
            self._wanted[-1] = False

    def mask(self) -> Mask:
        if self._is_own and not self._wanted.any():
            # The first of a set that wants to be together.
            return self._domains >= 0
        return np.asarray(self._wanted[self._domains])


class _Spread:
    """A spread constraint: the domains in which one pod more keeps the skew."""

    def __init__(self, nodes: Nodes, rule: Json, terms: TermSet, eligible: Mask, *, is_own: bool) -> None:
        self.terms, self._own = terms, int(is_own)
        self._domains, names = nodes.domains(rule["topologyKey"])
        honours = rule.get("nodeAffinityPolicy", "Honor") == "Honor"
        self._counted = (self._domains >= 0) & (eligible if honours else True)
        self._counts: Counts = np.zeros(len(names) + 1, dtype=np.int64)
        self._present = np.unique(self._domains[self._counted])
        self._least_is_zero = len(self._present) < (rule.get("minDomains") or 1) or not len(self._present)
        self._skew: int = rule["maxSkew"]

    def add(self, columns: Sequence[int]) -> None:
        for column in columns:
            if self._counted[column]:
                self._counts[self._domains[column]] += 1

    def mask(self) -> Mask:
        least = 0 if self._least_is_zero else int(self._counts[self._present].min())
        return np.asarray((self._counts + self._own - least <= self._skew)[self._domains]) & self._counted


def _clash(first: Iterable[tuple[str, str, int]], second: Sequence[tuple[str, str, int]]) -> bool:
    return any(
        one[1:] == two[1:] and (one[0] == two[0] or _ANY_ADDRESS in (one[0], two[0]))
        for one in first
        for two in second
    )
