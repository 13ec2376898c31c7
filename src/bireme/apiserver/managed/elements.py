"""One step of a field path, as FieldsV1 writes it.

    f:name              a field of an object, or a key of a map
    k:{"name":"c"}      the item of a list with these keys
    v:"text"            the item of a set with this value
    i:0                 the item of a list at this place

Elements are compared as texts, so each step has one text only: keys are sorted, numbers written as Go does.
"""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
# Go's encoder, made for pages of HTML, escapes these too.
_ESCAPED: Final = re.compile("[<>&\u2028\u2029]")
_CACHED: Final = 16_384
Rank = tuple[Any, ...]


class ElementError(ValueError):
    """A text that is no element of a path."""


def by_keys(names: tuple[str, ...], *values: Any) -> str:
    """The item of a list with these keys; their names must be sorted."""
    try:
        return _by_keys(names, *values)
    except TypeError:
        # A key that is a map or a list can't be looked up.
        return _by_keys.__wrapped__(names, *values)


@lru_cache(_CACHED)
def by_key(name: str, text: str) -> str:
    """The item of a list with one key, a text: by far the most."""
    return _by_keys.__wrapped__((name,), text)


@lru_cache(_CACHED, typed=True)
def _by_keys(names: tuple[str, ...], *values: Any) -> str:
    return "k:" + _written(dict(zip(names, map(_plain, values), strict=True)))


def by_value(value: object) -> str:
    """The item of a set."""
    return "v:" + _written(_plain(value))


def _written(value: object) -> str:
    text = _encode(value).decode()
    if _ESCAPED.search(text):
        text = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(_CACHED)
def canonical(element: str) -> str | None:
    """The one text of a step; None for a sort that is not known, and may come with a later Kubernetes.

    Raises ElementError.
    """
    if len(element) < 2 or element[1] != ":":
        raise ElementError(f"missing colon: {element}")
    match element[0]:
        case "f":
            return element
        case "k":
            keys = _keys(element)
            names = tuple(sorted(keys))
            return by_keys(names, *(keys[name] for name in names))
        case "v":
            return by_value(_json(element))
        case "i":
            return f"i:{_index(element)}"
    return None


def _json(element: str) -> Any:
    try:
        return _decode(element[2:])
    except msgspec.DecodeError as error:
        raise ElementError(f"{element}: {error}") from error


def _keys(element: str) -> dict[str, Any]:
    keys = _json(element)
    if not isinstance(keys, dict):
        raise ElementError(f"{element}: not an object")
    return keys


def _index(element: str) -> int:
    try:
        return int(element[2:])
    except ValueError as error:
        raise ElementError(f"{element}: not a number") from error


def rank(element: str) -> Rank:
    """Sorts elements as a server does: fields, keys, values, places; "." is first."""
    return (0, element) if element[0] in ".f" else _rank(element)


@lru_cache(_CACHED)
def _rank(element: str) -> Rank:
    if element[0] == "k":
        return 1, tuple((name, _rank_value(value)) for name, value in _keys(element).items())
    return (2, _rank_value(_json(element))) if element[0] == "v" else (3, _index(element))


def _rank_value(value: object) -> Rank:
    match value:
        case bool():
            return 2, value
        case int() | float():
            return 0, value
        case str():
            return 1, value
    return 3, _written(value)


@lru_cache(_CACHED)
def describe(element: str) -> str:
    """A step as it stands in a sentence: `.spec`, `[name="c"]`."""
    match element[0]:
        case "f":
            return f".{element[2:]}"
        case "k":
            keys = _keys(element).items()
            return f"[{','.join(f'{name}={_encode(value).decode()}' for name, value in keys)}]"
        case "v":
            return f"[={_encode(_json(element)).decode()}]"
    return f"[{element[2:]}]"
