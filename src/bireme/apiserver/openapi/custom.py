"""The definitions of custom kinds, as a server publishes them from a CRD's schema."""

from typing import Final

from bireme.apiserver.kinds import Kind
from bireme.apiserver.openapi.definitions import (
    EMBEDDED,
    META,
    OBJECT_META,
    Schema,
    raw_definition,
    reference,
    with_children,
)

_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_METADATA: Final[Schema] = {
    "description": f"Standard object's metadata. More info: {_CONVENTIONS}#metadata",
    "allOf": [reference(OBJECT_META)],
}
_LIST_METADATA: Final[Schema] = {
    "description": f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds",
    "allOf": [reference(f"{META}ListMeta")],
}
_EMBEDDED_TYPE: Final[Schema] = {
    "apiVersion": {
        "type": "string",
        "description": "apiVersion defines the versioned schema of this representation of an object."
        f" More info: {_CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "kind is a string value representing the type of this object. In CamelCase."
        f" More info: {_CONVENTIONS}#types-kinds",
    },
}


def definition_name(kind: Kind) -> str:
    """What a kind's definition is called: `dev.tensorstack.batch.v1beta1.GenericJob`."""
    if not kind.custom:
        return kind.definition
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def custom_definitions(kind: Kind) -> dict[str, Schema]:
    """The definitions of a custom kind and of its list, by name."""
    name = definition_name(kind)
    return {name: _object(kind), f"{name}List": _list(kind, name)}


def _object(kind: Kind) -> Schema:
    typed = _typed(kind, kind.kind)
    if not kind.crd_schema:
        # Without properties: clients would refuse any others.
        return {"type": "object"} | typed
    schema = _published(kind.crd_schema)
    properties = schema.get("properties", {}) | _type_properties() | {"metadata": _METADATA}
    return schema | {"properties": properties} | typed


def _list(kind: Kind, name: str) -> Schema:
    items = {
        "description": f"List of {kind.plural}. More info: {_CONVENTIONS}",
        "type": "array",
        "items": reference(name),
    }
    return {
        "description": f"{kind.kind}List is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": _type_properties() | {"items": items, "metadata": _LIST_METADATA},
    } | _typed(kind, f"{kind.kind}List")


def _typed(kind: Kind, name: str) -> Schema:
    identity = {"group": kind.group, "version": kind.version, "kind": name}
    return {"x-kubernetes-group-version-kind": [identity]}


def _type_properties() -> Schema:
    properties = raw_definition(f"{META}Status")["properties"]
    return {name: properties[name] for name in ("apiVersion", "kind")}


def _published(schema: Schema) -> Schema:
    """A schema with what it implies spelled out, at any depth."""
    schema = with_children(schema, _published)
    if schema.get("x-kubernetes-int-or-string"):
        schema |= _spelled_out(schema)
    if schema.get(EMBEDDED):
        schema["properties"] = schema.get("properties", {}) | _EMBEDDED_TYPE | {"metadata": _METADATA}
        schema["required"] = list(dict.fromkeys([*schema.get("required", ()), "kind", "apiVersion"]))
    return schema


def _spelled_out(schema: Schema) -> Schema:
    """The two types that an int-or-string may have, unless the schema names them already."""
    if "anyOf" not in schema:
        named = any(each.get("anyOf") == _INT_OR_STRING for each in schema.get("allOf", ())[:1])
        return {} if named else {"anyOf": _INT_OR_STRING}
    if schema["anyOf"] == _INT_OR_STRING:
        return {}
    return {"allOf": [{"anyOf": _INT_OR_STRING}, *schema.get("allOf", ())]}
