"""What server-side apply reads of a configuration: its fields, and what is wrong with it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bireme.apiserver.managed.elements import describe
from bireme.apiserver.managed.paths import SELF, Fields, has_self, in_order
from bireme.apiserver.managed.shapes import ANY_SCALAR, LIST, MAP, Shape, UnkeyedError
from bireme.apiserver.rules import Object

_GO_TYPES: Final = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}


def owned(shape: Shape, config: Object) -> Fields:
    """The fields that an applier says it owns. Unlike in a change, the fields of an object that have content
    are owned by that content only."""
    return _claim(shape, config) or {}


def _claim(shape: Shape, value: object) -> Fields | None:
    """What is owned at a path, and below it: None if nothing is."""
    if isinstance(value, dict) and value and MAP in shape.sorts and not shape.atomic_map:
        return _claim_map(shape, value) or None
    if isinstance(value, list) and LIST in shape.sorts and not shape.atomic_list:
        return _claim_list(shape, value) or None
    return {}


def _claim_map(shape: Shape, value: Object) -> Fields:
    made: Fields = {}
    for key in sorted(value):
        below = _claim(shape.field(key), value[key])
        if key not in shape.fields:
            made[f"f:{key}"] = _with_self(below)
        elif below is not None:
            made[f"f:{key}"] = below
    return made


def _claim_list(shape: Shape, value: list[Any]) -> Fields:
    names = [shape.name_item(item) for item in value]
    made = {
        name: _with_self(_claim(shape.item, item)) if names.count(name) == 1 else {}
        for name, item in zip(names, value, strict=True)
    }
    return in_order(made)


def _with_self(below: Fields | None) -> Fields:
    return {SELF: {}, **below} if below else {}


def with_named(shape: Shape | None, fields: Fields) -> Fields:
    """A set with the fields of objects too that it names only by their content."""
    made: Fields = {}
    for element, node in fields.items():
        if element == SELF or not node:
            made[element] = node
            continue
        name = element[2:]
        is_field = element[0] == "f" and shape is not None and name in shape.fields
        below = with_named(_below(shape, element), node)
        made[element] = {SELF: {}, **below} if is_field and not has_self(node) else below
    return made


def _below(shape: Shape | None, element: str) -> Shape | None:
    if shape is None:
        return None
    if element[0] == "f" and MAP in shape.sorts:
        return shape.fields.get(element[2:]) or shape.element
    return shape.item if element[0] == "k" and LIST in shape.sorts else None


class Problem(NamedTuple):
    path: str
    sentence: str


def problems(shape: Shape, value: object) -> Iterator[Problem]:
    """What is wrong with a configuration, as Go says it."""
    sort = shape.sort(value)
    if value is None:
        return
    if sort == MAP:
        yield from _map_problems(shape, value)
    elif sort == LIST:
        yield from _list_problems(shape, value)
    elif not _fits(shape.scalar, value):
        yield Problem("", _unfit(shape.scalar, value))


def _map_problems(shape: Shape, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem("", f"expected map, got &{{{_shown(value)}}}")
        return
    for key in sorted(value):
        child = shape.fields.get(key) or shape.element
        if child is None:
            yield Problem(f".{key}", "field not declared in schema")
            return
        for path, sentence in problems(child, value[key]):
            yield Problem(f".{key}{path}", sentence)


def _list_problems(shape: Shape, value: object) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem("", f"expected list, got &{{{_shown(value)}}}")
        return
    seen = set()
    for place, item in enumerate(value):
        name = f"i:{place}"
        if not shape.atomic_list:
            try:
                name = shape.name_item(item)
            except UnkeyedError as error:
                yield Problem("", f"element {place}: {error}")
                return
            if name in seen:
                yield Problem("", f"duplicate entries for key {describe(name)}")
            seen.add(name)
        for path, sentence in problems(shape.item, item):
            yield Problem(describe(name) + path, sentence)


def _fits(scalar: str, value: object) -> bool:
    match scalar:
        case "numeric":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
    return not isinstance(value, (dict, list))


def _unfit(scalar: str, value: object) -> str:
    match scalar:
        case "numeric":
            return f"expected numeric (int or float), got {_GO_TYPES[type(value)]}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
        case "boolean":
            return f"expected boolean, got &{{{_shown(value)}}}"
    return f"expected {ANY_SCALAR}, got &{{{_shown(value)}}}"


def _shown(value: object) -> str:
    """A value as Go prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case dict():
            return f"map[{' '.join(f'{key}:{_shown(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_shown, value))}]"
    return str(value)


def _literal(value: object) -> str:
    """A value as Go code."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return f'"{value}"'
        case dict():
            pairs = (f'"{key}":{_literal(value[key])}' for key in sorted(value))
            return f"{_GO_TYPES[dict]}{{{', '.join(pairs)}}}"
        case list():
            return f"{_GO_TYPES[list]}{{{', '.join(map(_literal, value))}}}"
    return _shown(value)
