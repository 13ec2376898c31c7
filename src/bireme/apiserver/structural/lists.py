"""Lists whose items are told apart: sets, and maps by their keys."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bireme.apiserver.errors import FieldError
from bireme.apiserver.rules import Object
from bireme.apiserver.structural.checks import Check
from bireme.apiserver.structural.wording import duplicate, invalid


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; Python takes 1, 1.0 and True for equal."""
    return bool(one == other) and _canonical(one) == _canonical(other)


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def has_twins(values: list[Any]) -> bool:
    return len(set(map(_canonical, values))) < len(values)


def _second_ones(values: Iterable[Any]) -> Iterator[int]:
    """Where values stand for the second time; a third is not told."""
    times: dict[bytes, int] = {}
    for index, value in enumerate(values):
        key = _canonical(value)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            yield index


def repeated(check: Check, obj: Object) -> list[FieldError]:
    """Items that stand twice in a set, or twice under the same keys, anywhere in an object."""
    return list(_in_object(check, obj, ""))


def _in_object(check: Check, value: Object, path: str) -> Iterator[FieldError]:
    if check.rest:
        for key, child in value.items():
            yield from _in_value(check.rest, child, f"{path}[{key}]")
    for key, child in value.items():
        if key in check.properties:
            yield from _in_value(check.properties[key], child, f"{path}.{key}" if path else key)


def _in_value(check: Check, value: Any, path: str) -> Iterator[FieldError]:
    if not check.has_keys:
        return
    if isinstance(value, dict):
        yield from _in_object(check, value, path)
    elif isinstance(value, list):
        if check.list_type == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _second_ones(value))
        elif check.list_type == "map":
            yield from _in_map(check, value, path)
        if check.items:
            for index, child in enumerate(value):
                yield from _in_value(check.items, child, f"{path}[{index}]")


def _in_map(check: Check, value: list[Any], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [_keys(check, item) for item in value]
    yield from (duplicate(f"{path}[{index}]", keys[index]) for index in _second_ones(keys))


def _keys(check: Check, item: Object | None) -> Object:
    return {key: item[key] for key in check.list_keys if key in item} if item else {}


def correlated(check: Check, new: list[Any], old: list[Any]) -> dict[int, Any]:
    """The old items that belong to new ones, by the new ones' index: of lists with keys only."""
    if check.list_type != "map" or not all(isinstance(item, dict) for item in [*new, *old]):
        return {}
    olds = {_canonical(_keys(check, item)): item for item in old}
    places = enumerate(_canonical(_keys(check, item)) for item in new)
    return {index: olds[key] for index, key in places if key in olds}
