"""Fields that a kind does not know are dropped, and named as the API server names them.

    pruned = prune(schema_of(kind), body, custom=kind.custom)
    pruned.obj       # the very same body where nothing was dropped
    pruned.unknown   # ('unknown field "spec.foo"', ...)

Kinds that are structs of the server's and kinds of a CRD differ. The first keep all of an object whose schema
names no fields, and what they drop is reported in the order of the body. The others keep none of it, and
their report is sorted: the object's own metadata first, then the rest, then the metadata of embedded objects.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from bireme.apiserver.rules import Object
from bireme.apiserver.structural.strictness import MOST_REPORTED, duplicate_fields, quoted, strict_errors

__all__ = ["Pruned", "Schema", "duplicate_fields", "prune", "prune_value", "strict_errors"]

Schema = Mapping[str, Any]

_META: Final = ("apiVersion", "kind", "metadata")
_MOST_CACHED: Final = 512


class Pruned(NamedTuple):
    obj: Object
    unknown: tuple[str, ...]
    """Each dropped field, in a sentence."""


def prune(schema: Schema, obj: Object, *, custom: bool) -> Pruned:
    """Drop what the schema of a whole object does not know; `obj` itself stays as it is.

    What is known of an object's metadata, a custom one's too, is what the schema's `metadata` says.
    """
    node = _compiled(schema, custom=custom)
    if _is_known(node, obj):
        return Pruned(obj, ())
    dropped = _Dropped()
    pruned: Object = _pruned(node, obj, _ROOT, dropped)
    return Pruned(pruned, dropped.sentences(custom=custom))


def prune_value(schema: Schema, value: Any) -> Any:
    """A value without what a part of a structural schema does not know."""
    return _pruned(_Custom(schema).part(), value, _ROOT, _Dropped())


class _Node:
    """A schema, as far as pruning needs it."""

    __slots__ = ("items", "known", "metadata", "nested", "rest", "schema")

    def __init__(self, schema: Schema | None, metadata: str = "") -> None:
        self.schema = schema
        self.metadata = metadata
        """Whose metadata it is a part of: `own`, `embedded`, or none's."""
        self.known: frozenset[str] | None = None
        """The fields that may be there; None where all may."""
        self.nested: dict[str, _Node] = {}
        """What is known of a field; all is kept below one that is neither here nor under `rest`."""
        self.rest: _Node | None = None
        self.items: _Node | None = None


# ---- from schemas to nodes

_roots: Final[dict[tuple[int, bool], _Node]] = {}


def _compiled(schema: Schema, *, custom: bool) -> _Node:
    """A node holds on to its schema, so that no other can take its place in memory."""
    key = (id(schema), custom)
    found = _roots.get(key)
    if found is None:
        if len(_roots) >= _MOST_CACHED:
            _roots.clear()
        found = _roots[key] = _Custom(schema).root() if custom else _Typed().node(schema) or _Node(schema)
    return found


class _Typed:
    """Schemas of the server's own structs: where they say nothing, all is kept."""

    def __init__(self, metadata: str = "") -> None:
        self._metadata = metadata
        self._made: dict[int, _Node | None] = {}

    def node(self, schema: Schema | None) -> _Node | None:
        if not isinstance(schema, Mapping):
            return None
        if id(schema) in self._made:
            return self._made[id(schema)]
        node = self._made[id(schema)] = _Node(schema, self._metadata)
        properties = schema.get("properties", {})
        node.rest = self.node(schema.get("additionalProperties"))
        node.items = self.node(schema.get("items"))
        node.nested = {key: made for key, each in properties.items() if (made := self.node(each))}
        if properties and "additionalProperties" not in schema:
            node.known = frozenset(properties)
        if node.known is None and not (node.nested or node.rest or node.items):
            self._made[id(schema)] = None
        return self._made[id(schema)]


class _Custom:
    """Structural schemas: where they say nothing, nothing is kept, unless they preserve it."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._object_meta = root.get("properties", {}).get("metadata")
        self._nothing = _Node(None)
        self._nothing.known = frozenset()
        self._nothing.items = self._nothing

    def root(self) -> _Node:
        return self._node(self._root, is_root=True)

    def part(self) -> _Node:
        return self._node(self._root)

    def _node(self, schema: Schema | None, *, is_root: bool = False, kept: bool = False) -> _Node:
        if not isinstance(schema, Mapping):
            return _Node(None) if kept else self._nothing
        node = _Node(schema)
        kept = kept or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
        node.nested = {key: self._node(each) for key, each in properties.items()}
        if extra is not None:
            node.rest = self._node(extra)
        if kept and "items" not in schema:
            node.items = None
        else:
            node.items = self._node(schema.get("items"), kept=kept)
        if not kept and extra is None:
            node.known = frozenset(properties)
        if is_root or schema.get("x-kubernetes-embedded-resource"):
            self._embed(node, "own" if is_root else "embedded")
        return node

    def _embed(self, node: _Node, whose: str) -> None:
        """An object inside of an object brings its type and metadata, whether the schema says so or not."""
        for key in _META:
            node.nested[key] = _Node(None)
        node.nested["metadata"] = _Typed(whose).node(self._object_meta) or _Node(None)
        if node.known is not None:
            node.known = node.known.union(_META)


# ---- from values to values


def _is_known(node: _Node, value: Any) -> bool:
    """Whether nothing would be dropped; most bodies are such, and this is much cheaper."""
    if type(value) is list:
        return node.items is None or _are_known(node.items, value)
    if node.known is not None and not node.known.issuperset(value):
        return False
    nested, rest = node.nested, node.rest
    if nested or rest:
        for key, child in value.items():
            if type(child) is dict or type(child) is list:
                below = nested.get(key, rest)
                if below is not None and not _is_known(below, child):
                    return False
    return True


def _are_known(node: _Node, values: list[Any]) -> bool:
    if node.nested or node.rest or node.items or node.known is None:
        for each in values:
            if (type(each) is dict or type(each) is list) and not _is_known(node, each):
                return False
        return True
    knows = node.known.issuperset
    return all(knows(each) for each in values if type(each) is dict)


class _Place(NamedTuple):
    """Where a value stands, as decoders and as validation write it."""

    dotted: str
    bracketed: str

    def child(self, key: str, *, in_map: bool) -> "_Place":
        if not self.dotted:
            return _Place(key, key)
        return _Place(
            f"{self.dotted}.{key}", f"{self.bracketed}[{key}]" if in_map else f"{self.bracketed}.{key}"
        )

    def item(self, index: int) -> "_Place":
        return _Place(f"{self.dotted}[{index}]", f"{self.bracketed}[{index}]")


_ROOT: Final = _Place("", "")


class _Dropped:
    """The paths that were dropped, by whose metadata they were in."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {"own": [], "": [], "embedded": []}

    def add(self, node: _Node, place: _Place) -> None:
        self._paths[node.metadata].append(place.bracketed if node.metadata == "embedded" else place.dotted)

    def sentences(self, *, custom: bool) -> tuple[str, ...]:
        if not custom:
            return tuple(f"unknown field {quoted(path)}" for path in self._paths[""][:MOST_REPORTED])
        own, rest, embedded = self._paths["own"], self._paths[""], self._paths["embedded"]
        paths = [*own[:MOST_REPORTED], *sorted(rest), *sorted(embedded)]
        return tuple(f'unknown field "{path}"' for path in paths)


def _pruned(node: _Node, value: Any, place: _Place, dropped: _Dropped) -> Any:
    """A copy, as deep as the node reaches, without what it does not know."""
    if type(value) is dict:
        kept = {}
        for key, child in _fields(node, value):
            if node.known is not None and key not in node.known:
                dropped.add(node, place.child(key, in_map=False))
                continue
            below = node.nested.get(key, node.rest)
            inner = place.child(key, in_map=key not in node.nested)
            kept[key] = child if below is None else _pruned(below, child, inner, dropped)
        return kept
    if type(value) is list and (below := node.items) is not None:
        return [_pruned(below, child, place.item(index), dropped) for index, child in enumerate(value)]
    return value


def _fields(node: _Node, value: Object) -> Iterable[tuple[str, Any]]:
    """A custom object's own metadata is read again, sorted, before it is searched."""
    return sorted(value.items()) if node.metadata == "own" else value.items()
