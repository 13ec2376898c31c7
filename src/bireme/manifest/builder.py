"""Builds one document's value and tree from parse events: keys, merges, aliases and their limits."""

from bireme.manifest.positions import Lines, Span, SyntaxProblem, excerpt
from bireme.manifest.scalars import Scalar, ScalarError, json_value, key_name
from bireme.manifest.tree import OPEN, AliasNode, Branch, Child, ListNode, MapNode, Node, offsets, place

# kubectl reads ten thousand levels, but a program that walks the value recursively does not.
MAX_DEPTH = 200
MAX_EXPANDED_CHARACTERS = 16 * 2**20

# go-yaml's limit: the share of the visited nodes that may lie inside aliases falls from the first
# to the second as the document grows from small to large.
_SMALL_DOCUMENT, _SMALL_SHARE = 400_000, 0.99
_LARGE_DOCUMENT, _LARGE_SHARE = 4_000_000, 0.10


class _Special:
    """A key that is not a name."""


_MERGE = _Special()
_UNUSABLE = _Special()
_Key = str | _Special


class UnreadableError(Exception):
    """The document cannot be read any further."""

    def __init__(self, problem: SyntaxProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Builder:
    """Takes the events of one document in order; ``root`` is the result after the last.

    Raises UnreadableError where a document has no value. A lesser problem goes to ``problems``: the
    value is then what kubectl makes of the text, or would make of it without that problem.
    """

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.problems: list[SyntaxProblem] = []
        self.root: Node | None = None
        self.expects_key = False
        self.in_flow = False
        self._parent: Branch | None = None
        self._key: _Key = _UNUSABLE
        self._key_place = 0
        self._above: list[tuple[Branch | None, bool, _Key, int]] = []
        self._anchors: dict[str, Node] = {}
        self._last_end = 0
        self._visited = 0
        self._visited_in_aliases = 0
        self._expanded = 0

    def report(
        self, start: int, end: int, message: str, hint: str | None, related: Span | None = None
    ) -> None:
        self.problems.append(SyntaxProblem(self.lines.span(start, end), message, hint, related))

    def refusal(self, start: int, end: int, message: str, hint: str | None = None) -> UnreadableError:
        return UnreadableError(SyntaxProblem(self.lines.span(start, end), message, hint))

    def key(self, key: Scalar, start: int, end: int, anchor: str | None = None) -> None:
        """Take a scalar key, as resolve gives it, where ``expects_key`` is true."""
        self._visited += 1
        if anchor is not None:
            self._anchors[anchor] = Node(self._key_as_value(key, start, end), start, end)
        self._key = key if type(key) is str else self._key_name(key, start, end)
        self._key_place = start << 32 | end
        self.expects_key = False

    def merge_key(self, start: int, end: int) -> None:
        self._key, self._key_place = _MERGE, place(start, end)
        self.expects_key = False

    def scalar(self, value: Scalar, start: int, end: int, anchor: str | None = None) -> None:
        """Take a scalar where ``expects_key`` is false."""
        self._visited += 1
        self._last_end = end
        if anchor is not None:
            self._anchors[anchor] = Node(value, start, end)
        self._add(value, start << 32 | end)

    def alias(self, anchor: str, start: int, end: int) -> None:
        target = self._anchors.get(anchor)
        if target is None:
            message = (
                f"{excerpt('*' + anchor)} has no anchor {excerpt('&' + anchor)} before it in this document"
            )
            raise self.refusal(start, end, message)
        if target.end == OPEN:
            raise self.refusal(start, end, f"the anchor {excerpt('&' + anchor)} contains itself")
        self._count_alias(target, start, end)
        if isinstance(target, Branch):
            target.shared = True
        self._last_end = end
        self._add_node(AliasNode(target.value, start, end, target))

    def open_map(self, start: int, end: int, flow: bool, anchor: str | None = None) -> None:
        self._open(MapNode({}, start, OPEN, flow), end, anchor)
        self.expects_key = True

    def open_list(self, start: int, end: int, flow: bool, anchor: str | None = None) -> None:
        self._open(ListNode([], start, OPEN, flow), end, anchor)
        self.expects_key = False

    def close(self, end: int) -> None:
        """Close the innermost branch. A block ends with its last child, whatever ``end`` says."""
        branch = self._parent
        assert branch is not None
        branch.end = self._last_end = end if branch.flow else self._last_end
        branch.nodes = self._visited - branch.nodes
        branch.characters = branch.end - branch.start + self._expanded - branch.characters
        self._parent, self.expects_key, self._key, self._key_place = self._above.pop()
        if self._parent is not None:
            self.in_flow = self._parent.flow
            self._parent.height = max(self._parent.height, branch.height + 1)
        self._add_node(branch)

    def finish(self) -> None:
        if self.root is not None:
            self._check_aliases(self.root.start, self.root.start)

    def _open(self, branch: Branch, end: int, anchor: str | None) -> None:
        if len(self._above) >= MAX_DEPTH:
            raise self.refusal(branch.start, end, f"nested deeper than {MAX_DEPTH} levels")
        branch.nodes, branch.characters = self._visited, self._expanded
        self._visited += 1
        if anchor is not None:
            self._anchors[anchor] = branch
        self._above.append((self._parent, self.expects_key, self._key, self._key_place))
        self._parent, self.in_flow = branch, branch.flow

    def _add(self, value: object, child: Child) -> None:
        parent = self._parent
        if type(parent) is MapNode:
            self._set(parent, value, child)
            self.expects_key = True
        elif type(parent) is ListNode:
            parent.items.append(child)
            parent.value.append(value)
        else:
            self.root = child if isinstance(child, Node) else Node(value, *offsets(child))

    def _add_node(self, node: Node) -> None:
        if self.expects_key:
            self._key, self._key_place = self._node_as_key(node), node.place
            self.expects_key = False
        else:
            self._add(node.value, node)

    def _set(self, parent: MapNode, value: object, child: Child) -> None:
        name = self._key
        if type(name) is str:
            if parent.merged and name in parent.merged:
                parent.merged.remove(name)
            elif name in parent.keys:
                self._report_duplicate(name, parent.keys[name])
            parent.keys[name] = self._key_place
            parent.children[name] = child
            parent.value[name] = value
        elif name is _MERGE:
            self._merge(parent, child)

    def _merge(self, into: MapNode, child: Child) -> None:
        """Write the merged keys over the ones that are there, as go-yaml does.

        So ``<<`` gives way to the keys after it and not to those before it. In a list of
        mappings the first has the last word.
        """
        for source in reversed(child.items) if isinstance(child, ListNode) else [child]:
            mapping = source.target if isinstance(source, AliasNode) else source
            if not isinstance(mapping, MapNode):
                start, end = offsets(source) if isinstance(source, int) else (source.start, source.end)
                self.report(start, end, "`<<` takes a mapping or a list of mappings", None)
                continue
            into.keys.update(mapping.keys)
            into.children.update(mapping.children)
            into.value.update(mapping.value)
            into.merged = (into.merged or set()) | mapping.keys.keys()

    def _node_as_key(self, node: Node) -> _Key:
        value = node.value
        if value is None or isinstance(value, str | int | float):
            return self._key_name(value, node.start, node.end)
        kind = "list" if isinstance(value, list) else "mapping"
        self.report(node.start, node.end, f"a {kind} cannot be a key", "quote the key if it is text")
        return _UNUSABLE

    def _key_name(self, key: Scalar, start: int, end: int) -> _Key:
        try:
            return key_name(key)
        except ScalarError as problem:
            self.report(start, end, problem.message, problem.hint)
            return _UNUSABLE

    def _key_as_value(self, key: Scalar, start: int, end: int) -> Scalar:
        """What an alias of the key stands for."""
        try:
            return json_value(key)
        except ScalarError as problem:
            self.report(start, end, problem.message, problem.hint)
            return key_name(key)

    def _report_duplicate(self, name: str, first: int) -> None:
        related = self.lines.span(*offsets(first))
        message = f"duplicate key {excerpt(name)} (first at line {related.line})"
        start, end = offsets(self._key_place)
        self.report(start, end, message, "kubectl keeps only the last of them", related)

    def _count_alias(self, target: Node, start: int, end: int) -> None:
        nodes, characters, height = _measure(target)
        self._visited += 1 + nodes
        self._visited_in_aliases += nodes
        self._expanded += characters
        self._check_aliases(start, end)
        if self._parent is not None:
            self._parent.height = max(self._parent.height, height)
        if len(self._above) + height > MAX_DEPTH:
            raise self.refusal(start, end, f"aliases nest deeper than {MAX_DEPTH} levels")

    def _check_aliases(self, start: int, end: int) -> None:
        share = self._visited_in_aliases / self._visited
        too_many = self._visited_in_aliases > 100 and self._visited > 1000 and share > _allowed(self._visited)
        if too_many or self._expanded > MAX_EXPANDED_CHARACTERS:
            raise self.refusal(start, end, "aliases make this document far larger than its text")


def _allowed(visited: int) -> float:
    progress = (visited - _SMALL_DOCUMENT) / (_LARGE_DOCUMENT - _SMALL_DOCUMENT)
    return _SMALL_SHARE - (_SMALL_SHARE - _LARGE_SHARE) * min(max(progress, 0.0), 1.0)


def _measure(node: Node) -> tuple[int, int, int]:
    """Return how many nodes, characters and levels the node has with its aliases written out."""
    if isinstance(node, Branch):
        return node.nodes, node.characters, node.height + 1
    return 1, node.end - node.start, 0
