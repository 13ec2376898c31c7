"""One object over another, and an object without some of its fields."""

from collections.abc import Iterator
from typing import Any

from bireme.apiserver.managed.compare import MISSING
from bireme.apiserver.managed.paths import Fields, has_self
from bireme.apiserver.managed.shapes import LIST, MAP, SCALAR, Shape
from bireme.apiserver.rules import Object


def merge(shape: Shape, below: Object, above: Object) -> Object:
    """`below` with all that `above` says. Nothing goes by that; lists take the order of `above`.

    `above` must be valid. Raises UnkeyedError for a list in `below` whose items nothing tells apart.
    """
    merged: Object = _merged(shape, below, above)
    return merged


def _merged(shape: Shape, below: Any, above: Any) -> Any:
    if below is MISSING or above is MISSING:
        return above if below is MISSING else below
    sort = shape.sort(above)
    if sort == MAP and not shape.atomic_map:
        ours, theirs = _as(dict, below), _as(dict, above)
        if ours or theirs:
            return _maps(shape, ours, theirs)
    elif sort == LIST and not shape.atomic_list:
        ours, theirs = _as(list, below), _as(list, above)
        if ours or theirs:
            return _lists(shape, ours, theirs)
    return above


def _as(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else kind()


def _maps(shape: Shape, below: Object, above: Object) -> Object:
    return {
        key: _merged(shape.field(key), below.get(key, MISSING), above.get(key, MISSING))
        for key in below | above
    }


def _lists(shape: Shape, below: list[Any], above: list[Any]) -> list[Any]:
    ours = [shape.name_item(item) for item in below]
    theirs = {shape.name_item(item): item for item in above}
    once = {name: item if ours.count(name) == 1 else None for name, item in zip(ours, below, strict=True)}
    return [
        below[place] if place is not None else _merged(shape.item, once.get(name, MISSING), theirs[name])
        for name, place in _interleaved(ours, list(theirs))
    ]


def _interleaved(ours: list[str], theirs: list[str]) -> Iterator[tuple[str, int | None]]:
    """The order of a merged list: with their place in it those that only our list has.

    Theirs come in their own order; ours stay where they were, before the next one that both lists have.
    """
    shared = [name for name in theirs if name in set(ours)]
    done: set[str] = set()
    mine, other = 0, 0
    while mine < len(ours) or other < len(theirs):
        upcoming = theirs[other] if other < len(theirs) else None
        if mine < len(ours):
            name = ours[mine]
            if name not in theirs:
                yield name, mine
                mine += 1
                continue
            if upcoming not in (None, name) and shared and shared[0] != name:
                mine += 1
                continue
            mine += name == upcoming or name in done
        if upcoming is not None:
            other += 1
            done.add(upcoming)
            if shared and shared[0] == upcoming:
                shared.pop(0)
            yield upcoming, None


def remove(shape: Shape, obj: Object, fields: Fields) -> Object:
    """An object without some of its fields. What is emptied by that is null, as a server has it."""
    kept: Object | None = _without(shape, obj, fields)
    return kept or {}


def _without(shape: Shape, value: Any, fields: Fields) -> Any:
    sort = shape.sort(value)
    if sort == SCALAR:
        return value
    if sort == MAP:
        return None if shape.atomic_map or not isinstance(value, dict) else _map_without(shape, value, fields)
    return None if shape.atomic_list or not isinstance(value, list) else _list_without(shape, value, fields)


def _map_without(shape: Shape, value: Object, fields: Fields) -> Object | None:
    kept = {}
    for key, child in value.items():
        node = fields.get(f"f:{key}")
        if node is None:
            kept[key] = child
        elif not has_self(node):
            kept[key] = _without(shape.field(key), child, node)
    return kept or None


def _list_without(shape: Shape, value: list[Any], fields: Fields) -> list[Any] | None:
    kept = []
    for item in value:
        node = fields.get(shape.name_item(item))
        if node is None:
            kept.append(item)
        elif not has_self(node):
            kept.append(_without(shape.item, item, node))
    return kept or None
