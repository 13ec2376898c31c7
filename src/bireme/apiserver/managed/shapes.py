"""What a schema says of the parts of an object: which are owned one by one, and which only as a whole.

A *shape* is a schema cut down to that. A value takes the part of its shape that fits it: where a schema does
not name a type, a shape has several.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bireme.apiserver.managed.elements import by_keys, by_value

Schema = dict[str, Any]

MAP: Final = 0
SCALAR: Final = 1
LIST: Final = 2

ANY_SCALAR: Final = "any scalar"
_SCALARS: Final = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_MOST_SCHEMAS: Final = 512


class UnkeyedError(Exception):
    """A list is owned by its items, and has one that nothing tells apart; the message says why."""


class Template(NamedTuple):
    """What a map with certain keys says, without what is below those that may have parts."""

    fields: dict[str, Any]
    below: tuple[tuple[str, str, "Shape"], ...]
    """The key, the element and the shape of each such child."""


class Shape:
    """The parts that a value may have; `sorts` are those that fit it, null takes the first."""

    __slots__ = (
        "atomic_list", "atomic_map", "defaults", "element", "fields", "item", "keys", "opens_lists",
        "opens_maps", "scalar", "schema", "sorts", "templates",
    )  # fmt: skip

    def __init__(self) -> None:
        self.schema: Schema = {}
        """Held, for shapes are found by its identity."""
        self.sorts: tuple[int, ...] = ()
        self.scalar = ANY_SCALAR
        self.fields: dict[str, Shape] = {}
        self.element: Shape | None = None
        """Of the keys of a map that are no fields; None where there may be none."""
        self.atomic_map = False
        self.item: Shape = self
        self.atomic_list = True
        self.keys: tuple[str, ...] = ()
        """Of a list whose items are told apart by them; without any, by their values. Sorted."""
        self.defaults: dict[str, Any] = {}
        """The keys' values where an item has none."""
        self.templates: dict[tuple[str, ...], Template] = {}
        """By the keys of maps, in their order; for who wants to know what these say."""
        self.opens_maps = self.opens_lists = False
        """Whether parts of a map, or of a list, have owners of their own."""

    def open(self) -> "Shape":
        """The same, once all else is known of it."""
        self.opens_maps = MAP in self.sorts and not self.atomic_map
        self.opens_lists = LIST in self.sorts and not self.atomic_list
        return self

    def sort(self, value: object) -> int:
        """Which part a value takes."""
        wanted = MAP if isinstance(value, dict) else LIST if isinstance(value, list) else SCALAR
        return self.sorts[0] if value is None or wanted not in self.sorts else wanted

    def field(self, name: str) -> "Shape":
        return self.fields.get(name) or self.element or DEDUCED

    def name_item(self, value: object) -> str:
        """The element of an item. Raises UnkeyedError."""
        return self._name_by_keys(value) if self.keys else _name_by_value(value)

    def _name_by_keys(self, value: object) -> str:
        if not isinstance(value, dict):
            what = "a null element" if value is None else "non-map elements"
            raise UnkeyedError(f"associative list with keys may not have {what}")
        values = [value.get(key, self.defaults.get(key)) for key in self.keys]
        if None not in values:
            return by_keys(self.keys, *values)
        pairs = zip(self.keys, values, strict=True)
        named = {key: each for key, each in pairs if each is not None or key in value}
        if not named:
            listed = " ".join(f'"{key}"' for key in self.keys)
            raise UnkeyedError(
                f"associative list with keys has an element that omits all key fields [{listed}]"
                " (and doesn't have default values for any key fields)"
            )
        return by_keys(tuple(named), *named.values())


def _name_by_value(value: object) -> str:
    match value:
        case dict():
            raise UnkeyedError("associative list without keys has an element that's a map type")
        case list():
            raise UnkeyedError("not supported: associative list with lists as elements")
        case None:
            raise UnkeyedError("associative list without keys has an element that's an explicit null")
    return by_value(value)


def _opaque() -> Shape:
    """Anything, owned as a whole."""
    shape = Shape()
    shape.sorts = (MAP, SCALAR, LIST)
    shape.atomic_map, shape.element = True, shape
    return shape


def _deduced() -> Shape:
    """Anything: maps are owned by their keys, lists as a whole."""
    shape = _opaque()
    shape.atomic_map, shape.item = False, OPAQUE
    return shape.open()


OPAQUE: Final = _opaque()
DEDUCED: Final = _deduced()


class Same:
    """A schema by its identity: it may contain itself, and is never changed."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.schema is other.schema


def shape_of(schema: Schema) -> Shape:
    """The shape of a schema; one and the same for equal calls."""
    return _compiled(Same(schema))


@lru_cache(_MOST_SCHEMAS)
def _compiled(same: Same) -> Shape:
    return _Compiler().shape(same.schema, preserve=False)


class _Compiler:
    """Makes the shapes of one schema; each before its children, for a schema may contain itself."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], Shape] = {}

    def shape(self, schema: Schema, *, preserve: bool) -> Shape:
        """`preserve`: unknown fields are kept, by the word of a schema further up."""
        preserve = preserve or schema.get(_PRESERVE) is True
        key = id(schema), preserve
        if key not in self._made:
            self._made[key] = made = Shape()
            made.schema = schema
            self._fill(made, schema, lambda child: self.shape(child, preserve=preserve), preserve=preserve)
        return self._made[key]

    def _fill(self, made: Shape, schema: Schema, child: Callable[[Schema], Shape], *, preserve: bool) -> None:
        kind = schema.get("type", "")
        made.sorts = {"": (MAP, SCALAR, LIST), "object": (MAP,), "array": (LIST,)}.get(kind, (SCALAR,))
        if MAP in made.sorts:
            made.fields = {name: child(each) for name, each in schema.get("properties", {}).items()}
            made.element = _element(schema, child, preserve=preserve)
            made.atomic_map = schema.get("x-kubernetes-map-type") == "atomic"
        if LIST in made.sorts:
            items = schema.get("items")
            made.item = child(items) if items is not None else OPAQUE
            _fill_list(made, schema, items or {})
        if kind == "string":
            made.scalar = "string" if schema.get("format", "") in ("", "byte") else ANY_SCALAR
        else:
            made.scalar = _SCALARS.get(kind, ANY_SCALAR)
        made.open()


def _element(schema: Schema, child: Callable[[Schema], Shape], *, preserve: bool) -> Shape | None:
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return child(more)
    if more is None:
        return DEDUCED if preserve or not schema.get("properties") else None
    return DEDUCED if more else None


def _fill_list(made: Shape, schema: Schema, items: Schema) -> None:
    keys: list[str] = []
    match schema:
        case {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}:
            made.atomic_list = False
        case {"x-kubernetes-list-type": "set"}:
            made.atomic_list = False
        case {"x-kubernetes-list-type": _}:
            return
        case {"x-kubernetes-patch-strategy": "merge" | "merge,retainKeys"}:
            made.atomic_list = False
            if "x-kubernetes-patch-merge-key" in schema:
                keys = [schema["x-kubernetes-patch-merge-key"]]
    made.keys = tuple(sorted(keys))
    properties = items.get("properties", {})
    made.defaults = {key: properties[key].get("default") for key in made.keys if key in properties}
