"""Whether a schema is structural: it tells of each value what it is, and restricts it beside that."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bireme.apiserver.errors import FieldError, forbidden_value, required
from bireme.apiserver.structural import patterns
from bireme.apiserver.structural.wording import invalid

Schema = Mapping[str, Any]

_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_KEYWORD: Final = "x-kubernetes-int-or-string"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_RULES: Final = "x-kubernetes-validations"
_ONLY_NAMES: Final = (
    "must not specify anything other than name and generateName, but metadata is implicitly specified"
)
_UNDEFINED: Final = "must be undefined to be structural"
_NOT_NESTED: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": _UNDEFINED,
    "default": _UNDEFINED,
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_KEYWORD: "must be false to be structural",
    _LIST_KEYS: "must be empty to be structural",
    _LIST_TYPE: _UNDEFINED,
    _MAP_TYPE: _UNDEFINED,
    _RULES: "must be empty to be structural",
}


def structural(schema: Any, path: str, level: str) -> Iterator[FieldError]:
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    yield from structural(schema.get("items"), f"{path}.items", "item")
    for key, each in (schema.get("properties") or {}).items():
        yield from structural(each, f"{path}.properties[{key}]", "field")
    if schema.get("additionalProperties") is not None:
        if level == "root":
            yield forbidden_value(f"{path}.additionalProperties", "must not be used at the root")
        yield from structural(schema["additionalProperties"], f"{path}.additionalProperties", "field")
    yield from _extensions(schema, path)
    yield from _values(schema, path)
    yield from _type(schema, path, level)
    yield from _meta(schema, path, level)


def _extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get(_INT_KEYWORD):
        for keyword in (_PRESERVE, _EMBEDDED):
            if schema.get(keyword):
                yield invalid(f"{path}.{keyword}", True, f"must be false if {_INT_KEYWORD} is true")


def _type(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    kind, field = schema.get("type", ""), f"{path}.type"
    if schema.get(_EMBEDDED) and kind != "object":
        sentence = f"must be object if {_EMBEDDED} is true"
        yield invalid(field, kind, sentence) if kind else required(field, sentence)
    elif not kind and not schema.get(_INT_KEYWORD) and not schema.get(_PRESERVE):
        where = {
            "root": "at the root",
            "item": "for specified array items",
            "field": "for specified object fields",
        }
        yield required(field, f"must not be empty {where[level]}")
    if schema.get(_EMBEDDED) and schema.get("additionalProperties") is not None:
        yield forbidden_value(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if level == "root" and kind not in ("", "object"):
        yield invalid(field, kind, "must be object at the root")


def _meta(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    is_object = level == "root" or bool(schema.get(_EMBEDDED))
    for key, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if is_object and key in properties and properties[key].get("type", "") != kind:
            given = properties[key].get("type", "")
            yield invalid(f"{path}.properties[{key}].type", given, f"must be {kind}")
    if level == "root" and "metadata" in properties and not _is_plain_metadata(properties["metadata"]):
        yield forbidden_value(f"{path}.properties[metadata]", _ONLY_NAMES)
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not properties:
        sentence = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield required(f"{path}.properties", sentence)


def _is_plain_metadata(schema: Schema) -> bool:
    names = set(schema.get("properties") or ())
    rest = {key for key, value in schema.items() if value and key not in ("type", "properties", "default")}
    return names <= {"name", "generateName"} and not rest


def _values(schema: Schema, path: str, *, choice: bool | None = None) -> Iterator[FieldError]:
    """What stands under junctors may only restrict values; `int-or-string` has a way of its own."""
    first = (schema.get("allOf") or [{}])[0]
    if choice is None:
        choice = schema.get("anyOf") == _INT_OR_STRING
    for junctor in ("anyOf", "allOf", "oneOf"):
        if junctor == "anyOf" and choice:
            continue
        for index, each in enumerate(schema.get(junctor) or ()):
            in_first = junctor == "allOf" and index == 0 and first.get("anyOf") == _INT_OR_STRING
            yield from _nested(each, f"{path}.{junctor}[{index}]", choice=in_first)
    if schema.get("not"):
        yield from _nested(schema["not"], f"{path}.not")
    if (pattern := schema.get("pattern")) and (why := patterns.problem(pattern)):
        yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {why}")


def _nested(schema: Schema, path: str, *, choice: bool = False) -> Iterator[FieldError]:
    yield from _values(schema, path, choice=choice)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], f"{path}.items")
    for key, each in (schema.get("properties") or {}).items():
        yield from _nested(each, f"{path}.properties[{key}]")
    for keyword, sentence in _NOT_NESTED.items():
        if schema.get(keyword) or (sentence == _UNDEFINED and schema.get(keyword) is not None):
            yield forbidden_value(f"{path}.{keyword}", sentence)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_value(f"{path}.properties[metadata]", "must not be specified in a nested context")


def complete(values: Schema, schema: Any, there: str, here: str) -> Iterator[FieldError]:
    """What stands under the junctors of the root must also stand outside of them."""
    for junctor in _JUNCTORS:
        for index, each in enumerate(values.get(junctor) or ()):
            yield from _known(each, schema, there, f"{here}.{junctor}[{index}]")
    if values.get("not"):
        yield from _known(values["not"], schema, there, f"{here}.not")


def _known(values: Schema, schema: Any, there: str, here: str) -> Iterator[FieldError]:
    if not isinstance(schema, Mapping):
        yield required(there, f"because it is defined in {here}")
        return
    yield from complete(values, schema, there, here)
    if values.get("items"):
        yield from _known(values["items"], schema.get("items"), f"{there}.items", f"{here}.items")
    for key, each in (values.get("properties") or {}).items():
        part = (schema.get("properties") or {}).get(key)
        yield from _known(each, part, f"{there}.properties[{key}]", f"{here}.properties[{key}]")
