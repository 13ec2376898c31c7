"""Check an object against its schema, all of it at once.

The check also returns what is left of the object once everything that does not fit is taken out, so
that the rules behind it can run on a well-formed object and their findings stand beside these.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from bireme.admission.problems import Findings, QuoteScalar, RenameKey, ReplaceScalar, WrapScalar
from bireme.admission.words import describe, shorten
from bireme.api.duration import DURATION_PATTERN
from bireme.api.job import PATH_PATTERN, QUEUE_PATTERN
from bireme.api.kubernetes import Schema
from bireme.api.paths import Path
from bireme.api.quantity import QuantityError, parse_quantity

_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_DROP = object()
_FALSE_WORDS = {"false": "false", "no": "false", "off": "false", "true": "true", "yes": "true", "on": "true"}


def check_shape(value: Any, schema: Schema, out: Findings, path: Path = ()) -> Any:
    """Report every place where `value` does not fit; return a copy that does, as far as that goes."""
    result = _check(value, schema, path, out)
    return {} if result is _DROP else result


def _check(value: Any, schema: Schema, path: Path, out: Findings) -> Any:
    if "x-bireme-quantity" in schema:
        return _check_quantity(value, path, out)
    if "x-kubernetes-int-or-string" in schema:
        return _check_int_or_string(value, path, out)
    check = _CHECKS.get(schema.get("type", ""))
    if check is not None:
        return check(value, schema, path, out)
    return value if _in_enum(value, schema, path, out) else _DROP


def _check_object(value: Any, schema: Schema, path: Path, out: Findings) -> Any:
    if not isinstance(value, Mapping):
        key = _wrapping_key(value, schema)
        hint = f"write `{{{key}: {value}}}`" if key else None
        _wrong_type(value, "an object", path, out, hint=hint, fix=WrapScalar(key) if key else None)
        return _DROP
    if "properties" not in schema:
        return _check_map(value, schema, path, out)
    properties: dict[str, Schema] = schema["properties"]
    kept: dict[str, Any] = {}
    for name, child in value.items():
        meant = name if name in properties else _check_unknown(name, value, schema, path, out)
        if meant is None or child is None:
            continue
        result = _check(child, properties[meant], (*path, name), out) if meant in properties else child
        kept[meant] = result
    for name in schema.get("required", ()):
        if name not in kept:
            _missing(name, properties[name], path, out)
    return {name: child for name, child in kept.items() if child is not _DROP}


def _check_map(value: Mapping[str, Any], schema: Schema, path: Path, out: Findings) -> dict[str, Any]:
    _check_size(len(value), schema, "Properties", "entry", "entries", path, out)
    child_schema = schema.get("additionalProperties")
    if child_schema is None:
        return dict(value)
    checked = {
        name: _check(child, child_schema, (*path, name), out)
        for name, child in value.items()
        if child is not None
    }
    return {name: child for name, child in checked.items() if child is not _DROP}


def _wrapping_key(value: Any, schema: Schema) -> str | None:
    """The one property that this bare value was meant for: OnFailure stands for {policy: OnFailure}."""
    keys = [name for name, child in schema.get("properties", {}).items() if value in child.get("enum", ())]
    return keys[0] if len(keys) == 1 and isinstance(value, str) else None


def _missing(name: str, schema: Schema, path: Path, out: Findings) -> None:
    what = schema.get("description")
    out.error(
        (*path, name), "required", "required field is missing", hint=f"{name}: {what}" if what else None
    )


def _check_unknown(
    name: Any, value: Mapping[str, Any], schema: Schema, path: Path, out: Findings
) -> str | None:
    """Report a field that the schema does not know; return the name to go on with, if there is one.

    A near miss is read as the field that was meant, so that nothing else is said to be missing. Objects whose
    schema is closed (`x-bireme-closed`, a hint) refuse other names although the CRD preserves them.
    """
    near = out.guess(str(name), schema["properties"])
    keeps = "x-kubernetes-preserve-unknown-fields" in schema
    where = (*path, str(name))
    if near is not None:
        # Defaults are filled in by now: what equals the default was most likely not written.
        written = near in value and value[near] != schema["properties"][near].get("default")
        fix = None if written else RenameKey(near)
        hint = f"did you mean `{near}`?" if fix else f"`{near}` is there already; remove this one"
        out.error(where, "unknown-field", "unknown field", hint=hint, fix=fix, at_key=True)
        return near if fix else None
    if closed := schema.get("x-bireme-closed"):
        known = ", ".join(sorted(schema["properties"]))
        message = f"unknown field with the value {describe(value[name])}; allowed are {known}"
        out.error(where, "unknown-field", message, value=value[name], hint=closed, at_key=True)
        return None
    if keeps:
        hint = "it is passed on as it is; a newer Kubernetes may know it"
        out.warn(where, "unknown-field", "unknown field", hint=hint, at_key=True)
        return str(name)
    known = ", ".join(sorted(schema["properties"]))
    out.error(where, "unknown-field", "unknown field", hint=f"known here: {shorten(known, 200)}", at_key=True)
    return None


def _check_array(value: Any, schema: Schema, path: Path, out: Findings) -> Any:
    if not isinstance(value, list):
        _wrong_type(value, "a list", path, out, hint=_as_list(value))
        return _DROP
    _check_size(len(value), schema, "Items", "item", "items", path, out)
    items = [_check(item, schema["items"], (*path, index), out) for index, item in enumerate(value)]
    _check_map_keys(items, schema, path, out)
    # A place holder keeps the indices of the others right in what is found later.
    return [_placeholder(schema["items"]) if item is _DROP else item for item in items]


def _as_list(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if re.search(r"[\"'\\\n$`]", value) or not value.strip():
        return "write one item per line, each behind `- `"
    return f"write [{', '.join(describe(word) for word in value.split())}]"


def _placeholder(schema: Schema) -> Any:
    return {"object": {}, "array": [], "integer": 0, "boolean": False}.get(schema.get("type", ""), "")


def _check_map_keys(items: list[Any], schema: Schema, path: Path, out: Findings) -> None:
    if schema.get("x-kubernetes-list-type") != "map":
        return
    (key,) = schema["x-kubernetes-list-map-keys"]
    seen: dict[Any, int] = {}
    for index, item in enumerate(items):
        name = item.get(key) if isinstance(item, dict) else None
        if name is None:
            continue
        if name in seen:
            out.error(
                (*path, index, key),
                "duplicate",
                f"{describe(name)} is there already, at [{seen[name]}]",
                value=name,
                hint=f"give each item a `{key}` of its own",
            )
        seen.setdefault(name, index)


def _check_string(value: Any, schema: Schema, path: Path, out: Findings) -> Any:
    if not isinstance(value, str):
        fix = QuoteScalar() if isinstance(value, bool | int | float) else None
        hint = "quote it: YAML reads a bare word or number as something else" if fix else None
        _wrong_type(value, "a string", path, out, hint=hint, fix=fix)
        return _DROP
    if not _in_enum(value, schema, path, out):
        return _DROP
    minimum, maximum = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < minimum:
        out.error(path, "too-short", "must not be empty", value=value)
        return _DROP
    if maximum is not None and len(value) > maximum:
        out.error(
            path, "too-long", f"{describe(value)} has {len(value)} characters; at most {maximum}", value=value
        )
        return _DROP
    return value if _matches(value, schema, path, out) else _DROP


def _matches(value: str, schema: Schema, path: Path, out: Findings) -> bool:
    pattern = schema.get("pattern")
    if pattern is None or _compiled(pattern).search(value):
        return True
    rule, hint = _PATTERN_HINTS.get(pattern, (f"must match {pattern}", None))
    out.error(path, "pattern", f"{describe(value)} {rule}", value=value, hint=hint)
    return False


_PATTERN_HINTS = {
    DURATION_PATTERN: (
        "is not a duration",
        "use the units y w d h m s ms, in that order, such as 2h45m; 0 for no limit",
    ),
    QUEUE_PATTERN: (
        "is not the name of a Queue",
        "use lower-case letters, digits, `-` and `.`; begin and end with a letter or digit",
    ),
    PATH_PATTERN: ("is not an absolute path without spaces", "begin it with `/`"),
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": (
        "is not a DNS label",
        "use lower-case letters, digits and `-`; begin and end with a letter or digit",
    ),
}


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _check_integer(value: Any, schema: Schema, path: Path, out: Findings) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        is_number = isinstance(value, str) and re.fullmatch(r"-?(0|[1-9][0-9]*)", value)
        fix = ReplaceScalar(value) if is_number and isinstance(value, str) else None
        _wrong_type(value, "an integer", path, out, hint="remove the quotes" if fix else None, fix=fix)
        return _DROP
    low, high = _INT_RANGES[schema.get("format", "int64")]
    low, high = max(low, schema.get("minimum", low)), min(high, schema.get("maximum", high))
    if not low <= value <= high:
        limits = f"from {low} to {high}" if high < 2**31 - 1 else f"at least {low}"
        if value > high:
            limits = f"at most {high}"
        out.error(path, "range", f"{value} is out of range: must be {limits}", value=value)
        return _DROP
    return value


def _check_boolean(value: Any, _schema: Schema, path: Path, out: Findings) -> Any:
    if isinstance(value, bool):
        return value
    word = _FALSE_WORDS.get(value.lower()) if isinstance(value, str) else None
    fix = ReplaceScalar(word) if word else None
    _wrong_type(
        value, "true or false", path, out, hint=f"write {word}, without quotes" if word else None, fix=fix
    )
    return _DROP


def _check_number(value: Any, _schema: Schema, path: Path, out: Findings) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    _wrong_type(value, "a number", path, out)
    return _DROP


def _check_quantity(value: Any, path: Path, out: Findings) -> Any:
    try:
        parse_quantity(value)
    except (QuantityError, TypeError):
        hint = "write a number with an optional suffix, such as 500m, 2, 1.5Gi or 16G"
        if isinstance(value, str) and re.fullmatch(r"[0-9.]+[KMGTPE]i?B", value, re.IGNORECASE):
            amount, prefix = re.findall(r"[0-9.]+|[A-Z]", value.upper())[:2]
            hint = f"write {amount}{prefix.replace('K', 'k')} (powers of 1000) or {amount}{prefix}i (of 1024)"
        out.error(path, "quantity", f"{describe(value)} is not a quantity", value=value, hint=hint)
        return _DROP
    return value


def _check_int_or_string(value: Any, path: Path, out: Findings) -> Any:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    _wrong_type(value, "an integer or a string", path, out)
    return _DROP


def _in_enum(value: Any, schema: Schema, path: Path, out: Findings) -> bool:
    allowed = schema.get("enum")
    if allowed is None or any(value == item and type(value) is type(item) for item in allowed):
        return True
    near = out.guess(
        str(value).lower() if isinstance(value, bool) else str(value), [_word(item) for item in allowed]
    )
    words = ", ".join(_word(item) for item in allowed)
    out.error(
        path,
        "enum",
        f"{describe(value)} is not one of {words}",
        value=value,
        hint=f"did you mean `{near}`?" if near else None,
        fix=ReplaceScalar(near) if near else None,
    )
    return False


def _word(item: Any) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _check_size(
    size: int, schema: Schema, suffix: str, one: str, many: str, path: Path, out: Findings
) -> None:
    minimum, maximum = schema.get(f"min{suffix}", 0), schema.get(f"max{suffix}")
    if size < minimum:
        out.error(path, "too-few", f"must have at least {minimum} {one if minimum == 1 else many}")
    elif maximum is not None and size > maximum:
        out.error(path, "too-many", f"has {size} {many}; at most {maximum}")


def _wrong_type(
    value: Any,
    expected: str,
    path: Path,
    out: Findings,
    *,
    hint: str | None = None,
    fix: QuoteScalar | ReplaceScalar | WrapScalar | None = None,
) -> None:
    out.error(path, "type", f"{describe(value)} is not {expected}", value=value, hint=hint, fix=fix)


_CHECKS: dict[str, Callable[[Any, Schema, Path, Findings], Any]] = {
    "object": _check_object,
    "array": _check_array,
    "string": _check_string,
    "integer": _check_integer,
    "boolean": _check_boolean,
    "number": _check_number,
}
