"""Terms of inter-pod affinity and spread, compiled once and found by label.

Kubernetes writes these rules as label selectors. To ask each term about each pod costs terms × pods, which a
user controls. Two facts make it cheaper:

- Pods with equal namespace and labels are selected alike. They form one `PodClass`, and a `TermSet` is asked
  once about each class (`Matches` remembers the answer).
- Most selectors require a label with a certain value, or at least a certain label. That is the term's anchor:
  a class without it is never selected. `TermSet.anchors` and the indexes in `neighbours` use it, so that only
  candidates are looked at.

A TermSet answers with the topology keys of the terms that select a class, as placement needs no more: the pod
must be in, or must not be in, the domain by that key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bireme.scheduling.labels import Labels, selector_problem, selects
from bireme.scheduling.work import Work

Json = dict[str, Any]
Pair = tuple[str, str]

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_REMEMBERED: Final = 200_000
"""Answers that are kept at once."""


class PodClass(NamedTuple):
    """All that a selector can tell pods apart by."""

    namespace: str
    labels: frozenset[Pair]


def class_of(namespace: str, labels: Labels) -> PodClass:
    return PodClass(namespace, frozenset(labels.items()))


class _Requirement(NamedTuple):
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
        return value is None


class Term:
    """A term of podAffinity or podAntiAffinity, or a spread constraint, of a pod with these labels."""

    __slots__ = ("_named", "_namespace", "_namespace_selector", "requirements", "topology_key")

    def __init__(self, rule: Json, namespace: str, labels: Labels) -> None:
        self.topology_key: str = rule["topologyKey"]
        self._namespace = namespace
        self._named = frozenset(rule.get("namespaces") or ())
        self._namespace_selector: Json | None = rule.get("namespaceSelector")
        # None selects nothing.
        self.requirements = _requirements(resolved_selector(rule, labels))

    @property
    def cost(self) -> int:
        """Steps of one answer."""
        return 1 + len(self.requirements or ())

    @property
    def anchor(self) -> tuple[Sequence[Pair], str | None]:
        """Labels of which a selected pod has one, or else the name of a label that it has."""
        present = None
        for each in self.requirements or ():
            if each.operator == "In":
                return [(each.key, value) for value in sorted(each.values)], None
            if each.operator == "Exists" and present is None:
                present = each.key
        return (), present

    def selects(self, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> bool:
        """Whether pods of this namespace with these labels are meant."""
        if self.requirements is None or not all(each.holds(labels) for each in self.requirements):
            return False
        if not self._named and self._namespace_selector is None:
            return namespace == self._namespace
        return namespace in self._named or (
            self._namespace_selector is not None
            and selects(self._namespace_selector, namespaces.get(namespace, {}))
        )


def resolved_selector(rule: Json, labels: Labels) -> Json | None:
    """Return the rule's selector with the pod's own values of matchLabelKeys and mismatchLabelKeys in it."""
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


def _requirements(selector: Json | None) -> tuple[_Requirement, ...] | None:
    if selector is None or selector_problem(selector):
        return None
    pairs = (selector.get("matchLabels") or {}).items()
    return (
        *(_Requirement(key, "In", frozenset((value,))) for key, value in pairs),
        *(
            _Requirement(each["key"], each["operator"], frozenset(each.get("values") or ()))
            for each in selector.get("matchExpressions") or ()
        ),
    )


class Anchors(NamedTuple):
    """Where to look for what a TermSet selects; `all` if some term has no anchor."""

    pairs: tuple[Pair, ...]
    keys: tuple[str, ...]
    all: bool


class TermSet:
    """Terms of one pod that are asked together; equal sets of other pods are the same set."""

    __slots__ = ("_by_key", "_by_pair", "_hash", "_key", "_rest", "anchors")

    def __init__(self, rules: Sequence[Json], namespace: str, labels: Labels) -> None:
        self._key = _ENCODER.encode(
            [
                (
                    resolved_selector(rule, labels),
                    rule["topologyKey"],
                    rule.get("namespaces"),
                    rule.get("namespaceSelector"),
                    namespace,
                )
                for rule in rules
            ]
        )
        self._hash = hash(self._key)
        self._by_pair: dict[Pair, list[Term]] = {}
        self._by_key: dict[str, list[Term]] = {}
        self._rest: list[Term] = []
        for rule in rules:
            self._add(Term(rule, namespace, labels))
        self.anchors = Anchors(tuple(self._by_pair), tuple(self._by_key), bool(self._rest))

    def _add(self, term: Term) -> None:
        if term.requirements is None:
            return
        pairs, key = term.anchor
        for pair in pairs:
            self._by_pair.setdefault(pair, []).append(term)
        if key is not None:
            self._by_key.setdefault(key, []).append(term)
        elif not pairs:
            self._rest.append(term)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TermSet) and self._key == other._key

    def keys_selecting(self, pods: PodClass, namespaces: Mapping[str, Labels], work: Work) -> tuple[str, ...]:
        """Return the topology keys of the terms that select the class."""
        labels = dict(pods.labels)
        found: set[str] = set()

        def ask(terms: Sequence[Term]) -> None:
            for term in terms:
                if term.topology_key not in found:
                    work.spend(term.cost)
                    if term.selects(pods.namespace, labels, namespaces):
                        found.add(term.topology_key)

        work.spend(1 + len(labels))
        for pair in sorted(pods.labels):
            ask(self._by_pair.get(pair, ()))
            ask(self._by_key.get(pair[0], ()))
        ask(self._rest)
        return tuple(sorted(found))


class Matches:
    """Remembers which topology keys of a TermSet select a class."""

    def __init__(self, namespaces: Mapping[str, Labels], work: Work) -> None:
        self._namespaces, self._work = namespaces, work
        self._known: dict[TermSet, dict[PodClass, tuple[str, ...]]] = {}
        self._size = 0

    def keys(self, terms: TermSet, pods: PodClass) -> tuple[str, ...]:
        known = self._known.get(terms)
        if known is None:
            known = self._known[terms] = {}
        found = known.get(pods)
        if found is None:
            found = terms.keys_selecting(pods, self._namespaces, self._work)
            if self._size >= _REMEMBERED:
                known = {}
                self._known, self._size = {terms: known}, 0
            known[pods] = found
            self._size += 1
        return found


class CompiledRules(NamedTuple):
    """What a pod demands of the pods beside it, ready to be asked."""

    apart: TermSet | None
    near: tuple[tuple[Json, TermSet], ...]
    spread: tuple[tuple[Json, TermSet], ...]


def compile_rules(
    namespace: str,
    labels: Labels,
    affinity: Sequence[Json],
    anti_affinity: Sequence[Json],
    spread: Sequence[Json],
) -> CompiledRules:
    """Compile the rules of a pod of this namespace with these labels."""

    def alone(rule: Json) -> tuple[Json, TermSet]:
        return rule, TermSet([rule], namespace, labels)

    apart = TermSet(anti_affinity, namespace, labels) if anti_affinity else None
    return CompiledRules(apart, tuple(map(alone, affinity)), tuple(map(alone, spread)))
