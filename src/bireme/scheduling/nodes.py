"""The nodes of a cluster, kept so that a change of one costs as much as one."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from bireme.scheduling.labels import holds, selects, tolerates
from bireme.scheduling.objects import Json, Node
from bireme.scheduling.requests import Amounts, read_available
from bireme.scheduling.room import Counts, Mask, Room
from bireme.scheduling.shape import Shape, repelling
from bireme.scheduling.work import Work

_FIRST_SIZE = 16


class Nodes:
    """Columns of arrays, one per node; a column is used again after its node is gone."""

    def __init__(self) -> None:
        self.by_column: list[Node | None] = []
        self.columns: dict[str, int] = {}
        self.allocatable: dict[str, Amounts] = {}
        self.room = Room(_FIRST_SIZE)
        self.whole = Room(_FIRST_SIZE)
        self.work = Work()
        self._unused: list[int] = []
        # Each of a generation of nodes: it is worked out again when it is asked for in another one.
        self._masks: dict[bytes, tuple[int, Mask]] = {}
        self._generation = 0
        self._taints: tuple[Counts, list[list[Mapping[str, str]]]] | None = None
        self._selections: dict[str, tuple[Mask, Mapping[str, Any]]] = {}
        self._domains: dict[str, tuple[Counts, list[str]]] = {}
        # The numbers of the same domains, by value.
        self._values: dict[str, dict[str, int]] = {}
        # How many nodes have a label. Users name labels that no node has: nothing is kept for those.
        self._labels: Counter[str] = Counter()
        self._unlabelled: Counts = np.full(_FIRST_SIZE, -1, dtype=np.int64)
        self._largest: dict[object, tuple[int, Amounts]] = {}

    def put(self, node: Node) -> None:
        """Add a node, or note how it changed."""
        name = node.metadata.name
        column = self.columns.get(name)
        if column is None:
            column = self._new_column(name)
        before, after = self.allocatable.get(name, {}), read_available(node.status.allocatable)
        for room in (self.room, self.whole):
            room.add(column, before, -1)
            room.add(column, after)
        self.allocatable[name] = after
        known, self.by_column[column] = self.by_column[column], node
        self._largest.clear()
        if known is None or known.metadata.labels != node.metadata.labels or known.spec != node.spec:
            self._labels.update(node.metadata.labels.keys())
            if known is not None:
                self._labels.subtract(known.metadata.labels.keys())
            self._remask(column, node)

    def remove(self, name: str) -> None:
        column = self.columns.pop(name)
        amounts = self.allocatable.pop(name)
        self.room.add(column, amounts, -1)
        self.whole.add(column, amounts, -1)
        known, self.by_column[column] = self.by_column[column], None
        assert known is not None
        self._labels.subtract(known.metadata.labels.keys())
        self._unused.append(column)
        self._remask(column, None)

    def _new_column(self, name: str) -> int:
        if self._unused:
            column = self._unused.pop()
        else:
            column = len(self.by_column)
            self.by_column.append(None)
            if column >= self.room.size:
                self._grow()
        self.columns[name] = column
        return column

    def _grow(self) -> None:
        size = self.room.size * 2
        self.room.grow(size)
        self.whole.grow(size)
        more = np.zeros(size // 2, dtype=bool)
        self._selections = {
            key: (np.concatenate([mask, more]), selector)
            for key, (mask, selector) in self._selections.items()
        }
        self._domains.clear()
        self._values.clear()
        self._unlabelled = np.full(size, -1, dtype=np.int64)

    def _remask(self, column: int, node: Node | None) -> None:
        """Note that a node came, went or changed its labels or taints.

        Masks of shapes follow when they are asked for: users decide how many there are, and this is called
        on the event loop.
        """
        self._generation += 1
        self._taints = None
        for mask, selector in self._selections.values():
            mask[column] = node is not None and selects(selector, node.metadata.labels)
        self._domains.clear()
        self._values.clear()
        self._largest.clear()

    def allowing(self, shape: Shape) -> Mask:
        """The nodes whose labels and taints let the shape in. Not to be changed."""
        known = self._masks.get(shape.place)
        if known is None or known[0] != self._generation:
            known = self._masks[shape.place] = (self._generation, self._find_allowing(shape))
        return known[1]

    def _find_allowing(self, shape: Shape) -> Mask:
        """Ask each requirement about each value that its label has, not about each node."""
        numbers, kinds = self._tainted()
        self.work.spend(sum(map(len, kinds)) * len(shape.tolerations))
        tolerated = [all(tolerates(shape.tolerations, taint) for taint in taints) for taints in kinds]
        mask: Mask = np.asarray([*tolerated, False])[numbers]
        for terms in shape.terms:
            some = np.zeros(self.room.size, dtype=bool)
            for term in terms:
                some |= self._selecting(term)
            mask &= some
        return mask

    def _selecting(self, term: Json) -> Mask:
        """The nodes that one term of a NodeSelector selects; an empty term selects none."""
        expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        mask = np.full(self.room.size, bool(expressions or fields))
        for each in expressions:
            numbers, _ = self.domains(each["key"])
            mask &= self._holding(each, self._values.get(each["key"], {}))[numbers]
        for each in fields:
            # Nodes can be selected by one field, their name.
            values = self.columns if each["key"] == "metadata.name" else {}
            mask &= self._holding(each, values, self.room.size)[: self.room.size]
        return mask

    def _holding(self, requirement: Json, values: Mapping[str, int], size: int | None = None) -> Mask:
        """Of each value, by number, whether a requirement holds; in the last place, without a value."""
        size = len(values) if size is None else size
        operator, wanted = requirement["operator"], requirement.get("values") or ()
        self.work.spend(len(wanted))
        self.work.spend_on_arrays(self.room.size, 8)
        absent = holds(requirement, {})
        found = np.full(size + 1, absent)
        if operator in ("In", "NotIn"):
            for value in wanted:
                if value in values:
                    found[values[value]] = operator == "In"
        else:
            self.work.spend(len(values))
            for value, number in values.items():
                found[number] = holds(requirement, {requirement["key"]: value})
        return found

    def _tainted(self) -> tuple[Counts, list[list[Mapping[str, str]]]]:
        """For each node the number of its taints that keep pods away, -1 for no node; and those taints."""
        if self._taints is None:
            numbers = np.full(self.room.size, -1, dtype=np.int64)
            known: dict[object, int] = {}
            kinds: list[list[Mapping[str, str]]] = []
            for column, node in enumerate(self.by_column):
                if node is not None:
                    taints = repelling(node)
                    key = tuple(tuple(sorted(taint.items())) for taint in taints)
                    if key not in known:
                        known[key] = len(kinds)
                        kinds.append(taints)
                    numbers[column] = known[key]
            self._taints = numbers, kinds
        return self._taints

    def selected(self, key: str, selector: Mapping[str, Any] | None) -> Mask:
        """The nodes that a queue may use: all, if it selects none. Not to be changed."""
        known = self._selections.get(key)
        wanted = {} if selector is None else selector
        if known is None or known[1] != wanted:
            mask = np.zeros(self.room.size, dtype=bool)
            for column, node in enumerate(self.by_column):
                mask[column] = node is not None and selects(wanted, node.metadata.labels)
            known = self._selections[key] = (mask, wanted)
        return known[0]

    def largest(self, key: object, mask: Mask) -> tuple[int, Amounts]:
        """How many nodes a mask has, and the most of each resource on one of them.

        The key stands for the mask; None if nothing does.
        """
        known = self._largest.get(key)
        if known is None:
            most = {name: int(row[mask].max(initial=0)) for name, row in self.whole.free.items()}
            known = (int(mask.sum()), most)
            if key is not None:
                self._largest[key] = known
        return known

    def domains(self, label: str) -> tuple[Counts, list[str]]:
        """For each node the number of its domain by a label, -1 for none; and the domains' names."""
        known = self._domains.get(label)
        if known is None:
            if not self._labels[label]:
                return self._unlabelled, []
            known = self._domains[label] = self._number_domains(label)
        return known

    def _number_domains(self, label: str) -> tuple[Counts, list[str]]:
        numbers = np.full(self.room.size, -1, dtype=np.int64)
        names: dict[str, int] = {}
        for column, node in enumerate(self.by_column):
            if node is not None and (value := node.metadata.labels.get(label)) is not None:
                numbers[column] = names.setdefault(value, len(names))
        self._values[label] = names
        return numbers, list(names)

    def forget_masks(self) -> None:
        """Drop what is remembered about shapes; it is found again when asked for."""
        self._masks.clear()

    def name(self, column: int) -> str:
        node = self.by_column[column]
        assert node is not None
        return node.metadata.name
