"""Objects against structural schemas."""

from typing import Any

import pytest

from bireme.apiserver.errors import FieldError
from bireme.apiserver.structural.validation import validate, validate_status

TEXT = {"type": "string"}
COUNT = {"type": "integer"}
Found = list[tuple[str, str, str]]


def schema(field: Any, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"f": field}} | more
    return {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}}


def found(problems: list[FieldError]) -> Found:
    return [(each.type.removeprefix("FieldValue"), each.field, each.body) for each in problems]


def of_field(field: Any, value: Any) -> Found:
    return found(validate(schema(field), {"spec": {"f": value}}))


GOOD = {
    "a text": (TEXT, "x"),
    "a whole float": (COUNT, 3.0),
    "an integer as a number": ({"type": "number"}, 3),
    "int or string": ({"x-kubernetes-int-or-string": True}, "50%"),
    "a null that is allowed": (TEXT | {"nullable": True}, None),
    "a choice": ({"type": "number", "enum": [1.5, 2]}, 2),
    "a known format": (TEXT | {"format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000"),
    "an unknown format": (TEXT | {"format": "odd"}, "x"),
    "a pattern": (TEXT | {"pattern": "^[[:alpha:]]+$"}, "abc"),
    "a pattern of a script": (TEXT | {"pattern": r"^\p{Greek}$"}, "α"),
    "one of two": ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}),
    "not": (TEXT | {"not": {"pattern": "^x"}}, "a"),
}


@pytest.mark.parametrize(("field", "value"), GOOD.values(), ids=GOOD)
def test_valid_values_are_taken(field: Any, value: Any) -> None:
    assert of_field(field, value) == []


BODY = "spec.f in body"
BAD: dict[str, tuple[Any, Any, Found]] = {
    "type": (
        COUNT,
        "x",
        [("TypeInvalid", "spec.f", f'Invalid value: "string": {BODY} must be of type integer: "string"')],
    ),
    "null": (
        COUNT,
        None,
        [("TypeInvalid", "spec.f", f'Invalid value: "null": {BODY} must be of type integer: "null"')],
    ),
    "true is no integer": (
        COUNT,
        True,
        [("TypeInvalid", "spec.f", f'Invalid value: "boolean": {BODY} must be of type integer: "boolean"')],
    ),
    "int or string": (
        {"x-kubernetes-int-or-string": True},
        [],
        [
            (
                "TypeInvalid",
                "spec.f",
                f'Invalid value: "array": {BODY} must be of type integer,string: "array"',
            )
        ],
    ),
    "part of an integer": (
        COUNT,
        1.5,
        [
            ("TypeInvalid", "spec.f", f'Invalid value: "number": {BODY} must be of type integer: "number"'),
            (
                "Invalid",
                "<nil>",
                'Invalid value: "": Checked value must be of type integer (default format) in spec.f',
            ),
        ],
    ),
    "int32": (
        COUNT | {"format": "int32"},
        2**31,
        [
            (
                "Invalid",
                "<nil>",
                'Invalid value: "": Checked value must be of type integer with format int32 in spec.f',
            )
        ],
    ),
    "minimum": (
        COUNT | {"minimum": 1},
        0,
        [("Invalid", "spec.f", f"Invalid value: 0: {BODY} should be greater than or equal to 1")],
    ),
    "exclusive maximum": (
        COUNT | {"maximum": 5, "exclusiveMaximum": True},
        5,
        [("Invalid", "spec.f", f"Invalid value: 5: {BODY} should be less than 5")],
    ),
    "a large float": (
        {"type": "number", "maximum": 1e7},
        12345678.5,
        [
            (
                "Invalid",
                "spec.f",
                f"Invalid value: 1.23456785e+07: {BODY} should be less than or equal to 1e+07",
            )
        ],
    ),
    "multiple": (
        COUNT | {"multipleOf": 2},
        3,
        [("Invalid", "spec.f", f"Invalid value: 3: {BODY} should be a multiple of 2")],
    ),
    "too long": (
        TEXT | {"maxLength": 1},
        "ab",
        [("TooLong", "spec.f", "Too long: may not be more than 1 byte")],
    ),
    "too short": (
        TEXT | {"minLength": 2},
        "a",
        [("Invalid", "spec.f", f'Invalid value: "a": {BODY} should be at least 2 chars long')],
    ),
    "pattern": (
        TEXT | {"pattern": "^a$"},
        "a\n",
        [("Invalid", "spec.f", f"Invalid value: \"a\\n\": {BODY} should match '^a$'")],
    ),
    "format": (
        TEXT | {"format": "ipv4"},
        "x",
        [("TypeInvalid", "spec.f", f'Invalid value: "x": {BODY} must be of type ipv4: "x"')],
    ),
    "enum": (
        TEXT | {"enum": ["a", "b"]},
        "c",
        [("NotSupported", "spec.f", 'Unsupported value: "c": supported values: "a", "b"')],
    ),
    "too many items": (
        {"type": "array", "items": TEXT, "maxItems": 1},
        ["a", "b"],
        [("TooMany", "spec.f", "Too many: 2: must have at most 1 item")],
    ),
    "too few items": (
        {"type": "array", "items": TEXT, "minItems": 1},
        [],
        [("Invalid", "spec.f", f"Invalid value: 0: {BODY} should have at least 1 items")],
    ),
    "too many fields": (
        {"type": "object", "additionalProperties": TEXT, "maxProperties": 0},
        {"a": "b"},
        [("TooMany", "spec.f", "Too many: 1: must have at most 0 items")],
    ),
    "an item": (
        {"type": "array", "items": COUNT},
        [1, "x"],
        [
            (
                "TypeInvalid",
                "spec.f[1]",
                'Invalid value: "string": spec.f[1] in body must be of type integer: "string"',
            )
        ],
    ),
    "a value of a map": (
        {"type": "object", "additionalProperties": COUNT},
        {"k": "x"},
        [
            (
                "TypeInvalid",
                "spec.f.k",
                'Invalid value: "string": spec.f.k in body must be of type integer: "string"',
            )
        ],
    ),
    "required": ({"type": "object", "required": ["a"]}, {}, [("Required", "spec.f.a", "Required value")]),
    "any": (
        COUNT | {"anyOf": [{"minimum": 10, "multipleOf": 2}, {"maximum": 3}]},
        9,
        [
            ("Invalid", "<nil>", 'Invalid value: "": "spec.f" must validate at least one schema (anyOf)'),
            ("Invalid", "spec.f", f"Invalid value: 9: {BODY} should be a multiple of 2"),
            ("Invalid", "spec.f", f"Invalid value: 9: {BODY} should be greater than or equal to 10"),
        ],
    ),
    "more than one": (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": 1, "b": 1},
        [
            (
                "Invalid",
                "<nil>",
                (
                    'Invalid value: "": "spec.f" must validate one and only one schema (oneOf).'
                    " Found 2 valid alternatives"
                ),
            )
        ],
    ),
    "all": (
        COUNT | {"allOf": [{"minimum": 2}, {"maximum": 5}]},
        1,
        [
            ("Invalid", "spec.f", f"Invalid value: 1: {BODY} should be greater than or equal to 2"),
            ("Invalid", "<nil>", 'Invalid value: "": "spec.f" must validate all the schemas (allOf)'),
        ],
    ),
    "not": (
        TEXT | {"not": {"pattern": "^x"}},
        "x",
        [("Invalid", "<nil>", 'Invalid value: "": "spec.f" must not validate the schema (not)')],
    ),
    "a set": (
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        ["a", "b", "a", "a"],
        [("Duplicate", "spec.f[2]", 'Duplicate value: "a"')],
    ),
    "a map list": (
        {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        [{"k": "<", "n": 1}, {"k": "<"}],
        [("Duplicate", "spec.f[1]", 'Duplicate value: {"k":"\\u003c"}')],
    ),
    "an embedded object": (
        {"type": "object", "x-kubernetes-embedded-resource": True},
        {"kind": ""},
        [
            ("Required", "spec.f.apiVersion", "Required value"),
            ("Invalid", "spec.f.kind", 'Invalid value: "": must not be empty'),
        ],
    ),
}


@pytest.mark.parametrize(("field", "value", "expected"), BAD.values(), ids=BAD)
def test_invalid_values_are_named_as_the_server_does(field: Any, value: Any, expected: Found) -> None:
    assert of_field(field, value) == expected


def test_names_can_be_restricted() -> None:
    metadata = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}}
    whole = {"type": "object", "properties": {"metadata": metadata}}
    problems = validate(whole, {"metadata": {"name": "abc", "labels": {"a": 1}}})
    assert found(problems) == [("TooLong", "metadata.name", "Too long: may not be more than 2 bytes")]


def test_rules_that_are_not_reached_are_mentioned() -> None:
    ruled = schema(COUNT, **{"x-kubernetes-validations": [{"rule": "true"}]})
    assert validate(ruled, {"spec": {"f": 1}}) == []
    last = validate(ruled, {"spec": {"f": "x"}})[-1]
    assert last.field == "<nil>"
    assert last.body.startswith("Invalid value: null: some validation rules were not checked")


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": TEXT, "n": {"type": "integer", "maximum": 5}}},
}


@pytest.mark.parametrize(
    ("field", "old", "new", "fields"),
    [
        pytest.param(COUNT | {"maximum": 5}, 9, 9, [], id="unchanged"),
        pytest.param(COUNT | {"maximum": 5}, 9, 10, ["spec.f"], id="changed"),
        pytest.param(TEXT, 1, True, ["spec.f"], id="equal to Python only"),
        pytest.param(
            KEYED, [{"k": "a", "n": 9}], [{"k": "b"}, {"k": "a", "n": 9}], [], id="moved by its key"
        ),
        pytest.param(KEYED, [{"k": "a", "n": 9}], [{"k": "b", "n": 9}], ["spec.f[0].n"], id="another key"),
        pytest.param(
            {"type": "array", "items": {"type": "string", "maxLength": 1}},
            ["ab"],
            ["ab", "c"],
            ["spec.f[0]"],
            id="in a list without keys",
        ),
    ],
)
def test_an_update_answers_for_what_it_changes(field: Any, old: Any, new: Any, fields: list[str]) -> None:
    problems = validate(schema(field), {"spec": {"f": new, "x": 1}}, {"spec": {"f": old}})
    assert [each.field for each in problems] == fields


def test_lists_that_repeated_before_may_go_on() -> None:
    tags = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
    old, new = {"spec": {"f": ["a", "a"]}}, {"spec": {"f": ["b", "b"]}}
    assert validate(schema(tags), new, old) == []
    assert len(validate(schema(tags), new, {"spec": {"f": ["a"]}})) == 1


def test_paths_of_a_status_begin_there_in_sentences() -> None:
    status = {"type": "object", "required": ["phase"], "properties": {"n": COUNT}}
    whole = {"type": "object", "required": ["spec"], "properties": {"status": status}}
    problems = validate_status(whole, {"status": {"n": "x"}}, {})
    assert found(problems) == [
        ("TypeInvalid", "status.n", 'Invalid value: "string": n in body must be of type integer: "string"'),
        ("Required", "status.phase", "Required value"),
    ]
