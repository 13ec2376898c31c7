"""The structural schema of a kind, made from its struct.

One schema serves the CRD, the checks of admission, defaulting and `bireme explain`. Keywords that begin
with `x-bireme-` are ours and are left out of CRDs.
"""

from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from bireme.api.kinds import Kind
from bireme.api.kubernetes import Schema, kube_schema
from bireme.api.model import Model, Rule

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}
_UNSET: tuple[Any, ...] = (None, "", (), {}, msgspec.NODEFAULT)


@cache
def kind_schema(kind: Kind) -> Schema:
    """The schema of a whole object. Never change what is returned."""
    schema = dict(_struct(kind.struct, defaults=True))
    properties = dict(schema["properties"])
    properties["apiVersion"] = {
        "type": "string",
        "description": "The version of this schema.",
        "enum": [kind.api_version],
    }
    properties["kind"] = {"type": "string", "description": "The kind of object.", "enum": [kind.kind]}
    properties["metadata"] = {**kube_schema("ObjectMeta"), "description": "Standard Kubernetes metadata."}
    properties["status"] = _field(_hints(kind.struct)["status"], None, defaults=False)
    return {**schema, "properties": properties}


def _hints(struct: type[Model]) -> dict[str, Any]:
    return {info.name: info.type for info in msgspec.structs.fields(struct)}


def _struct(struct: type[Model], *, defaults: bool) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for info in msgspec.structs.fields(struct):
        schema = _field(info.type, info.default, defaults=defaults)
        if schema.pop("x-bireme-required", False):
            required.append(info.encode_name)
        properties[info.encode_name] = schema
    result: Schema = {"type": "object", "description": _first_paragraph(struct), "properties": properties}
    if required:
        result["required"] = required
    if rules := getattr(struct, "rules", ()):
        result["x-kubernetes-validations"] = [_rule(rule) for rule in rules]
    return result


def _first_paragraph(struct: type[Model]) -> str:
    return " ".join((struct.__doc__ or "").split("\n\n")[0].split())


def _rule(rule: Rule) -> Schema:
    result = {"rule": rule.expression, "message": rule.message}
    return {**result, "fieldPath": rule.field_path} if rule.field_path else result


def _field(hint: Any, default: Any, *, defaults: bool) -> Schema:
    """A field's schema; `x-bireme-required` inside is for the parent to take out."""
    schema = _type(hint, defaults=defaults)
    if isinstance(default, Model):
        default = {}
        has_default = bool(_own_defaults(schema))
    else:
        has_default = default not in _UNSET
    if defaults and has_default and "x-bireme-required" not in schema:
        schema["default"] = default
    return schema


def _own_defaults(schema: Schema) -> list[str]:
    return [name for name, child in schema.get("properties", {}).items() if "default" in child]


def _type(hint: Any, *, defaults: bool) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1], defaults=defaults)
    if origin in (Union, UnionType):
        return _union([argument for argument in arguments if argument is not NoneType], defaults=defaults)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], defaults=defaults)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1], defaults=defaults)}
    if isinstance(hint, type) and issubclass(hint, Model):
        return _struct(hint, defaults=defaults)
    return dict(_SCALARS[hint])


def _union(members: list[Any], *, defaults: bool) -> Schema:
    """Optional fields have one member; fields of several types say so by `x-bireme-untyped`."""
    return _type(members[0], defaults=defaults) if len(members) == 1 else {}


def _annotated(hint: Any, meta: msgspec.Meta, *, defaults: bool) -> Schema:
    extra = {key: _embedded(value) for key, value in (meta.extra_json_schema or {}).items()}
    if extra.pop("x-bireme-untyped", False):
        base: Schema = {}
    elif definition := extra.pop("x-bireme-kube", None):
        base = dict(kube_schema(definition))
    else:
        base = _type(hint, defaults=defaults)
    return {**base, "description": meta.description, **extra}


def _embedded(value: Any) -> Any:
    """Resolve `x-bireme-kube` inside a keyword's value, such as `items`."""
    match value:
        case {"x-bireme-kube": str(definition)}:
            return kube_schema(definition)
        case dict():
            return {key: _embedded(child) for key, child in value.items()}
        case _:
            return value
