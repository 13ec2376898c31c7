"""The steps of a JSONPath. Each leads from values to values, and fails where Kubernetes' own does."""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

Values = list[Any]
Step = Callable[[Values], Values]

_ORDERED: Final = (int, float, str)
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class NoWayError(Exception):
    """A step can't be taken. `values` are where it stood: a filter that asks for existence takes these."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values


def chain(steps: Sequence[Step]) -> Step:
    def follow(values: Values) -> Values:
        for step in steps:
            values = step(values)
        return values

    return follow


def first_of(ways: Sequence[Step]) -> Step:
    """The first way; but the others must be open, too."""

    def follow(values: Values) -> Values:
        first, *_ = [way(values) for way in ways]
        return first

    return follow


def field(name: str) -> Step:
    return lambda values: [each[name] for each in values if isinstance(each, dict) and name in each]


def children(values: Values) -> Values:
    """Members of objects and lists, and bytes of texts."""
    return [child for each in values for child in _children(each)]


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, str):
        return list(value.encode(errors="replace"))
    return value if isinstance(value, list) else []


def descend(values: Values) -> Values:
    """Values with all that is below them; what can't have anything below is left out."""
    found, left = [], list(reversed(values))
    while left:
        value = left.pop()
        if isinstance(value, dict | list | str) and value:
            found.append(value)
            left += reversed(_children(value))
    return found


def text(said: str) -> Step:
    return lambda _: [said]


def literal(value: float) -> Step:
    """A number or a truth value, once for each value."""
    return lambda values: [value] * len(values)


def unknown_word(values: Values) -> Values:
    raise NoWayError(values)


def index(at: int) -> Step:
    return part(at, at + 1 or None)


def part(start: int, stop: int | None, stride: int = 1) -> Step:
    def take(values: Values) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise NoWayError(values)
            first, last = _counted(start, len(value)), _counted(stop, len(value))
            if first == last:
                return found
            if not 0 <= first < last <= len(value) or stride <= 0:
                raise NoWayError(values)
            found += value[first:last:stride]
        return found

    return take


def _counted(at: int | None, length: int) -> int:
    """A place in a list, where negative ones are counted from its end, and None is that end."""
    if at is None:
        return length
    return at + length if at < 0 else at


def union(ways: Sequence[Step]) -> Step:
    def gather(values: Values) -> Values:
        try:
            return [found for way in ways for found in way(values)]
        except NoWayError as error:
            raise NoWayError(values) from error

    return gather


def having(way: Step) -> Step:
    """Members of lists that lead somewhere."""

    def leads(member: Any) -> bool:
        try:
            return bool(way([member]))
        except NoWayError as error:
            return bool(error.values)

    return lambda values: [member for member in _members(values) if leads(member)]


def comparing(left: Step, sign: str, right: Step) -> Step:
    """Members of lists for which a comparison holds; where one side is missing it does not."""

    def holds(member: Any) -> bool:
        lefts = left([member])
        rights = right([member]) if lefts else []
        if len(lefts) > 1 or len(rights) > 1:
            raise NoWayError([member])
        return bool(rights) and _compare(lefts[0], sign, rights[0])

    def select(values: Values) -> Values:
        try:
            return [member for member in _members(values) if holds(member)]
        except NoWayError as error:
            raise NoWayError(values) from error

    return select


def _members(values: Values) -> Iterator[Any]:
    for value in values:
        if not isinstance(value, list):
            raise NoWayError(values)
        yield from value


def _compare(left: Any, sign: str, right: Any) -> bool:
    """Only values of the same type compare: not even 1 and 1.0 do."""
    kind = type(left)
    comparable = kind in _ORDERED or (kind is bool and sign in ("==", "!="))
    if kind is not type(right) or sign not in _SIGNS or not comparable:
        raise NoWayError([left])
    return _SIGNS[sign](left, right)
