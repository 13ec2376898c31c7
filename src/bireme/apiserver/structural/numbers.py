"""Numbers against the limits of a schema."""

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bireme.apiserver.structural.wording import is_int64, number

_MOST_EXACT: Final = 2**53 - 1


class Problem(NamedTuple):
    sentence: str
    value: float | None = None
    """What is wrong; none where it is the object as a whole."""
    whole: bool = False
    """Whether the sentence is complete; otherwise it follows the path."""


def is_whole(value: float) -> bool:
    """Whether a float is as good as an integer."""
    if not math.isfinite(value) or abs(value) > _MOST_EXACT:
        return False
    whole = int(value)
    return value == whole or (value > 0 and abs(value - whole) / (value + whole) < 1e-9)


def problems(schema: Mapping[str, Any], value: float, path: str) -> Iterator[Problem]:
    """What is wrong with a number; its range first, then multipleOf, minimum and maximum."""
    yield from _range(schema, value, "Checked", path)
    if "multipleOf" in schema:
        yield from _range(schema, float(schema["multipleOf"]), "MultipleOf", path)
        yield from _multiple(value, schema["multipleOf"], path)
    if "minimum" in schema:
        yield from _range(schema, float(schema["minimum"]), "Minimum boundary", path)
        least, excluded = _limit(value, schema["minimum"]), schema.get("exclusiveMinimum", False)
        if value < least or (excluded and value == least):
            than = "" if excluded else " or equal to"
            yield Problem(f"should be greater than{than} {number(least)}", value)
    if "maximum" in schema:
        yield from _range(schema, float(schema["maximum"]), "Maximum boundary", path)
        most, excluded = _limit(value, schema["maximum"]), schema.get("exclusiveMaximum", False)
        if value > most or (excluded and value == most):
            than = "" if excluded else " or equal to"
            yield Problem(f"should be less than{than} {number(most)}", value)


def _limit(value: float, limit: float) -> float:
    """An integer is compared with the limit's whole part."""
    return int(limit) if isinstance(value, int) and is_int64(value) else float(limit)


def _multiple(value: float, factor: float, path: str) -> Iterator[Problem]:
    if isinstance(value, int) and is_int64(value):
        factor = int(factor)
        if factor <= 0:
            yield Problem(
                f"factor MultipleOf declared for {path} must be positive: {factor}", factor, whole=True
            )
        elif value % factor:
            yield Problem(f"should be a multiple of {factor}", value)
    elif not is_whole(1 / factor * value if factor < 1 else value / factor):
        yield Problem(f"should be a multiple of {number(float(factor))}", float(value))


def _range(schema: Mapping[str, Any], value: float, what: str, path: str) -> Iterator[Problem]:
    kind, form = _kind(schema)
    if not _fits(kind, form, value):
        suffix = f"with format {form}" if form else "(default format)"
        yield Problem(f"{what} value must be of type {kind} {suffix} in {path}")


def _kind(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Type and format as far as they set a range."""
    if schema.get("x-kubernetes-int-or-string"):
        return "", ""
    kind, form = schema.get("type", ""), schema.get("format", "")
    formats = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind)
    return (kind, form if form in formats else "") if formats else ("", "")


def _fits(kind: str, form: str, value: float) -> bool:
    if kind == "integer":
        bits = 31 if form == "int32" else 63
        return (isinstance(value, int) or value.is_integer()) and -(2**bits) <= value < 2**bits
    if form == "float":
        try:
            struct.pack("f", value)
        except OverflowError:
            return False
    return True
