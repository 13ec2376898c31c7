"""From Kubernetes' Protobuf to the plain data that its JSON would have been.

    read_object(b"k8s\\x00...") == {"apiVersion": "v1", "kind": "Pod", "metadata": ...}

Go writes the empty values of fields that are no pointers, and so they are here: reading the result as Go
reads JSON (`decoding`) drops them. Fields that are not known are dropped without a word, as Go does.
"""

import base64
import pkgutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from bireme.apiserver.objects import MalformedError
from bireme.apiserver.protobuf.wire import LENGTH, Field, WireError, double, fields, signed, varint
from bireme.apiserver.rules import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_JSON_SCHEMA: Final = f"{_EXTENSIONS}JSON"
_POINTERS: Final = {
    "additionalItems", "additionalProperties", "default", "example", "items", "optionalOldSelf",
    "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEEPEST: Final = 200
_NOTHING: Final = object()


class _File(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, dict[int, tuple[str, str, str]]]
    """Of each field, by its number: its name in JSON, its type and its shape; no name where it is inlined."""


@cache
def _file() -> _File:
    data = pkgutil.get_data("bireme.apiserver.protobuf", "messages.json")
    assert data is not None, "messages.json is part of the package"
    return msgspec.json.decode(data, type=_File, strict=False)


def read_object(data: bytes) -> Object:
    """The object in a body, with its apiVersion and kind. Raises MalformedError."""
    if not data.startswith(_MAGIC):
        raise MalformedError("provided data does not appear to be a protobuf message, expected prefix")
    try:
        envelope = {field.number: field.value for field in fields(data[len(_MAGIC) :])}
        identity = {field.number: _text(field.value) for field in fields(_bytes(envelope.get(1, b"")))}
        api_version, kind = identity.get(1, ""), identity.get(2, "")
        content: Object = _message(_name(api_version, kind), _bytes(envelope.get(2, b"")), 0)
    except (WireError, UnicodeDecodeError, OverflowError, msgspec.DecodeError) as error:
        raise MalformedError(f"proto: {error}") from error
    return {"apiVersion": api_version, "kind": kind} | content


def _name(api_version: str, kind: str) -> str:
    """The message of a kind; options are of every group."""
    place = "v1" if kind == "DeleteOptions" else api_version
    name = _file().kinds.get(f"{place}/{kind}")
    if name is None:
        raise MalformedError(f'no kind "{kind}" is registered for version "{api_version}"')
    return name


def _message(name: str, data: bytes, depth: int) -> Any:
    """What a message is in JSON; _NOTHING for what Go would write as null."""
    if depth > _DEEPEST:
        raise WireError("exceeded max depth")
    table = _file().messages[name]
    made: Object = {}
    for field in fields(data):
        if (known := table.get(field.number)) is not None:
            _add(made, known, field, depth)
    return _SPECIAL[name](made) if name in _SPECIAL else made


def _add(made: Object, known: tuple[str, str, str], field: Field, depth: int) -> None:
    name, kind, shape = known
    if shape == "list":
        made.setdefault(name, []).extend(_values(kind, field, depth))
    elif shape == "map":
        entry = {part.number: part for part in fields(_bytes(field.value))}
        key = _text(entry[1].value) if 1 in entry else ""
        made.setdefault(name, {})[key] = _value(kind, entry.get(2, Field(2, LENGTH, b"")), depth)
    elif not name:
        made |= _value(kind, field, depth)
    elif (value := _value(kind, field, depth)) is not _NOTHING:
        made[name] = value


def _values(kind: str, field: Field, depth: int) -> list[Any]:
    """One value, or those of a packed list of numbers."""
    if kind not in ("int32", "int64", "bool") or isinstance(field.value, int):
        return [_value(kind, field, depth)]
    found, place = [], 0
    while place < len(field.value):
        number, place = varint(field.value, place)
        found.append(_scalar(kind, number))
    return found


def _value(kind: str, field: Field, depth: int) -> Any:
    match kind:
        case "int32" | "int64" | "bool":
            return _scalar(kind, field.value if isinstance(field.value, int) else 0)
        case "string":
            return _text(field.value)
        case "bytes":
            return base64.b64encode(_bytes(field.value)).decode()
        case "double":
            return double(_bytes(field.value))
    return _message(kind, _bytes(field.value), depth + 1)


def _scalar(kind: str, number: int) -> int | bool:
    return bool(number) if kind == "bool" else signed(number)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("wrong wireType = 0")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


# ---- messages that are something else in JSON


def _time(made: Object) -> Any:
    return _moment(made, "seconds") if made else _NOTHING


def _micro_time(made: Object) -> Any:
    return _moment(made, "microseconds") if made else _NOTHING


def _moment(made: Object, precision: str) -> str:
    moment = _EPOCH + timedelta(seconds=made.get("seconds", 0), microseconds=made.get("nanos", 0) // 1000)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _int_or_string(made: Object) -> int | str:
    found: int | str = made.get("strVal", "") if made.get("type") else made.get("intVal", 0)
    return found


def _json(made: Object) -> Any:
    """What was JSON before it became bytes."""
    data = base64.b64decode(next(iter(made.values()), ""))
    return msgspec.json.decode(data) if data else _NOTHING


def _without_empty(made: Object) -> Object:
    """Without what Go leaves out: OpenAPI is silent about what stands in schemas, so nobody else can."""
    return {
        name: value
        for name, value in made.items()
        if name in _POINTERS or not (value is False or value in ("", [], {}))
    }


def _column(made: Object) -> Object:
    return {name: value for name, value in made.items() if value}


def _schema_or_array(made: Object) -> Any:
    return made["schema"] if "schema" in made else made.get("jSONSchemas", [])


def _schema_or_bool(made: Object) -> Any:
    return made["schema"] if "schema" in made else made.get("allows", False)


def _schema_or_names(made: Object) -> Any:
    return made["schema"] if "schema" in made else made.get("property", [])


_SPECIAL: Final[Mapping[str, Callable[[Object], Any]]] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda made: made.get("string", "0"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.api.authentication.v1.ExtraValue": lambda made: made.get("items", []),
    "io.k8s.api.authorization.v1.ExtraValue": lambda made: made.get("items", []),
    _JSON_SCHEMA: _json,
    f"{_JSON_SCHEMA}SchemaProps": _without_empty,
    f"{_EXTENSIONS}CustomResourceColumnDefinition": _column,
    f"{_EXTENSIONS}ExternalDocumentation": _without_empty,
    f"{_EXTENSIONS}ValidationRule": _without_empty,
    f"{_JSON_SCHEMA}SchemaPropsOrArray": _schema_or_array,
    f"{_JSON_SCHEMA}SchemaPropsOrBool": _schema_or_bool,
    f"{_JSON_SCHEMA}SchemaPropsOrStringArray": _schema_or_names,
}
