"""Defaults of structural schemas."""

from typing import Any

import pytest

from bireme.apiserver.structural.defaulting import default

TEXT = {"type": "string"}
COUNT = {"type": "integer", "default": 1}
OBJECT = {"type": "object", "properties": {"n": COUNT}}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


@pytest.mark.parametrize(
    ("properties", "spec", "filled"),
    [
        pytest.param({"a": COUNT}, {}, {"a": 1}, id="absent"),
        pytest.param({"a": COUNT}, {"a": 2}, {"a": 2}, id="given"),
        pytest.param({"a": COUNT}, {"a": 0}, {"a": 0}, id="given as zero"),
        pytest.param({"a": COUNT}, {"a": None}, {"a": 1}, id="null"),
        pytest.param({"a": COUNT | {"nullable": True}}, {"a": None}, {"a": None}, id="null that is allowed"),
        pytest.param({"a": TEXT}, {"a": None, "b": None}, {"b": None}, id="null without a default"),
        pytest.param({"a": OBJECT}, {}, {}, id="not inside of what is absent"),
        pytest.param({"a": OBJECT}, {"a": {}}, {"a": {"n": 1}}, id="inside"),
        pytest.param({"a": OBJECT | {"default": {}}}, {}, {"a": {"n": 1}}, id="inside of a default"),
        pytest.param(
            {"a": {"type": "array", "items": OBJECT}}, {"a": [{}, 5]}, {"a": [{"n": 1}, 5]}, id="in a list"
        ),
        pytest.param(
            {"a": {"type": "array", "items": TEXT}}, {"a": [None]}, {"a": [None]}, id="null in a list"
        ),
        pytest.param(
            {"a": {"type": "array", "items": COUNT}}, {"a": [None]}, {"a": [1]}, id="default in a list"
        ),
        pytest.param(
            {"a": {"type": "object", "additionalProperties": OBJECT}},
            {"a": {"x": {}, "y": None}},
            {"a": {"x": {"n": 1}}},
            id="in a map",
        ),
    ],
)
def test_defaults_are_filled_in(properties: Any, spec: Any, filled: Any) -> None:
    assert default(schema(**properties), {"spec": spec}) == {"spec": filled}


def test_an_object_that_needs_nothing_is_handed_back_itself() -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"a": 1, "list": [{"n": 1}]}}
    assert default(schema(a=COUNT, list={"type": "array", "items": OBJECT}), obj) is obj


def test_the_object_and_the_schema_stay_as_they_are() -> None:
    given: dict[str, Any] = {"spec": {"a": {}}}
    of_default = schema(a=OBJECT, b={"type": "object", "default": {"c": {}}})
    made = default(of_default, given)
    made["spec"]["b"]["c"]["x"] = 1
    assert given == {"spec": {"a": {}}}
    assert of_default["properties"]["spec"]["properties"]["b"]["default"] == {"c": {}}


def test_type_and_metadata_are_left_alone() -> None:
    whole = {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}, "kind": TEXT}}
    obj = {"kind": None, "metadata": {"labels": None}}
    assert default(whole, obj) is obj
    assert default(whole, {}) == {}


def test_fields_at_the_top_have_defaults_too() -> None:
    whole = {"type": "object", "properties": {"data": {"type": "string", "default": "x"}}}
    assert default(whole, {"metadata": {"name": "a"}}) == {"metadata": {"name": "a"}, "data": "x"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param(
            {"name": "", "labels": {}, "finalizers": [], "uid": "x"}, {"uid": "x"}, id="what is empty"
        ),
        pytest.param({"creationTimestamp": None}, {}, id="null in it"),
        pytest.param(None, {}, id="null"),
    ],
)
def test_metadata_of_embedded_objects_forgets_what_is_empty(given: Any, kept: Any) -> None:
    properties = {"metadata": {"type": "object", "properties": {"creationTimestamp": TEXT}}}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": properties}
    assert default(schema(a=embedded), {"spec": {"a": {"metadata": given}}}) == {
        "spec": {"a": {"metadata": kept}}
    }
