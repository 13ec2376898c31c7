"""A schema, compiled to what a check of a value needs."""

from collections.abc import Mapping
from typing import Any, Final

from bireme.apiserver.structural import formats, patterns

Schema = Mapping[str, Any]

_MOST_CACHED: Final = 512
_NAMES: Final = ("name", "generateName")


class Check:
    """One schema, and those in it. `whole` is that of an object with metadata, such as the root is."""

    __slots__ = (
        "all_of",
        "any_of",
        "enum",
        "format",
        "has_embedded",
        "has_keys",
        "has_rules",
        "is_composed",
        "is_embedded",
        "items",
        "list_keys",
        "list_type",
        "negated",
        "nullable",
        "one_of",
        "pattern",
        "properties",
        "required",
        "rest",
        "schema",
        "types",
    )

    def __init__(self, schema: Schema, *, whole: bool = False) -> None:
        self.schema = schema
        self.types = _types(schema)
        self.nullable = bool(schema.get("nullable"))
        self.format = formats.known(self.types, schema.get("format", ""))
        self.pattern = patterns.compiled(schema["pattern"]) if schema.get("pattern") else None
        self.enum: list[Any] = schema.get("enum") or []
        self.required: list[str] = schema.get("required") or []
        self.is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.properties = _properties(schema, whole=whole or self.is_embedded)
        self.rest, self.items = _part(schema, "additionalProperties"), _part(schema, "items")
        self.all_of, self.any_of, self.one_of = (_parts(schema, key) for key in ("allOf", "anyOf", "oneOf"))
        self.negated = _part(schema, "not")
        self.is_composed = bool(self.all_of or self.any_of or self.one_of or self.negated)
        self.list_type: str = schema.get("x-kubernetes-list-type", "")
        self.list_keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
        parts = [each for each in (*self.properties.values(), self.rest, self.items) if each]
        self.has_rules: bool = "x-kubernetes-validations" in schema or any(each.has_rules for each in parts)
        """Whether there are CEL rules anywhere in it; so of the next two, and what they name."""
        self.has_keys: bool = self.list_type in ("set", "map") or any(each.has_keys for each in parts)
        self.has_embedded: bool = self.is_embedded or any(each.has_embedded for each in parts)


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _properties(schema: Schema, *, whole: bool) -> dict[str, Check]:
    """Of metadata a schema restricts only the names; the rest is a struct, and checked elsewhere."""
    properties = dict(schema.get("properties") or {})
    if whole and "metadata" in properties:
        known = properties["metadata"].get("properties", {})
        names = {key: known[key] for key in _NAMES if key in known}
        properties["metadata"] = {"type": "object", "properties": names}
    return {key: Check(each) for key, each in properties.items()}


def _part(schema: Schema, keyword: str) -> Check | None:
    part = schema.get(keyword)
    return Check(part) if isinstance(part, Mapping) else None


def _parts(schema: Schema, keyword: str) -> list[Check]:
    return [Check(each) for each in schema.get(keyword) or ()]


_roots: Final[dict[int, Check]] = {}


def compiled(schema: Schema) -> Check:
    """The check of a whole object. It holds on to its schema: no other can take that place in memory."""
    found = _roots.get(id(schema))
    if found is None:
        if len(_roots) >= _MOST_CACHED:
            _roots.clear()
        found = _roots[id(schema)] = Check(schema, whole=True)
    return found
