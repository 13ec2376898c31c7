"""Where a document's values were written: the shape of the document, with a place for each part.

A place is one integer, ``start << 32 | end``. A manifest has a place for every key and every value,
and an object for each would cost more time, most of it in the garbage collector, than parsing.
"""

from dataclasses import dataclass, field

OPEN = -1

_END = 2**32 - 1


def place(start: int, end: int) -> int:
    return start << 32 | end


def offsets(place: int) -> tuple[int, int]:
    return place >> 32, place & _END


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place. ``start`` includes an anchor or tag written before the value."""

    value: object
    start: int
    end: int

    @property
    def place(self) -> int:
        return place(self.start, self.end)


# A scalar without an anchor is just its place.
Child = int | Node


@dataclass(slots=True, eq=False)
class Branch(Node):
    """A list or mapping.

    ``nodes``, ``characters`` and ``height`` measure it with every alias in it written out. They are
    filled in, and ``end`` becomes other than OPEN, when the branch closes. ``shared`` is true once
    an alias refers to it.
    """

    flow: bool
    nodes: int = 0
    characters: int = 0
    height: int = 0
    shared: bool = False


@dataclass(slots=True, eq=False)
class ListNode(Branch):
    value: list[object]
    items: list[Child] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MapNode(Branch):
    """``keys`` and ``children`` have the same names; ``merged`` are those that came with ``<<``."""

    value: dict[str, object]
    keys: dict[str, int] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    merged: set[str] | None = None


@dataclass(slots=True, eq=False)
class AliasNode(Node):
    """The use of an anchor: placed where it is used, with the value of the anchored node."""

    target: Node
