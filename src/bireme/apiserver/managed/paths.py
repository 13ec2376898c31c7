"""Sets of field paths, in the very form of FieldsV1.

    {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}    # metadata.labels, and metadata.labels.app

A step without further steps below it is in the set; one with some is, if it has a "." too. The whole object
is never in a set. Steps are sorted. Sets are shared: a function makes a new one, or returns one that it got.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any, Final

from bireme.apiserver.managed.elements import ElementError, canonical, describe, rank

Fields = dict[str, Any]
SELF: Final = "."
_FEW: Final = 32


def has_self(node: Fields) -> bool:
    """Whether the step itself is in the set."""
    return not node or SELF in node


def _node(below: Fields, *, itself: bool) -> Fields | None:
    if not below:
        return {} if itself else None
    return {SELF: {}, **below} if itself else below


def in_order(fields: Fields) -> Fields:
    """The same set, its topmost steps sorted."""
    if len(fields) < 2:
        return fields
    # Names of fields, the usual case, sort as the texts that they are.
    order = sorted(fields) if max(fields) < "g" else _ranked(tuple(fields))
    return {element: fields[element] for element in order}


def _ranked(elements: tuple[str, ...]) -> list[str]:
    return _few_ranked(elements) if len(elements) <= _FEW else sorted(elements, key=rank)


@lru_cache(1024)
def _few_ranked(elements: tuple[str, ...]) -> list[str]:
    return sorted(elements, key=rank)


def union(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        return one or other
    return _both(one, other)


def _both(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        below = one or other
        return below if has_self(below) else {SELF: {}, **below}
    made = one
    for element, node in other.items():
        mine = one.get(element)
        joined = node if mine is None else _both(mine, node)
        if joined is not mine:
            made = dict(one) if made is one else made
            made[element] = joined
    return made if len(made) == len(one) else in_order(made)


def difference(one: Fields, other: Fields) -> Fields:
    """What is in one set and not in the other. A step goes, what is below it stays."""
    if one.keys().isdisjoint(other):
        return one
    return _less(one, other, itself=False) or {}


def _less(one: Fields, other: Fields, *, itself: bool) -> Fields | None:
    below = {}
    for element, node in one.items():
        if element == SELF:
            continue
        theirs = other.get(element)
        if theirs is not None:
            node = _less(node, theirs, itself=has_self(node) and not has_self(theirs))
        if node is not None:
            below[element] = node
    return _node(below, itself=itself)


def intersection(one: Fields, other: Fields) -> Fields:
    """What is in both sets."""
    return _common(one, other, itself=False) or {}


def _common(one: Fields, other: Fields, *, itself: bool) -> Fields | None:
    below = {}
    for element, node in one.items():
        theirs = other.get(element)
        if theirs is None or element == SELF:
            continue
        common = _common(node, theirs, itself=has_self(node) and has_self(theirs))
        if common is not None:
            below[element] = common
    return _node(below, itself=itself)


def outside(one: Fields, other: Fields) -> Fields:
    """What is in one set, and neither in the other nor below a step of it."""
    if one.keys().isdisjoint(other):
        return one
    return _outside(one, other, itself=False) or {}


def _outside(one: Fields, other: Fields, *, itself: bool) -> Fields | None:
    below = {}
    for element, node in one.items():
        theirs = other.get(element)
        if element == SELF or (theirs is not None and has_self(theirs)):
            continue
        kept = node if theirs is None else _outside(node, theirs, itself=has_self(node))
        if kept is not None:
            below[element] = kept
    return _node(below, itself=itself)


def contains(fields: Fields, path: Collection[str]) -> bool:
    """Whether a path, given by its elements, is in the set."""
    node: Fields | None = fields
    for element in path:
        node = None if node is None else node.get(element)
    return node is not None and has_self(node)


def paths(fields: Fields, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of a set: on each level the shorter ones first, as a server lists them."""
    for element, node in fields.items():
        if element != SELF and has_self(node):
            yield (*before, element)
    for element, node in fields.items():
        yield from paths(node, (*before, element))


def sentence(path: Collection[str]) -> str:
    """A path as it stands in a sentence: `.spec.containers[name="c"].image`."""
    return "".join(describe(element) for element in path)


def read(written: object) -> Fields:
    """A set from what somebody else wrote. Raises ElementError."""
    below, _ = _read(written)
    return below


def _read(written: object) -> tuple[Fields, bool]:
    if written is None:
        return {}, True
    if not isinstance(written, dict):
        raise ElementError("not an object")
    below = {}
    for text, node in written.items():
        element = None if text == SELF else canonical(text)
        if element is not None:
            children, itself = _read(node)
            below[element] = _node(children, itself=itself) or {}
    return in_order(below), not below or SELF in written


@lru_cache(256)
def of_fields(*names: tuple[str, ...]) -> Fields:
    """The set of some paths that are given by the names of their fields."""
    made: Fields = {}
    for path in names:
        node: Fields = {}
        for name in reversed(path):
            node = {f"f:{name}": node}
        made = union(made, node)
    return made
