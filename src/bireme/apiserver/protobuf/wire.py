"""Protobuf's wire format: numbered fields, without their meaning."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
_FIXED64: Final = 1
LENGTH: Final = 2
_FIXED32: Final = 5
_LONGEST_VARINT: Final = 10


class WireError(ValueError):
    """Bytes that are no message."""


class Field(NamedTuple):
    """A field as it stands in a message: a varint is an int, anything else bytes."""

    number: int
    type: int
    value: int | bytes


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in their order. Raises WireError."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = varint(data, place)
            yield Field(number, kind, value)
            continue
        size, place = _size(data, place, kind)
        if place + size > len(data):
            raise WireError("unexpected EOF")
        yield Field(number, kind, data[place : place + size])
        place += size


def _size(data: bytes, place: int, kind: int) -> tuple[int, int]:
    if kind == LENGTH:
        return varint(data, place)
    if kind not in (_FIXED64, _FIXED32):
        raise WireError(f"illegal wireType {kind}")
    return 8 if kind == _FIXED64 else 4, place


def varint(data: bytes, place: int) -> tuple[int, int]:
    """The number that begins at a place, and the place behind it. Raises WireError."""
    number = 0
    for index in range(_LONGEST_VARINT):
        if place + index >= len(data):
            raise WireError("unexpected EOF")
        byte = data[place + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number & (2**64 - 1), place + index + 1
    raise WireError("integer overflow")


def signed(number: int) -> int:
    """A varint as the number of 64 bits with a sign that it stands for."""
    return number - 2**64 if number >= 2**63 else number


def double(value: bytes) -> float:
    if len(value) != struct.calcsize("<d"):
        raise WireError("a double has eight bytes")
    number: float = struct.unpack("<d", value)[0]
    return number
