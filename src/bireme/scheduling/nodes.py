"""The nodes of a cluster, kept so that a change of one costs as much as one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bireme.scheduling.labels import selects
from bireme.scheduling.objects import Node
from bireme.scheduling.requests import Amounts, read_available
from bireme.scheduling.room import Counts, Mask, Room
from bireme.scheduling.shape import Shape

_FIRST_SIZE = 16


class Nodes:
    """Columns of arrays, one per node; a column is used again after its node is gone."""

    def __init__(self) -> None:
        self.by_column: list[Node | None] = []
        self.columns: dict[str, int] = {}
        self.allocatable: dict[str, Amounts] = {}
        self.room = Room(_FIRST_SIZE)
        self.whole = Room(_FIRST_SIZE)
        self._unused: list[int] = []
        self._masks: dict[bytes, tuple[Mask, Shape]] = {}
        self._selections: dict[str, tuple[Mask, Mapping[str, Any]]] = {}
        self._domains: dict[str, tuple[Counts, list[str]]] = {}
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
        self.by_column[column] = node
        self._remask(column, node)

    def remove(self, name: str) -> None:
        column = self.columns.pop(name)
        amounts = self.allocatable.pop(name)
        self.room.add(column, amounts, -1)
        self.whole.add(column, amounts, -1)
        self.by_column[column] = None
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
        self._masks = {
            key: (np.concatenate([mask, more]), shape) for key, (mask, shape) in self._masks.items()
        }
        self._selections = {
            key: (np.concatenate([mask, more]), selector)
            for key, (mask, selector) in self._selections.items()
        }
        self._domains.clear()

    def _remask(self, column: int, node: Node | None) -> None:
        for mask, shape in self._masks.values():
            mask[column] = node is not None and shape.allows(node)
        for mask, selector in self._selections.values():
            mask[column] = node is not None and selects(selector, node.metadata.labels)
        self._domains.clear()
        self._largest.clear()

    def allowing(self, shape: Shape) -> Mask:
        """The nodes whose labels and taints let the shape in. Not to be changed."""
        known = self._masks.get(shape.place)
        if known is None:
            mask = np.zeros(self.room.size, dtype=bool)
            for column, node in enumerate(self.by_column):
                mask[column] = node is not None and shape.allows(node)
            known = self._masks[shape.place] = (mask, shape)
        return known[0]

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
            known = self._domains[label] = self._number_domains(label)
        return known

    def _number_domains(self, label: str) -> tuple[Counts, list[str]]:
        numbers = np.full(self.room.size, -1, dtype=np.int64)
        names: dict[str, int] = {}
        for column, node in enumerate(self.by_column):
            if node is not None and (value := node.metadata.labels.get(label)) is not None:
                numbers[column] = names.setdefault(value, len(names))
        return numbers, list(names)

    def forget_masks(self) -> None:
        """Drop what is remembered about shapes; it is found again when asked for."""
        self._masks.clear()

    def name(self, column: int) -> str:
        node = self.by_column[column]
        assert node is not None
        return node.metadata.name
