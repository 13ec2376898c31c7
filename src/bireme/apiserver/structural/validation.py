"""Objects of custom kinds against the schema of their CRD, with the findings and words of the API server.

    validate(schema_of(kind), new)               # of a creation
    validate(schema_of(kind), new, old)          # of an update: what did not change is not held against it
    validate_status(schema_of(kind), new, old)   # of a write to the status

Where it differs from a kube-apiserver (1.36):

| what | here | there |
|---|---|---|
| CEL rules (`x-kubernetes-validations`) | not evaluated | evaluated |
| the order of findings in an object | the object's | any |
| patterns | at most `patterns.MOST_STEPS` steps for an object, else refused | no limit |
| embedded resources | must name their apiVersion and kind | their metadata is checked like an object's own |
"""

from typing import Any, Final

from bireme.apiserver.errors import FieldError, required
from bireme.apiserver.rules import Object
from bireme.apiserver.structural import lists, numbers, wording
from bireme.apiserver.structural.checks import Check, Schema, compiled
from bireme.apiserver.structural.formats import of_text
from bireme.apiserver.structural.patterns import MOST_DEFAULT_STEPS, MOST_STEPS, Pattern
from bireme.apiserver.structural.strictness import quoted

_ABSENT: Final = object()
"""Stands for the old value where there is none to compare with."""

_SORTS: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_SHOWN: Final = 64
"""How much is shown of a text that is too long."""
_FORMATS: Final = {"integer": "int64", "number": "float64"}
_BLOCKING: Final = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
)  # fmt: skip
_RULES_SKIPPED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to"
    " complete validation"
)


def validate(schema: Schema, new: Object, old: Object | None = None) -> list[FieldError]:
    """What the schema of a whole object has against it."""
    check = compiled(schema)
    walk = _Walk("")
    walk.value(check, new, "", _ABSENT if old is None else old)
    found = [*dict.fromkeys(walk.found), *_embedded(check, new, "")]
    return _with_lists(check, found, new, old)


def validate_status(schema: Schema, new: Object, old: Object) -> list[FieldError]:
    """What the schema has against the status of an object; its paths in sentences begin at the status."""
    check = compiled(schema)
    walk = _Walk("status")
    if "status" in new and "status" in check.properties:
        walk.value(check.properties["status"], new["status"], "", old.get("status", _ABSENT))
    return _with_lists(check, list(dict.fromkeys(walk.found)), new, old)


def validate_value(schema: Schema, value: Any, path: str) -> list[FieldError]:
    """What a part of a schema has against a value that stands at a path, which no sentence repeats."""
    walk = _Walk(path, MOST_DEFAULT_STEPS)
    walk.value(Check(schema), value, "")
    return list(dict.fromkeys(walk.found))


def _with_lists(check: Check, found: list[FieldError], new: Object, old: Object | None) -> list[FieldError]:
    repeated = lists.repeated(check, new)
    if repeated and (old is None or not lists.repeated(check, old)):
        found += repeated
    if any(each.type in _BLOCKING for each in found) and check.has_rules:
        found.append(wording.invalid(wording.WHOLE, None, _RULES_SKIPPED))
    return found


def _embedded(check: Check, value: Any, path: str) -> list[FieldError]:
    """An embedded object must say what it is."""
    found: list[FieldError] = []
    if not check.has_embedded:
        return found
    if isinstance(value, dict):
        if check.is_embedded:
            found += [required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in value]
            found += [
                wording.invalid(f"{path}.{key}", "", "must not be empty")
                for key in ("apiVersion", "kind")
                if value.get(key) == ""
            ]
        for key, child in value.items():
            if key in check.properties:
                found += _embedded(check.properties[key], child, f"{path}.{key}".removeprefix("."))
            elif check.rest:
                found += _embedded(check.rest, child, f"{path}[{key}]")
    elif isinstance(value, list) and check.items:
        for index, child in enumerate(value):
            found += _embedded(check.items, child, f"{path}[{index}]")
    return found


class _Walk:
    """One validation. Each method adds to what was found and returns how many checks were passed: of the
    alternatives of an `anyOf` the one that passed most is reported."""

    def __init__(self, prefix: str, most_steps: int = MOST_STEPS) -> None:
        self.found: list[FieldError] = []
        self._prefix = prefix
        self._steps_left = most_steps
        """Of those that patterns may take."""

    # ---- where something is

    def _field(self, path: str) -> str:
        path = path.removeprefix(".")
        if self._prefix:
            return f"{self._prefix}.{path}" if path else self._prefix
        return path or wording.WHOLE

    def _invalid(self, path: str, value: Any, sentence: str) -> None:
        self.found.append(wording.invalid(self._field(path), value, f"{path} in body {sentence}"))

    def _wrong_type(self, path: str, expected: str, value: str) -> None:
        sentence = f"{path} in body must be of type {expected}: {quoted(value)}"
        self.found.append(wording.type_invalid(self._field(path), value, sentence))

    def _of_the_whole(self, sentence: str) -> None:
        self.found.append(wording.invalid(self._prefix or wording.WHOLE, "", sentence))

    # ---- any value

    def value(self, check: Check, value: Any, path: str, old: Any = _ABSENT) -> int:
        """What was found in a value that did not change is forgotten."""
        before = len(self.found)
        passed = self._value(check, value, path, old)
        if old is not _ABSENT and len(self.found) > before and lists.same(value, old):
            del self.found[before:]
        return passed

    def _value(self, check: Check, value: Any, path: str, old: Any) -> int:
        if value is None:
            return self._null(check, path)
        sort = _sort(value)
        passed = 4
        if check.types or check.format:
            passed += 1 + self._type(check, sort, value, path)
        if check.is_composed:
            passed += self._composed(check, value, path, old)
        if sort == "string":
            passed += self._text(check, value, path)
        elif sort in _FORMATS:
            passed += 2
            for problem in numbers.problems(check.schema, value, path):
                self._number(problem, path)
        elif sort == "array":
            passed += self._list(check, value, path, old)
        if check.enum:
            self._enum(check, value, path)
        return passed + self._object(check, value, path, old) if sort == "object" else passed

    def _null(self, check: Check, path: str) -> int:
        refused = bool(check.types) and not check.nullable
        if refused:
            self._wrong_type(path, ",".join(check.types), "null")
        if check.enum:
            self._enum(check, None, path)
        return int(not refused)

    def _type(self, check: Check, sort: str, value: Any, path: str) -> int:
        types, of_text = check.types, sort in ("string", "array")
        fits = sort in types or (sort == "integer" and "number" in types)
        fits = fits or (sort == "number" and "integer" in types and numbers.is_whole(value))
        if fits or (check.format and of_text and not {"number", "integer"} & set(types)):
            return 1
        if check.format and not of_text:
            self._wrong_type(path, check.format, _FORMATS.get(sort, ""))
        else:
            self._wrong_type(path, ",".join(types), sort)
        return 0

    def _enum(self, check: Check, value: Any, path: str) -> None:
        if not any(_is_choice(value, choice) for choice in check.enum):
            self.found.append(wording.not_supported(self._field(path), value, check.enum))

    # ---- scalars

    def _text(self, check: Check, value: str, path: str) -> int:
        schema = check.schema
        if len(value) > schema.get("maxLength", len(value)):
            self.found.append(wording.too_long(self._field(path), schema["maxLength"]))
        elif len(value) < schema.get("minLength", 0):
            self._invalid(path, value, f"should be at least {schema['minLength']} chars long")
        elif check.pattern:
            self._match(check.pattern, schema["pattern"], value, path)
        has_format = of_text(check.format) if check.format else None
        if has_format is None:
            return 1
        if not has_format(value):
            self._wrong_type(path, check.format, value)
        return 2

    def _match(self, pattern: Pattern, text: str, value: str, path: str) -> None:
        self._steps_left -= pattern.cost(value)
        if self._steps_left < 0:
            cut = f"{value[:_SHOWN]}…" if len(value) > _SHOWN else value
            self._invalid(
                path, cut, f"is too long, with the other texts, to be matched against '{text}' here"
            )
        elif not pattern.search(value):
            self._invalid(path, value, f"should match '{text}'")

    def _number(self, problem: numbers.Problem, path: str) -> None:
        if problem.value is None:
            self._of_the_whole(problem.sentence)
        elif problem.whole:
            self.found.append(wording.invalid(self._field(path), problem.value, problem.sentence))
        else:
            self._invalid(path, problem.value, problem.sentence)

    # ---- lists and objects

    def _list(self, check: Check, value: list[Any], path: str, old: Any) -> int:
        schema, size = check.schema, len(value)
        passed = 2
        if check.items:
            olds = lists.correlated(check, value, old) if isinstance(old, list) else {}
            for index, child in enumerate(value):
                passed += self.value(check.items, child, f"{path}[{index}]", olds.get(index, _ABSENT))
        if size < schema.get("minItems", 0):
            self._invalid(path, size, f"should have at least {schema['minItems']} items")
        if size > schema.get("maxItems", size):
            self.found.append(wording.too_many(self._field(path), size, schema["maxItems"]))
        if schema.get("uniqueItems") and lists.has_twins(value):
            self._invalid(path, "", "shouldn't contain duplicates")
        return passed

    def _object(self, check: Check, value: Object, path: str, old: Any) -> int:
        schema, size, passed = check.schema, len(value), 1
        if size < schema.get("minProperties", 0):
            self._invalid(path, size, f"should have at least {schema['minProperties']} properties")
        if size > schema.get("maxProperties", size):
            self.found.append(wording.too_many(self._field(path), size, schema["maxProperties"]))
        olds = old if isinstance(old, dict) else {}
        if check.rest:
            for key, child in value.items():
                if key not in check.properties:
                    passed += self.value(check.rest, child, f"{path}.{key}", olds.get(key, _ABSENT))
        for key, child in value.items():
            if key in check.properties:
                place = f"{path}.{key}" if path else key
                passed += self.value(check.properties[key], child, place, olds.get(key, _ABSENT))
        self.found += [required(self._field(f"{path}.{key}")) for key in check.required if key not in value]
        return passed

    # ---- combinations

    def _composed(self, check: Check, value: Any, path: str, old: Any) -> int:
        passed = 0
        if check.any_of:
            passed += self._any(check.any_of, value, path, old)
        if check.one_of:
            passed += self._one(check.one_of, value, path, old)
        if check.all_of:
            passed += self._all(check.all_of, value, path, old)
        if check.negated and not self._try(check.negated, value, path, old).found:
            self._of_the_whole(f"{quoted(path)} must not validate the schema (not)")
        return passed

    def _try(self, check: Check, value: Any, path: str, old: Any) -> "_Attempt":
        walk = _Walk(self._prefix)
        return _Attempt(walk._value(check, value, path, old), walk.found)

    def _any(self, checks: list[Check], value: Any, path: str, old: Any) -> int:
        best = _Attempt(-1, [])
        for check in checks:
            attempt = self._try(check, value, path, old)
            if not attempt.found:
                return attempt.passed
            best = max(best, attempt, key=lambda each: each.passed)
        self._of_the_whole(f"{quoted(path)} must validate at least one schema (anyOf)")
        self.found += best.found
        return best.passed

    def _one(self, checks: list[Check], value: Any, path: str, old: Any) -> int:
        attempts = [self._try(check, value, path, old) for check in checks]
        valid = [each for each in attempts if not each.found]
        if len(valid) == 1:
            return valid[0].passed
        why = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        self._of_the_whole(f"{quoted(path)} must validate one and only one schema (oneOf). {why}")
        if valid:
            return 0
        best = max(attempts, key=lambda each: each.passed)
        self.found += best.found
        return best.passed

    def _all(self, checks: list[Check], value: Any, path: str, old: Any) -> int:
        attempts = [self._try(check, value, path, old) for check in checks]
        failed = [each for each in attempts if each.found]
        for attempt in failed:
            self.found += attempt.found
        if failed:
            none = ". None validated" if len(failed) == len(attempts) else ""
            self._of_the_whole(f"{quoted(path)} must validate all the schemas (allOf){none}")
        return sum(each.passed for each in attempts)


class _Attempt:
    """How a value fared with one of several schemas."""

    __slots__ = ("found", "passed")

    def __init__(self, passed: int, found: list[FieldError]) -> None:
        self.passed = passed
        self.found = found


def _sort(value: Any) -> str:
    sort = _SORTS[type(value)]
    return "number" if sort == "integer" and not wording.is_int64(value) else sort


def _is_choice(value: Any, choice: Any) -> bool:
    """Numbers are converted to the choice's type before they are compared."""
    if choice is None or isinstance(value, bool) is not isinstance(choice, bool):
        return False
    if isinstance(value, float) and isinstance(choice, int):
        return int(value) == choice
    return bool(value == choice)
