"""The schema of a CRD: whether it is structural, and uses only what a CRD may use."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bireme.apiserver.crd_keywords import Place, keywords
from bireme.apiserver.crd_structural import complete, structural
from bireme.apiserver.errors import FieldError, forbidden_value
from bireme.apiserver.structural.patterns import is_too_large
from bireme.apiserver.structural.pruning import prune_value
from bireme.apiserver.structural.validation import validate_value
from bireme.apiserver.structural.wording import invalid

Schema = Mapping[str, Any]

_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_RULES: Final = "x-kubernetes-validations"
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_AT_ROOT: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength"
    " Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example"
    " XPreserveUnknownFields XValidations"
)
_AT_ROOT_KEYWORDS: Final = frozenset(
    [_PRESERVE, _RULES, *(name[0].lower() + name[1:] for name in _AT_ROOT.split() if name[0] != "X")]
)
_SINGLE: Final = ("items", "additionalProperties", "not")
_SHAPES: Final[dict[str, Any]] = {
    "properties": Mapping, "not": Mapping, "allOf": list, "anyOf": list, "oneOf": list, "enum": list,
    "required": list, "type": str, "format": str, "pattern": str, _LIST_TYPE: str, _MAP_TYPE: str,
    _LIST_KEYS: list, _RULES: list, "nullable": bool, "minimum": int | float, "maximum": int | float,
    "multipleOf": int | float, "minLength": int, "maxLength": int, "minItems": int, "maxItems": int,
    "minProperties": int, "maxProperties": int,
}  # fmt: skip
_WITH_STATUS: Final = "the root of the schema if the status subresource is enabled"


def problems(schema: Schema, path: str, *, has_status: bool) -> Iterator[FieldError]:
    """What is wrong with a schema, `has_status` telling of a status subresource."""
    if misshapen := list(_shapes(schema, path)):
        yield from misshapen
        return
    if is_too_large(_patterns(schema)):
        # Before anything is matched: to compile them takes its time.
        yield forbidden_value(path, "the patterns are too large, all together, to be checked here")
        return
    if has_status:
        yield from _root(schema, path)
    if schema.get("nullable"):
        yield forbidden_value(f"{path}.nullable", "nullable cannot be true at the root")
    if not _is_beyond(schema):
        found = [*structural(schema, path, "root"), *complete(schema, schema, path, path)]
        yield from sorted(found, key=_sentence) or _defaults(schema, path)
    yield from keywords(schema, path, Place(is_root=True))


def _patterns(schema: Any) -> Iterator[str]:
    """All patterns in a schema, wherever they stand."""
    if isinstance(schema, Mapping):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        for each in schema.values():
            yield from _patterns(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _patterns(each)


def _sentence(problem: FieldError) -> str:
    return f"{problem.field}: {problem.body}"


def _shapes(schema: Any, path: str) -> Iterator[FieldError]:
    """Keywords of wrong types. A schema inside of a list's or a map's was not decoded: it may be anything."""
    if not isinstance(schema, Mapping):
        yield invalid(path, schema, "must be a schema")
        return
    for keyword, value in schema.items():
        if not _has_shape(keyword, value):
            yield invalid(f"{path}.{keyword}", value, "is of a wrong type")
        elif keyword == "properties":
            for key, each in value.items():
                yield from _shapes(each, f"{path}.properties[{key}]")
        elif keyword in _JUNCTORS:
            for index, each in enumerate(value):
                yield from _shapes(each, f"{path}.{keyword}[{index}]")
        elif keyword in _SINGLE and not isinstance(value, bool | list):
            yield from _shapes(value, f"{path}.{keyword}")


def _has_shape(keyword: str, value: Any) -> bool:
    inside = {_RULES: Mapping, "required": str, _LIST_KEYS: str}.get(keyword, object)
    if not isinstance(value, _SHAPES.get(keyword, object)):
        return False
    return not isinstance(value, list) or all(isinstance(each, inside) for each in value)


def _root(schema: Schema, path: str) -> Iterator[FieldError]:
    for keyword, value in schema.items():
        if keyword == "type" and value != "object":
            sentence = f'only "object" is allowed as the type at {_WITH_STATUS}'
            yield invalid(f"{path}.type", value, sentence)
            return
        if value and keyword not in _AT_ROOT_KEYWORDS:
            sentence = f"only [{_AT_ROOT}] fields are allowed at {_WITH_STATUS}"
            yield invalid(path, schema, sentence)
            return


def _is_beyond(schema: Any) -> bool:
    """Whether it says what no structural schema can say; then only the keywords are looked at."""
    if not isinstance(schema, Mapping):
        return False
    if any(schema.get(key) for key in _UNSUPPORTED) or schema.get("type") == "null":
        return True
    if isinstance(schema.get("items"), list) or schema.get("uniqueItems"):
        return True
    return any(map(_is_beyond, _parts(schema)))


def _parts(schema: Schema) -> Iterator[Any]:
    yield from (schema.get("items"), schema.get("additionalProperties"), schema.get("not"))
    yield from (schema.get("properties") or {}).values()
    for junctor in _JUNCTORS:
        yield from schema.get(junctor) or ()


def _defaults(schema: Any, path: str) -> Iterator[FieldError]:
    """Defaults must be valid, and keep all of their fields."""
    if not isinstance(schema, Mapping):
        return
    if (given := schema.get("default")) is not None:
        if prune_value(schema, given) != given:
            yield invalid(f"{path}.default", given, "must not have unknown fields")
        yield from validate_value(schema, given, f"{path}.default")
    yield from _defaults(schema.get("items"), f"{path}.items")
    for key, each in (schema.get("properties") or {}).items():
        yield from _defaults(each, f"{path}.properties[{key}]")
