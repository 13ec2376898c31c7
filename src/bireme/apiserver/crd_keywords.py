"""The keywords of a schema that a CRD may use, and what they need beside them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bireme.apiserver.errors import FieldError, forbidden_value, required
from bireme.apiserver.structural.wording import invalid, not_supported

Schema = Mapping[str, Any]

_TYPES: Final = ["array", "boolean", "integer", "number", "object", "string"]
_META: Final = ("metadata", "kind", "apiVersion")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_RULES: Final = "x-kubernetes-validations"
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_MUST_BE_KEY: Final = (
    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
)


class Place:
    """Where a schema stands, as far as that decides what it may say."""

    def __init__(self, *, is_root: bool = False, in_metadata: bool = False, no_default: str = "") -> None:
        self.is_root, self.in_metadata, self.no_default = is_root, in_metadata, no_default

    def inside(self) -> "Place":
        return Place(in_metadata=self.in_metadata, no_default=self.no_default)

    def of_property(self, schema: Schema, key: str) -> "Place":
        if key not in _META or not (self.is_root or schema.get(_EMBEDDED)):
            return self.inside()
        why = f"in top-level {key}" if self.is_root else self.no_default
        return Place(in_metadata=True, no_default=why)

    def of_values(self) -> "Place":
        """Of the values of a map."""
        why = (
            "inside additionalProperties applying to object metadata" if self.in_metadata else self.no_default
        )
        return Place(in_metadata=self.in_metadata, no_default=why)


def keywords(schema: Any, path: str, place: Place) -> Iterator[FieldError]:
    if not isinstance(schema, Mapping):
        return
    yield from _unsupported(schema, path, place)
    if schema.get("uniqueItems"):
        sentence = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_value(f"{path}.uniqueItems", sentence)
    yield from _children(schema, path, place)
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    yield from _list_keys(schema, path)
    yield from _list_items(schema, path)
    yield from _rules(schema.get(_RULES) or [], f"{path}.{_RULES}")


def _unsupported(schema: Schema, path: str, place: Place) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and place.no_default:
        yield forbidden_value(f"{path}.default", f"must not be set {place.no_default}")
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden_value(f"{path}.{keyword}", f"{keyword} is not supported")
    if kind == "null":
        yield forbidden_value(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden_value(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get(_EMBEDDED):
        yield forbidden_value(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")


def _children(schema: Schema, path: str, place: Place) -> Iterator[FieldError]:
    extra, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if extra is not None and properties and extra is not True:
        sentence = "additionalProperties and properties are mutual exclusive"
        yield forbidden_value(f"{path}.additionalProperties", sentence)
    yield from keywords(extra, f"{path}.additionalProperties", place.of_values())
    for key, each in properties.items():
        yield from keywords(each, f"{path}.properties[{key}]", place.of_property(schema, key))
    yield from keywords(schema.get("not"), f"{path}.not", place.inside())
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(schema.get(junctor) or ()):
            yield from keywords(each, f"{path}.{junctor}[{index}]", place.inside())
    yield from keywords(schema.get("items"), f"{path}.items", place.inside())


def _needs_type(schema: Schema, path: str, kind: str, keyword: str) -> Iterator[FieldError]:
    given, sentence = schema.get("type", ""), f"must be {kind} if {keyword} is specified"
    if not given:
        yield required(f"{path}.type", sentence)
    elif given != kind:
        yield invalid(f"{path}.type", given, sentence)


def _map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    given = schema.get(_MAP_TYPE)
    if given is None:
        return
    yield from _needs_type(schema, path, "object", _MAP_TYPE)
    if given not in ("atomic", "granular"):
        yield not_supported(f"{path}.{_MAP_TYPE}", given, ["atomic", "granular"])


def _list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    given, items = schema.get(_LIST_TYPE), schema.get("items")
    if given is None:
        return
    if schema.get("type") != "array":
        yield from _needs_type(schema, path, "array", _LIST_TYPE)
    elif given == "set" and isinstance(items, Mapping):
        sentence = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        if items.get("type") == "array" and items.get(_LIST_TYPE, "atomic") != "atomic":
            yield invalid(f"{path}.items.{_LIST_TYPE}", items[_LIST_TYPE], sentence)
        if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
            yield invalid(f"{path}.items.{_MAP_TYPE}", items.get(_LIST_TYPE), sentence)
    if given not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{_LIST_TYPE}", given, ["atomic", "set", "map"])


def _list_keys(schema: Schema, path: str) -> Iterator[FieldError]:
    keys, given, items = schema.get(_LIST_KEYS) or [], schema.get(_LIST_TYPE), schema.get("items")
    if keys and given != "map":
        field, sentence = f"{path}.{_LIST_TYPE}", f"must be map if {_LIST_KEYS} is non-empty"
        yield required(field, sentence) if given is None else invalid(field, given, sentence)
    if given != "map":
        return
    if not keys:
        yield required(f"{path}.{_LIST_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
    elif isinstance(items, Mapping) and items.get("type") != "object":
        sentence = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), sentence)
    elif isinstance(items, Mapping):
        yield from _key_properties(keys, items, path)


def _key_properties(keys: list[str], items: Schema, path: str) -> Iterator[FieldError]:
    properties, field = items.get("properties") or {}, f"{path}.{_LIST_KEYS}"
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(field, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            sentence = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type"), sentence)
        if key in keys[:index]:
            yield invalid(field, keys, "must not contain duplicate entries")


def _list_items(schema: Schema, path: str) -> Iterator[FieldError]:
    """Items of sets and maps are never null, and the keys of a map always there."""
    given, items = schema.get(_LIST_TYPE), schema.get("items")
    if given not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield forbidden_value(f"{path}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is {given}")
    properties = items.get("properties") or {}
    for key in schema.get(_LIST_KEYS) or () if given == "map" else ():
        part, place = properties.get(key), f"{path}.items.properties[{key}]"
        if part is None:
            continue
        if key not in (items.get("required") or ()) and part.get("default") is None:
            yield required(f"{place}.default", _MUST_BE_KEY)
        if part.get("nullable"):
            sentence = f"this property is in {_LIST_KEYS}, so it cannot be nullable"
            yield forbidden_value(f"{place}.nullable", sentence)


def _rules(rules: list[Any], path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(rules):
        text, message = str(rule.get("rule", "")).strip(), str(rule.get("message", ""))
        if not text:
            yield required(f"{path}[{index}].rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{path}[{index}].message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            yield invalid(f"{path}[{index}].message", message, "must not contain line breaks")
        elif "\n" in text and not message:
            sentence = "message must be specified if rule contains line breaks"
            yield required(f"{path}[{index}].message", sentence)
