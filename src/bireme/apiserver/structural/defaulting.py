"""Defaults of a structural schema: what is left out, or null where null is not allowed, is filled in."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from bireme.apiserver.rules import Object

Schema = Mapping[str, Any]

_META: Final = ("apiVersion", "kind", "metadata")
_MOST_CACHED: Final = 512


def default(schema: Schema, obj: Object) -> Object:
    """The object of a custom kind with its defaults; the very same one where nothing changes.

    Nulls that the schema does not allow are dropped, or replaced where there is a default; those in lists
    stay. What the object says of its type and metadata is left alone.
    """
    content = {key: value for key, value in obj.items() if key not in _META}
    filled = _fill_object(_compiled(schema), content)
    if filled is content:
        return obj
    return {key: value for key, value in obj.items() if key in _META} | filled


class _Node:
    """A schema, as far as defaulting needs it."""

    __slots__ = ("default", "defaults", "is_metadata", "items", "nullable", "properties", "rest", "schema")

    def __init__(self, schema: Schema, without: Collection[str] = ()) -> None:
        self.schema = schema
        self.default = schema.get("default")
        self.nullable = bool(schema.get("nullable"))
        self.properties = {
            key: _Node(each) for key, each in (schema.get("properties") or {}).items() if key not in without
        }
        self.rest, self.items = _part(schema, "additionalProperties"), _part(schema, "items")
        self.is_metadata = False
        if schema.get("x-kubernetes-embedded-resource") and "metadata" in self.properties:
            self.properties["metadata"].mark_as_metadata()
        self.defaults = {key: each for key, each in self.properties.items() if each.default is not None}

    def mark_as_metadata(self) -> None:
        """An embedded object's metadata is read into a struct: what is empty is forgotten, null is empty."""
        self.is_metadata = True
        self.default = None

    def made(self) -> Any:
        """Its default, new each time."""
        given = self.default
        copy = msgspec.json.decode(msgspec.json.encode(given)) if isinstance(given, dict | list) else given
        return _fill(self, copy)


def _part(schema: Schema, keyword: str) -> _Node | None:
    part = schema.get(keyword)
    return _Node(part) if isinstance(part, Mapping) else None


_roots: Final[dict[int, _Node]] = {}


def _compiled(schema: Schema) -> _Node:
    """A node holds on to its schema, so that no other can take its place in memory."""
    found = _roots.get(id(schema))
    if found is None:
        if len(_roots) >= _MOST_CACHED:
            _roots.clear()
        found = _roots[id(schema)] = _Node(schema, without=_META)
    return found


def _fill(node: _Node | None, value: Any) -> Any:
    if node is not None:
        if type(value) is dict:
            return _fill_object(node, value)
        if type(value) is list:
            return _fill_list(node.items, value)
    return value


def _fill_object(node: _Node, value: Object) -> Object:
    changes: Object = {}
    for key, child in value.items():
        if child is None or type(child) is dict or type(child) is list:
            below = node.properties.get(key, node.rest)
            filled = _instead_of_null(below) if child is None else _fill(below, child)
            if filled is not child:
                changes[key] = filled
    for key, below in node.defaults.items():
        if key not in value:
            changes[key] = below.made()
    if node.is_metadata:
        changes |= {key: _DROPPED for key, child in value.items() if not child}
    if not changes:
        return value
    return {key: child for key, child in (value | changes).items() if child is not _DROPPED}


def _fill_list(items: _Node | None, value: list[Any]) -> list[Any]:
    """A null in a list is replaced where there is a default, and never dropped."""
    filled = []
    for child in value:
        instead = _instead_of_null(items) if child is None else _fill(items, child)
        filled.append(None if instead is _DROPPED else instead)
    return value if all(map(_is, filled, value)) else filled


class _Dropped:
    """Stands for a field that goes."""


_DROPPED: Final = _Dropped()


def _instead_of_null(node: _Node | None) -> Any:
    if node is None or node.nullable:
        return None
    if node.is_metadata:
        return {}
    return _DROPPED if node.default is None else node.made()


def _is(one: object, other: object) -> bool:
    return one is other
