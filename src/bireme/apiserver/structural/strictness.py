"""What a strict decoder complains about, in the words of the API server.

strict_errors(body, pruned.unknown, custom=kind.custom)
# ('duplicate field "spec.replicas"', 'unknown field "spec.foo"')
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

MOST_REPORTED: Final = 100
"""A decoder keeps no more complaints than these."""

_ESCAPES: Final = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quoted(text: str) -> str:
    """As Go quotes a string."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def duplicate_fields(body: bytes, decoded: object = None) -> tuple[str, ...]:
    """A sentence for each field that stands twice in its object, in the order of the body.

    `decoded` is what the body says, where the caller has it already. A body that is not JSON has none.
    """
    return tuple(_first(_duplicates(_pairs_of(body), ""))) if _repeats(body, decoded) else ()


def strict_errors(
    body: bytes, unknown: tuple[str, ...], *, custom: bool, decoded: object = None
) -> tuple[str, ...]:
    """All that strict field validation refuses in a body; `unknown` is what pruning reported of it.

    A custom kind's body is searched for duplicates before it is pruned, others' in the same pass.
    """
    if not _repeats(body, decoded):
        return unknown
    if custom:
        return (*_first(_duplicates(_pairs_of(body), "")), *unknown)
    return tuple(_first(_duplicates(_pairs_of(body), "", frozenset(unknown))))


def _first(sentences: Iterator[str]) -> Sequence[str]:
    return list(dict.fromkeys(sentences))[:MOST_REPORTED]


class _RepeatedError(Exception):
    """A field stands twice."""


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedError


_seeker: Final = json.JSONDecoder(object_pairs_hook=_unique)


def _repeats(body: bytes, decoded: object) -> bool:
    """Whether a field stands twice; never so in a body that is what it encodes to, as most clients send."""
    if decoded is not None and msgspec.json.encode(decoded) == body:
        return False
    try:
        _seeker.decode(body.decode())
    except _RepeatedError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its fields, the repeated ones too."""


def _pairs_of(body: bytes) -> object:
    return json.loads(body, object_pairs_hook=_Pairs)


def _duplicates(value: object, path: str, unknown: frozenset[str] = frozenset()) -> Iterator[str]:
    """Duplicates, and the unknown fields between them: what lies below these is not looked at."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, child in value:
            place = f"{path}.{key}" if path else key
            if (sentence := f"unknown field {quoted(place)}") in unknown:
                yield sentence
                continue
            if key in seen:
                yield f"duplicate field {quoted(place)}"
            seen.add(key)
            yield from _duplicates(child, place, unknown)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _duplicates(child, f"{path}[{index}]", unknown)
