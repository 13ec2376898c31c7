"""Which fields of an object another one changes."""

from typing import Any, Final, NamedTuple

import msgspec

from bireme.apiserver.managed.mentions import mentioned, mentioned_fields, mentioned_items
from bireme.apiserver.managed.paths import SELF, Fields, in_order, outside
from bireme.apiserver.managed.shapes import LIST, MAP, Shape
from bireme.apiserver.rules import Object

_encode: Final = msgspec.json.Encoder().encode
_CONTAINERS: Final = frozenset((dict, list))
MISSING: Final[Any] = object()


class Change(NamedTuple):
    """What differs: fields that are new or have another value, and fields that are gone."""

    changed: Fields
    removed: Fields

    def besides(self, ignored: Fields) -> "Change":
        return Change(outside(self.changed, ignored), outside(self.removed, ignored)) if ignored else self


NOTHING: Final = Change({}, {})


def compare(shape: Shape, old: Object, new: Object) -> Change:
    """What `new` changes of `old`, without a look at managedFields. Raises UnkeyedError.

    Parts that are equal are not walked.
    """
    if (metadata := old.get("metadata")) is None or metadata is not new.get("metadata"):
        old, new = _unmanaged(old), _unmanaged(new)
    return _maps(shape, old, new)


def _unmanaged(obj: Object) -> Object:
    """An object without managedFields; new at its top and in its metadata, if it had some."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return obj | {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def equal(one: object, other: object) -> bool:
    """Whether two values are the same JSON; 1 and 1.0 are, but true and 1 are not."""
    if one is other:
        return True
    return one == other and (_encode(one) == _encode(other) or _same_bools(one, other))


def _same_bools(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(_same_bools(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_same_bools, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _by_name(shape: Shape, items: list[Any]) -> dict[str, list[Any]]:
    """A list's items by their elements: more than one, where the list has duplicates."""
    named: dict[str, list[Any]] = {}
    for item in items:
        named.setdefault(shape.name_item(item), []).append(item)
    return named


def _values(shape: Shape, old: Any, new: Any) -> Change:
    """The change below a path that both objects have; the path itself is there as ".", if it is changed."""
    if equal(old, new):
        return NOTHING
    sort, sort_before = shape.sort(new), shape.sort(old)
    change = _by_sort(shape, sort, old, new)
    return change if sort == sort_before else _joined(change, _by_sort(shape, sort_before, old, new))


def _by_sort(shape: Shape, sort: int, old: Any, new: Any) -> Change:
    if sort == MAP and not shape.atomic_map:
        ours, theirs = _as(dict, old), _as(dict, new)
        if ours or theirs:
            return _maps(shape, ours, theirs)
    elif sort == LIST and not shape.atomic_list:
        ours, theirs = _as(list, old), _as(list, new)
        if ours or theirs:
            return _lists(shape, ours, theirs)
    return Change({SELF: {}}, {})


def _as(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else kind()


def _joined(one: Change, other: Change) -> Change:
    # One of the two says no more than that the value is another: it took the value for a scalar.
    return Change(in_order(one.changed | other.changed), in_order(one.removed | other.removed))


class _Changes:
    """Collects the changes below one path."""

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.changed: Fields = {}
        self.removed: Fields = {}

    def add(self, element: str, change: Change) -> None:
        if change.changed:
            self.changed[element] = _leaf(change.changed)
        if change.removed:
            self.removed[element] = _leaf(change.removed)

    def done(self) -> Change:
        return Change(in_order(self.changed), in_order(self.removed))


def _leaf(fields: Fields) -> Fields:
    return {} if len(fields) == 1 and SELF in fields else fields


def _maps(shape: Shape, old: Object, new: Object) -> Change:
    if old.keys().isdisjoint(new):
        return Change(_coming(shape, new), _coming(shape, old))
    found = _Changes()
    found.changed = _coming(shape, {key: value for key, value in new.items() if key not in old})
    found.removed = _coming(shape, {key: value for key, value in old.items() if key not in new})
    for key, before in old.items():
        value = new.get(key, MISSING)
        if value is before or value is MISSING:
            continue
        if type(value) not in _CONTAINERS and type(before) not in _CONTAINERS:
            if value != before or isinstance(value, bool) != isinstance(before, bool):
                found.changed[f"f:{key}"] = {}
        else:
            found.add(f"f:{key}", _values(shape.field(key), before, value))
    return found.done()


def _coming(shape: Shape, fields: Object) -> Fields:
    """What comes, or goes, with whole fields of a map that stays."""
    if not fields:
        return {}
    made = mentioned_fields(shape, fields).copy()
    del made[SELF]
    return made


def _lists(shape: Shape, old: list[Any], new: list[Any]) -> Change:
    if not old:
        return Change(mentioned_items(shape, new), {})
    ours, theirs = _by_name(shape, old), _by_name(shape, new)
    found = _Changes()
    for name in ours | theirs:
        _items(shape.item, name, ours.get(name, []), theirs.get(name, []), found)
    return found.done()


def _items(shape: Shape, name: str, old: list[Any], new: list[Any], found: _Changes) -> None:
    """The change of what one element names; duplicates are one value, that is owned as a whole."""
    if len(old) == 1 and len(new) == 1:
        found.add(name, _values(shape, old[0], new[0]))
    elif len(old) > 1 and len(new) > 1:
        if not equal(old, new):
            found.changed[name] = {}
    else:
        if new:
            found.changed[name] = mentioned(shape, new[0]) if len(new) == 1 else {}
        if old:
            found.removed[name] = mentioned(shape, old[0]) if len(old) == 1 else {}
