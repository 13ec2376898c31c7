"""What Go's decoding into structs, and encoding them again, makes of an object of Kubernetes' own kinds.

Types are checked; null is absent; what Go leaves out when it is empty is dropped, and what it always writes
is there. Amounts, moments and bytes come out in their canonical form, and what a type gets by default
wherever it stands is filled in. Fields that a schema does not know are dropped without a word: pruning
reports them.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NoReturn

from bireme.api.quantity import Quantity, QuantityError, parse_quantity
from bireme.apiserver.go_types import MICRO_TIMES, NULL, POINTERS, go_type
from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import MalformedError
from bireme.apiserver.openapi.definitions import Schema, schema_of
from bireme.apiserver.rules import Object
from bireme.apiserver.structural.pruning import prune

Decode = Callable[[Any], Any]

_NANOS_PER_MILLI: Final = 10**6
_MOST_INT32: Final = 2**31 - 1
_MOST_INT64: Final = 2**63 - 1
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_JSON_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_PYTHON_TYPES: Final = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
_ZEROS: Final = {"string": "", "boolean": False, "integer": 0}


class _MismatchError(Exception):
    """A value that does not fit; `path` grows from its end while the error goes up."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path = ""


class _UnknownError(Exception):
    """A field that the kind does not have."""


def decode(kind: Kind, obj: Object) -> Object:
    """A new object, as a server would write it if it did nothing but read it; MalformedError where it can't.

    Equal parts of results may be the same dict.
    """
    decoded = decode_known(kind, obj)
    if decoded is None:
        decoded = decode_known(kind, prune(schema_of(kind), obj, custom=False).obj)
        assert decoded is not None, "what was pruned is known"
    return decoded


def decode_known(kind: Kind, obj: Object) -> Object | None:
    """As `decode`, or None if something is in the object that the kind does not know."""
    try:
        decoded: Object = _plan(kind)(obj)
    except _UnknownError:
        return None
    except _MismatchError as mismatch:
        raise MalformedError(f"json: {mismatch} ({kind.kind}{mismatch.path})") from mismatch
    return decoded


_plans: Final[dict[str, "_Struct"]] = {}
_structs: Final[dict[int, "_Struct"]] = {}


def _plan(kind: Kind) -> "_Struct":
    if (plan := _plans.get(kind.definition)) is None:
        plan = _plans[kind.definition] = _struct(schema_of(kind))
    return plan


def _struct(schema: Schema) -> "_Struct":
    """The plan of a type; one for all places where it stands, for it may stand in itself."""
    key = id(schema["properties"])
    if key not in _structs:
        _structs[key] = made = _Struct()
        made.fill(schema)
    return _structs[key]


class _Struct:
    """How to decode a type's objects."""

    __slots__ = ("_always", "_fields")

    def __init__(self) -> None:
        self._fields: dict[str, tuple[type | None, Decode | None, bool]] = {}
        """The Python type, what to do with a value of it, and whether it is written when it is empty."""
        self._always: Object = {}
        """What stands where nothing is given."""

    def fill(self, schema: Schema) -> None:
        special = go_type(schema)
        for name, child in schema["properties"].items():
            pointer = name in POINTERS or name in special.pointers
            if name in special.values:
                self._always[name] = special.values[name]
            elif name == "name" and name not in schema.get("required", ()):
                # References to other objects: the default is for server-side apply, and not written.
                pass
            elif (value := _written_empty(name, child, pointer=pointer)) is not _NOTHING:
                self._always[name] = value
            keeps = pointer or "properties" in child
            self._fields[name] = (_type_of(child), _decoder(name, child), keeps)

    def __call__(self, value: Any) -> Object:
        if type(value) is not dict:
            _refuse(value, dict)
        made = self._always.copy()
        fields = self._fields
        for key, given in value.items():
            if (field := fields.get(key)) is None:
                raise _UnknownError
            if given is None:
                continue
            expected, decode_value, keeps = field
            if expected is not None and type(given) is not expected:
                _refuse(given, expected, f".{key}")
            if decode_value is not None:
                try:
                    given = decode_value(given)
                except _MismatchError as mismatch:
                    mismatch.path = f".{key}{mismatch.path}"
                    raise
            if given or keeps:
                made[key] = given
        return made


_NOTHING: Final = object()


def _written_empty(name: str, schema: Schema, *, pointer: bool) -> Any:
    """What Go writes of a field that was not given; _NOTHING if nothing."""
    if name in NULL and schema.get("type") == "array":
        return None
    if schema.get("format") == "date-time":
        return _NOTHING if pointer or name == "creationTimestamp" else None
    if schema.get("default") == {}:
        return _struct(schema)({})
    return schema.get("default", _NOTHING)


def _type_of(schema: Schema) -> type | None:
    """The Python type of a value; None where several are taken."""
    return _PYTHON_TYPES.get(schema.get("type", ""))


def _decoder(name: str, schema: Schema) -> Decode | None:
    """What to do with a value that is of the right type; None if nothing."""
    match schema:
        case {"properties": _}:
            return _struct(schema)
        case {"additionalProperties": dict(values)}:
            return _map(values)
        case {"items": dict(items)}:
            return _list(items)
        case {"type": "integer"}:
            return _int32 if schema.get("format") == "int32" else _int64
        case {"format": "byte"}:
            return _bytes
        case {"format": "date-time"}:
            return _micro_time if name in MICRO_TIMES else _time
        case {"format": "int-or-string"}:
            return _int_or_string
        case {"oneOf": _}:
            return _quantity
    return None


def _element(schema: Schema) -> tuple[type | None, Decode | None, Any]:
    """The type of what stands in a list or map, what to do with it, and what null is there."""
    if _is_quantity(schema):
        return None, _resource, "0"
    decode_value = _decoder("", schema)
    null = _struct(schema)({}) if "properties" in schema else _ZEROS.get(schema.get("type", ""))
    return _type_of(schema), decode_value, null


def _is_quantity(schema: Schema) -> bool:
    return "oneOf" in schema and schema.get("format") != "int-or-string"


def _list(items: Schema) -> Decode:
    expected, decode_value, null = _element(items)

    def decode_list(value: list[Any]) -> list[Any]:
        made = []
        for index, given in enumerate(value):
            if given is None:
                made.append(null)
                continue
            if expected is not None and type(given) is not expected:
                _refuse(given, expected, f"[{index}]")
            try:
                made.append(given if decode_value is None else decode_value(given))
            except _MismatchError as mismatch:
                mismatch.path = f"[{index}]{mismatch.path}"
                raise
        return made

    return decode_list


def _map(values: Schema) -> Decode:
    expected, decode_value, null = _element(values)

    def decode_map(value: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for key, given in value.items():
            if given is None:
                made[key] = null
                continue
            if expected is not None and type(given) is not expected:
                _refuse(given, expected, f".{key}")
            try:
                made[key] = given if decode_value is None else decode_value(given)
            except _MismatchError as mismatch:
                mismatch.path = f".{key}{mismatch.path}"
                raise
        return made

    return decode_map


def _refuse(value: object, expected: type, path: str = "") -> NoReturn:
    given, wanted = _JSON_TYPES.get(type(value), "null"), expected.__name__
    mismatch = _MismatchError(f"cannot unmarshal {given} into Go struct field of type {wanted}")
    mismatch.path = path
    raise mismatch


# ---- values


def _int32(value: int) -> int:
    return _in_range(value, _MOST_INT32, "int32")


def _int64(value: int) -> int:
    return _in_range(value, _MOST_INT64, "int64")


def _in_range(value: int, most: int, name: str) -> int:
    if not -most - 1 <= value <= most:
        raise _MismatchError(f"cannot unmarshal number {value} into Go struct field of type {name}")
    return value


def _int_or_string(value: Any) -> int | str:
    if type(value) is int:
        return _int32(value)
    if type(value) is not str:
        _refuse(value, str)
    return value


@lru_cache(4096)
def _canonical(text: str, finest: int) -> str:
    quantity = parse_quantity(text)
    nanos = -(-quantity.nanos // finest) * finest
    return str(Quantity(nanos, quantity.format))


def _quantity(value: Any, finest: int = 1) -> str:
    if type(value) is not str and type(value) not in (int, float):
        _refuse(value, str)
    try:
        return _canonical(str(value).strip(), finest)
    except QuantityError as error:
        raise _MismatchError(f"unable to parse quantity's suffix or number: {error}") from error


def _resource(value: Any) -> str:
    """An amount in a list of resources: Kubernetes keeps these to the thousandth, rounded up."""
    return _quantity(value, _NANOS_PER_MILLI)


def _bytes(value: str) -> str:
    try:
        plain = base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _MismatchError("illegal base64 data") from error
    return base64.b64encode(plain).decode()


def _time(value: str) -> str:
    match = _TIME.fullmatch(value)
    if match is None:
        raise _MismatchError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    return f"{_utc(match[1] + match[3])}Z"


def _micro_time(value: str) -> str:
    match = _TIME.fullmatch(value)
    if match is None or len(match[2] or "") != 6:
        raise _MismatchError(f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse')
    return f"{_utc(match[1] + match[3])}.{match[2]}Z"


def _utc(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError) as error:
        raise _MismatchError(f'parsing time "{text}": out of range') from error
