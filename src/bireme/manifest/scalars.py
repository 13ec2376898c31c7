"""Scalars as kubectl reads them.

kubectl reads YAML with go.yaml.in/yaml/v2 and turns the result into JSON with sigs.k8s.io/yaml.
The rules here are those two libraries' and not those of YAML 1.1 or of PyYAML: ``yes`` is a
boolean, ``010`` is eight, ``1:30`` is a string and ``08`` is a float. The differential test
compares them with a real kubectl.
"""

import base64
import binascii
import math
import re
import struct
from datetime import date
from decimal import Decimal

from bireme.manifest.positions import excerpt

Scalar = str | int | float | bool | None

TAG_PREFIX = "tag:yaml.org,2002:"
STR_TAG = TAG_PREFIX + "str"
MERGE_TAG = TAG_PREFIX + "merge"
# A bare `!` keeps the scalar a string, whatever it looks like.
NON_SPECIFIC_TAG = "!"

_INT_TAG = TAG_PREFIX + "int"
_FLOAT_TAG = TAG_PREFIX + "float"
_BOOL_TAG = TAG_PREFIX + "bool"
_NULL_TAG = TAG_PREFIX + "null"
_TIMESTAMP_TAG = TAG_PREFIX + "timestamp"
_BINARY_TAG = TAG_PREFIX + "binary"

KNOWN_TAGS = {
    NON_SPECIFIC_TAG,
    STR_TAG,
    MERGE_TAG,
    _INT_TAG,
    _FLOAT_TAG,
    _BOOL_TAG,
    _NULL_TAG,
    _TIMESTAMP_TAG,
    _BINARY_TAG,
    *(TAG_PREFIX + name for name in ("seq", "map", "set", "omap", "pairs", "value")),
}

WORDS: dict[str, Scalar] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
# A plain scalar that is none of the words and starts with none of these is a string.
NUMBER_START = frozenset("+-.0123456789")

_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_INTEGER_BASES = (16, 2, 8, 10)
_SIGNED_BINARY = re.compile(r"0b([+-][01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?)?"
)
_LONGEST_DECIMAL = 20  # digits of 2**64; Python refuses to read thousands of them
_INT64 = range(-(2**63), 2**63)
_UINT64_END = 2**64
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class ScalarError(Exception):
    """The scalar has no JSON form, or is not what its tag says."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def resolve(text: str, tag: str | None = None) -> Scalar:
    """Return what a plain or tagged scalar stands for, before it becomes JSON.

    Quoted scalars without a tag are strings and do not come here. Unknown tags give the text, as
    in kubectl. Integers beyond int64 stay integers and infinities stay floats: see json_value.
    Raises ScalarError where the text does not fit the tag.
    """
    if tag is None:
        return _resolve_plain(text)
    if tag == _BINARY_TAG:
        return _decode_binary(text)
    if tag == _TIMESTAMP_TAG and _is_timestamp(text):
        return text
    if tag not in (_INT_TAG, _FLOAT_TAG, _BOOL_TAG, _NULL_TAG, _TIMESTAMP_TAG):
        return text
    value = _resolve_plain(text)
    if tag == _FLOAT_TAG and type(value) is int and value in _INT64:
        return float(value)
    if _tag_of(value) != tag:
        raise ScalarError(f"{excerpt(text)} is not a valid !!{tag.removeprefix(TAG_PREFIX)}")
    return value


def json_value(value: Scalar) -> Scalar:
    """Return the value after its way through JSON: ``1.0`` is 1, integers beyond int64 are floats.

    Raises ScalarError for infinities and not-a-number, which JSON has no words for.
    """
    if type(value) is float:
        return _json_float(value)
    if type(value) is int and value not in _INT64:
        return float(value)
    return value


def key_name(key: Scalar) -> str:
    """Return the JSON object key for a mapping key, given as resolve returns it.

    Raises ScalarError for null and for integers beyond int64, which kubectl refuses.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return _format_float32(key)
    if key is None:
        raise ScalarError("a mapping key cannot be null", "write the key in quotes")
    if key not in _INT64:
        raise ScalarError(f"the key `{key}` does not fit in 64 bits", "write the key in quotes")
    return str(key)


def _resolve_plain(text: str) -> Scalar:
    if text in WORDS:
        return WORDS[text]
    if text[0] not in NUMBER_START:
        return text
    if text[0] != ".":
        return _resolve_number(text)
    return _finite(text.replace("_", ""), text) if _DOT_FLOAT.fullmatch(text) else text


def _resolve_number(text: str) -> Scalar:
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) < _LONGEST_DECIMAL:
        return int(text)
    plain = text.replace("_", "")
    integer = _parse_integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(plain):
        return _finite(plain, text)
    if binary := _SIGNED_BINARY.fullmatch(plain):
        value = int(binary[1], 2)
        return value if value in _INT64 else text
    return text


def _parse_integer(plain: str) -> int | None:
    found = _INTEGER.fullmatch(plain)
    if not found:
        return None
    sign, *groups = found.groups()
    digits, base = next(pair for pair in zip(groups, _INTEGER_BASES, strict=True) if pair[0])
    if base == 10 and len(digits) > _LONGEST_DECIMAL:
        return None
    value = -int(digits, base) if sign == "-" else int(digits, base)
    if value in _INT64 or (not sign and value < _UINT64_END):
        return value
    return None


def _finite(plain: str, text: str) -> float | str:
    """A number too large for a float64 is the text it was written as."""
    value = float(plain)
    return text if math.isinf(value) else value


def _tag_of(value: Scalar) -> str:
    if value is None:
        return _NULL_TAG
    return {bool: _BOOL_TAG, int: _INT_TAG, float: _FLOAT_TAG, str: STR_TAG}[type(value)]


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        return False
    year, month, day, *clock = (int(part) for part in found.groups() if part)
    try:
        # Year 0 has the same days as 2000 and date() does not know it.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return all(part < limit for part, limit in zip(clock, (24, 60, 60), strict=False))


def _decode_binary(text: str) -> str:
    try:
        raw = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ScalarError("the !!binary value is not valid base64") from None
    return _ESCAPED_BYTE.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


def _json_float(value: float) -> int | float:
    if not math.isfinite(value):
        shown = "not a number" if math.isnan(value) else "infinity"
        raise ScalarError(f"{shown} has no form in JSON", "write the value in quotes if it is text")
    # JSON has the shortest digits that give the float, and kubectl reads those as an integer again.
    whole = int(Decimal(repr(value))) if value.is_integer() else None
    return whole if whole is not None and whole in _INT64 else value


def _format_float32(value: float) -> str:
    """Write the key as sigs.k8s.io/yaml does: the shortest form that is the same float32."""
    try:
        single = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    # Nine digits tell any two float32 apart.
    precision = next(
        digits for digits in range(9) if digits == 8 or _same_float32(f"{single:.{digits}e}", single)
    )
    mantissa, exponent = f"{single:.{precision}e}".split("e")
    if -4 <= int(exponent) < 6:
        return f"{single:.{max(precision - int(exponent), 0)}f}"
    return f"{mantissa}e{exponent}"


def _same_float32(text: str, single: float) -> bool:
    try:
        return struct.pack("<f", float(text)) == struct.pack("<f", single)
    except OverflowError:  # the text rounds up beyond the largest float32
        return False
