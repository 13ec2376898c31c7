"""What a manifest holds: its text, its documents, and the way from a path to a place."""

from dataclasses import dataclass
from typing import NamedTuple

from bireme.api.paths import Path
from bireme.manifest.positions import Lines, Span, SyntaxProblem
from bireme.manifest.tree import AliasNode, Branch, Child, ListNode, MapNode, Node, offsets


class Spot(NamedTuple):
    """What a path leads to.

    ``key`` is the key's place, None for list items and the root. ``written`` is false when the text
    there is also the text of other paths: it was reached through an alias or a merge key, or it
    lies inside an anchor that aliases refer to.
    """

    key: int | None
    child: Child
    parent: Branch | None
    written: bool

    @property
    def place(self) -> int:
        return self.child if isinstance(self.child, int) else self.child.place


class Document:
    """One document of a manifest.

    ``value`` is what kubectl would send as JSON; aliased parts share objects, so readers must not
    change it. ``index`` counts the documents that could be read, empty ones left out.
    """

    __slots__ = ("index", "lines", "root")

    def __init__(self, index: int, root: Node, lines: Lines) -> None:
        self.index = index
        self.root = root
        self.lines = lines

    @property
    def value(self) -> object:
        return self.root.value

    @property
    def span(self) -> Span:
        return self.lines.span(self.root.start, self.root.end)

    def find(self, path: Path) -> Span | None:
        """Return the span of the value at the path, None where there is none.

        An alias is placed where it is used; what lies inside it, where the anchor was written. An
        empty value is an empty span behind its key.
        """
        spot = self.locate(path)
        return self._span(spot.place) if spot else None

    def find_key(self, path: Path) -> Span | None:
        """Return the span of the key that the path ends with, or of the list item."""
        spot = self.locate(path)
        return self._key_span(spot) if spot else None

    def nearest(self, path: Path) -> Span:
        """Return the key span of the longest part of the path that exists.

        So a field that is missing is reported at the key it is missing from. Where no part
        exists the answer is the empty span at the start of the document.
        """
        spots = self._walk(path)
        return self._key_span(spots[-1]) if spots else self.lines.span(self.root.start, self.root.start)

    def locate(self, path: Path) -> Spot | None:
        if not path:
            return Spot(None, self.root, None, written=True)
        spots = self._walk(path)
        return spots[-1] if len(spots) == len(path) else None

    def _walk(self, path: Path) -> list[Spot]:
        """Return a spot for each element of the path, up to the first that is not there."""
        spots: list[Spot] = []
        node: Child = self.root
        written = True
        for element in path:
            if isinstance(node, AliasNode):
                node, written = node.target, False
            written = written and not (isinstance(node, Branch) and node.shared)
            spot = _step(node, element, written)
            if spot is None:
                break
            spots.append(spot)
            node, written = spot.child, spot.written
        return spots

    def _key_span(self, spot: Spot) -> Span:
        return self._span(spot.place if spot.key is None else spot.key)

    def _span(self, place: int) -> Span:
        return self.lines.span(*offsets(place))


def _step(node: Child, element: str | int, written: bool) -> Spot | None:
    if isinstance(node, MapNode) and isinstance(element, str) and element in node.children:
        written = written and element not in (node.merged or ())
        return Spot(node.keys[element], node.children[element], node, written)
    if isinstance(node, ListNode) and isinstance(element, int) and 0 <= element < len(node.items):
        return Spot(None, node.items[element], node, written)
    return None


@dataclass(frozen=True)
class Manifest:
    """A file's text, the documents that could be read from it, and what is wrong with it."""

    text: str
    documents: tuple[Document, ...]
    problems: tuple[SyntaxProblem, ...]
