"""Free capacity of all nodes at once: one array per resource, one column per node."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PLENTY = np.int64(2**62)


class Room:
    """What is free on each node. Copies are cheap, so that what-if needs no undo."""

    __slots__ = ("_most", "free", "size", "taken")

    def __init__(self, size: int, free: dict[str, Counts] | None = None) -> None:
        self.size = size
        self.free: dict[str, Counts] = {} if free is None else free
        # Columns from which something was taken, in order: what is remembered of a room follows by it.
        self.taken: list[Counts] = []
        # At least as much as any node has free; what is taken does not change that.
        self._most: dict[str, int] | None = None

    def copy(self) -> "Room":
        return Room(self.size, {name: row.copy() for name, row in self.free.items()})

    def row(self, resource: str) -> Counts:
        row = self.free.get(resource)
        if row is None:
            row = self.free[resource] = np.zeros(self.size, dtype=np.int64)
        return row

    def grow(self, size: int) -> None:
        """Make room for more nodes; they have nothing until it is given to them."""
        for name, row in self.free.items():
            self.free[name] = np.concatenate([row, np.zeros(size - len(row), dtype=np.int64)])
        self.size = size

    def is_too_small(self, requests: Mapping[str, int]) -> bool:
        """Whether it is plain at once that no node has room for a pod of these requests."""
        if self._most is None:
            self._most = {name: int(row.max()) for name, row in self.free.items()}
        most = self._most
        for name, amount in requests.items():  # noqa: SIM110 - asked for every unit: a generator costs more
            if amount > most.get(name, 0):
                return True
        return False

    def add(self, column: int, amounts: Mapping[str, int], times: int = 1) -> None:
        self._most = None
        for name, amount in amounts.items():
            self.row(name)[column] += amount * times

    def capacity(self, requests: Mapping[str, int], mask: Mask) -> Counts:
        """How many pods of these requests each node could take."""
        if self.is_too_small(requests):
            return np.zeros(self.size, dtype=np.int64)
        return np.where(mask, self.capacity_at(requests, slice(None)), 0)

    def capacity_at(self, requests: Mapping[str, int], columns: Counts | slice) -> Counts:
        """The same for some nodes, whether they are eligible or not."""
        most: Counts | None = None
        for name, amount in requests.items():
            row = self.free.get(name)
            if row is None:
                return np.zeros(self.size, dtype=np.int64)[columns]
            fits = row[columns] // amount if amount > 1 else row[columns]
            most = fits if most is None else np.minimum(most, fits)
        if most is None:
            return np.full(self.size, _PLENTY)[columns]
        return np.maximum(most, 0)

    def take(self, requests: Mapping[str, int], columns: Counts, counts: Counts) -> None:
        """Give so many pods of these requests to each of the nodes, each named once."""
        if len(columns) == 1:
            column, count = columns[0], int(counts[0])
            for name, amount in requests.items():
                self.row(name)[column] -= count * amount
        else:
            for name, amount in requests.items():
                self.row(name)[columns] -= counts * amount
        self.taken.append(columns)

    def least(self, other: "Room") -> "Room":
        """On every node and for every resource the smaller of both."""
        names = {*self.free, *other.free}
        return Room(self.size, {name: np.minimum(self.row(name), other.row(name)) for name in names})

    def held(self, column: int) -> dict[str, int]:
        return {name: int(row[column]) for name, row in self.free.items() if row[column]}

    def sum(self, mask: Mask, resources: Iterable[str]) -> dict[str, int]:
        """What the nodes have free together."""
        return {name: int(np.maximum(self.row(name), 0)[mask].sum()) for name in resources}
