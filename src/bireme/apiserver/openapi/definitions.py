"""Kubernetes' own definitions of the kinds, and the schema of any kind.

The file beside this module is cut by hack/openapi_definitions.py. It is read at the first use, and each
definition in it when it is asked for.
"""

import hashlib
import pkgutil
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

import msgspec

from bireme.apiserver.kinds import Kind

Schema = dict[str, Any]
"""A schema as plain data. It is shared and may contain itself: it is read, never changed."""

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = f"{META}ObjectMeta"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_PREFIX: Final = "#/components/schemas/"
_MOST_CUSTOM: Final = 512


class _File(msgspec.Struct):
    kubernetes: str
    definitions: dict[str, msgspec.Raw]


@cache
def _data() -> bytes:
    data = pkgutil.get_data("bireme.apiserver.openapi", "definitions.json")
    assert data is not None, "definitions.json is part of the package"
    return data


@cache
def _file() -> _File:
    return msgspec.json.decode(_data(), type=_File)


@cache
def digest() -> str:
    """A text that changes with any definition."""
    return hashlib.sha256(_data()).hexdigest()


@cache
def raw_definition(name: str) -> Schema:
    """A definition as Kubernetes writes it, with `$ref`s; KeyError where there is none of that name."""
    schema: Schema = msgspec.json.decode(_file().definitions[name])
    return schema


_definitions: Final[dict[str, Schema]] = {}


def definition(name: str) -> Schema:
    """A definition by its full name, such as `io.k8s.api.core.v1.Pod`, with no `$ref` left.

    Where one stood stands what it referred to: the same dict, or a new one that shares all below its top,
    if there were keywords beside the reference. KeyError where there is none of that name.
    """
    if name not in _definitions:
        # Known before its fields are: a definition may refer to itself.
        _definitions[name] = schema = dict(raw_definition(name))
        _resolve_below(schema)
    return _definitions[name]


def _resolve_below(schema: Schema) -> None:
    """Replace the children of a schema by resolved ones; the schema itself must be new."""
    if "properties" in schema:
        raw, schema["properties"] = schema["properties"], {}
        for name, child in raw.items():
            schema["properties"][name] = _resolved(child)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            schema[keyword] = _resolved(schema[keyword])


def _resolved(node: Schema) -> Schema:
    match node:
        case {"$ref": str(text)}:
            return definition(text.removeprefix(_PREFIX))
        case {"allOf": [{"$ref": str(text)}], **beside}:
            return definition(text.removeprefix(_PREFIX)) | beside
    return with_children(node, _resolved)


def with_children(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy of a schema, with each schema right below it changed."""
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: change(child) for name, child in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            schema[keyword] = change(schema[keyword])
    return schema


def reference(name: str) -> Schema:
    """What stands for a definition in a document."""
    return {"$ref": _PREFIX + name}


@cache
def closure(name: str) -> frozenset[str]:
    """The names of all definitions that one refers to, however far; its own among them."""
    found, waiting = {name}, [name]
    while waiting:
        new = references(raw_definition(waiting.pop())) - found
        found |= new
        waiting += new
    return frozenset(found)


def references(node: object) -> set[str]:
    """The definitions that a part of a document refers to."""
    match node:
        case {"$ref": str(text)}:
            return {text.removeprefix(_PREFIX)}
        case dict():
            return {name for child in node.values() for name in references(child)}
        case list():
            return {name for child in node for name in references(child)}
    return set()


def schema_of(kind: Kind) -> Schema:
    """The schema of a whole object of a kind; equal calls give the same dict.

    That of a CRD is completed, at its top and in embedded resources: with apiVersion, kind and metadata. A
    CRD without a schema takes any field. The `default`s of Kubernetes' own definitions, ObjectMeta's too,
    only document what is done in code.
    """
    return _custom_schema(_Same(kind.crd_schema)) if kind.custom else definition(kind.definition)


class _Same:
    """A key that is equal to that of the same object only: schemas are too large to compare."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema


@lru_cache(_MOST_CUSTOM)
def _custom_schema(key: _Same) -> Schema:
    schema = _below(key.schema or {"type": "object", PRESERVE: True})
    return schema | {"properties": _object_properties(schema.get("properties", {}))}


def _below(schema: Schema) -> Schema:
    """A schema whose embedded resources are complete, at any depth."""
    schema = with_children(schema, _below)
    if schema.get(EMBEDDED):
        schema["properties"] = _object_properties(schema.get("properties", {}))
    return schema


def _object_properties(properties: Schema) -> Schema:
    """Properties with those of any object; a CRD may restrict the names in metadata."""
    meta = definition(OBJECT_META)
    restricted = properties.get("metadata", {}).get("properties", {})
    return {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **properties,
        "metadata": meta | {"properties": meta["properties"] | restricted},
    }
