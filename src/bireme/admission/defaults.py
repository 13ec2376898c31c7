"""Fill in what a manifest leaves out, from the defaults of the kind's schema.

The rules are those of an API server with the CRD: a default goes where the field is missing or null,
and reaches into objects that are there or were made by a default.
"""

from collections.abc import Mapping
from typing import Any

from bireme.api.kinds import find_kind
from bireme.api.kubernetes import Schema
from bireme.api.schema import kind_schema


def default(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with defaults filled in; objects of other kinds come back as they are.

    Idempotent. Never fails: what is malformed is left for `validate` to name.
    """
    kind = find_kind(obj.get("apiVersion"), obj.get("kind"))
    if kind is None:
        return dict(obj)
    spec_schema = kind_schema(kind)["properties"]["spec"]
    if "spec" not in obj and "default" not in spec_schema:
        return dict(obj)
    spec = obj.get("spec")
    return {**obj, "spec": _fill({} if spec is None else spec, spec_schema)}


def _fill(value: Any, schema: Schema) -> Any:
    if isinstance(value, Mapping):
        return _fill_object(value, schema)
    if isinstance(value, list) and _may_default(schema.get("items")):
        return [_fill(item, schema["items"]) for item in value]
    return value


def _fill_object(value: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    # A null means that the field is not there, for an API server too.
    result = {name: child for name, child in value.items() if child is not None or name not in _known(schema)}
    items = schema.get("additionalProperties")
    if items is not None and _may_default(items):
        return {name: _fill(child, items) for name, child in value.items()}
    for name, child_schema in schema.get("properties", {}).items():
        if not _may_default(child_schema):
            continue
        if result.get(name) is None and "default" in child_schema:
            result[name] = child_schema["default"]
        if result.get(name) is not None:
            result[name] = _fill(result[name], child_schema)
    return result


def _known(schema: Schema) -> Mapping[str, Any]:
    known: Mapping[str, Any] = schema.get("properties", {})
    return known


def _may_default(schema: Schema | None) -> bool:
    """Whether defaults can be inside: never in what Kubernetes defines."""
    return schema is not None and "x-kubernetes-preserve-unknown-fields" not in schema
