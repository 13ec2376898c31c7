"""Fields that a schema does not know."""

import json
from typing import Any

import pytest

from bireme.apiserver.openapi.definitions import definition
from bireme.apiserver.structural.pruning import prune
from bireme.apiserver.structural.strictness import duplicate_fields, strict_errors

POD = definition("io.k8s.api.core.v1.Pod")
META = {"type": "object", "properties": {"name": {"type": "string"}, "labels": {"type": "object"}}}
TEXT = {"type": "string"}


def custom(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    return {"type": "object", "properties": {"metadata": META, "spec": spec}}


def unknown(*paths: str) -> tuple[str, ...]:
    return tuple(f'unknown field "{path}"' for path in paths)


def test_a_body_without_unknown_fields_is_handed_back_itself() -> None:
    pod = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}}
    assert prune(POD, pod, custom=False).obj is pod
    job = {"metadata": {"name": "a"}, "spec": {"a": "b"}}
    assert prune(custom(a=TEXT), job, custom=True).obj is job


def test_the_body_itself_stays_as_it_is() -> None:
    pod = {"spec": {"containers": [{"name": "c", "odd": 1}]}}
    before = json.dumps(pod)
    assert prune(POD, pod, custom=False).obj == {"spec": {"containers": [{"name": "c"}]}}
    assert json.dumps(pod) == before


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        pytest.param({"z": 1, "a": {"b": 1}}, ["z", "a"], id="in the order of the body"),
        pytest.param({"spec": {"containers": [{}, {"odd": 1}]}}, ["spec.containers[1].odd"], id="in a list"),
        pytest.param({"metadata": {"labels": {"any": "a"}, "odd": 1}}, ["metadata.odd"], id="in metadata"),
        pytest.param({"metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}]}}, [], id="in a free place"),
        pytest.param({"spec": {"containers": {"odd": 1}}}, [], id="where a list should be"),
    ],
)
def test_unknown_fields_of_structs_are_named(body: dict[str, Any], paths: list[str]) -> None:
    assert prune(POD, body, custom=False).unknown == unknown(*paths)


@pytest.mark.parametrize(
    ("schema", "value", "kept", "paths"),
    [
        pytest.param({"type": "object"}, {"a": 1}, {}, ["spec.f.a"], id="an object without fields"),
        pytest.param(TEXT, {"a": 1}, {}, ["spec.f.a"], id="an object where a text should be"),
        pytest.param(
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"k": {"type": "object"}},
            },
            {"a": {"b": 1}, "k": {"c": 1}},
            {"a": {"b": 1}, "k": {}},
            ["spec.f.k.c"],
            id="unknown ones preserved",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
            {"x": {"a": "1", "b": 1}},
            {"x": {"a": "1"}},
            ["spec.f.x.b"],
            id="a map",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"x": {"a": 1}, "y": 2},
            {"x": {}, "y": 2},
            ["spec.f.x.a"],
            id="a map of anything",
        ),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": True}, [{"a": 1}], [{"a": 1}], [], id="anything"
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"a": TEXT}},
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "odd": 1}, "a": "1", "b": 2},
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "a": "1"},
            ["spec.f.b", "spec.f.metadata.odd"],
            id="an embedded object",
        ),
    ],
)
def test_structural_schemas_keep_only_what_they_know(
    schema: Any, value: Any, kept: Any, paths: list[str]
) -> None:
    pruned = prune(custom(f=schema), {"spec": {"f": value}}, custom=True)
    assert pruned.obj == {"spec": {"f": kept}}
    assert pruned.unknown == unknown(*paths)


def test_fields_of_custom_kinds_are_sorted_with_metadata_first() -> None:
    body = {"z": 1, "a": 1, "metadata": {"z": 1, "b": 1}, "spec": {"odd": 1}}
    expected = unknown("metadata.b", "metadata.z", "a", "spec.odd", "z")
    assert prune(custom(), body, custom=True).unknown == expected


def test_no_more_than_a_hundred_fields_of_a_struct_are_named() -> None:
    spec = {f"odd{index}": 1 for index in range(150)}
    assert len(prune(POD, {"spec": spec}, custom=False).unknown) == 100
    assert len(prune(custom(), {"spec": spec}, custom=True).unknown) == 150


def test_schemas_that_contain_themselves_are_followed() -> None:
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    body = {"properties": {"a": {"properties": {"b": {"odd": 1}}}}}
    assert prune(definition(name), body, custom=False).unknown == unknown("properties.a.properties.b.odd")


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        pytest.param(b'{"a":1,"b":{"c":1}}', [], id="none"),
        pytest.param(b'{"a":1,"a":2}', ["a"], id="at the top"),
        pytest.param(b'{"a":1,"a":2,"a":3}', ["a"], id="thrice"),
        pytest.param(b'{"b":{"c":1,"c":2},"a":[{"x":1},{"x":1,"x":2}]}', ["b.c", "a[1].x"], id="deep"),
        pytest.param(b'{"a" : 1 ,\n"a" : "\\"a\\":" }', ["a"], id="with spaces"),
        pytest.param(b'{"a":"b\\":1"}', [], id="in a text"),
        pytest.param(b"no JSON", [], id="no JSON"),
    ],
)
def test_repeated_fields_are_named(body: bytes, paths: list[str]) -> None:
    assert duplicate_fields(body) == tuple(f'duplicate field "{path}"' for path in paths)


def test_a_body_that_is_what_it_encodes_to_repeats_nothing() -> None:
    body = b'{"a":1,"b":[{"c":null}]}'
    assert duplicate_fields(body, json.loads(body)) == ()


def test_repeated_fields_of_structs_stand_among_the_unknown() -> None:
    body = b'{"odd":{"x":1,"x":1},"spec":{"nodeName":"a","nodeName":"b","z":1,"z":2}}'
    found = prune(POD, json.loads(body), custom=False).unknown
    expected = ('unknown field "odd"', 'duplicate field "spec.nodeName"', 'unknown field "spec.z"')
    assert strict_errors(body, found, custom=False) == expected


def test_repeated_fields_of_custom_kinds_stand_before_the_unknown() -> None:
    body = b'{"odd":1,"spec":{"a":"a","a":"b"}}'
    found = prune(custom(a=TEXT), json.loads(body), custom=True).unknown
    expected = ('duplicate field "spec.a"', 'unknown field "odd"')
    assert strict_errors(body, found, custom=True) == expected


def test_odd_letters_are_quoted_as_go_does() -> None:
    body = {"spec": {'a"b\\\n\x01\u2028ä': 1}}
    assert prune(POD, body, custom=False).unknown == ('unknown field "spec.a\\"b\\\\\\n\\x01\\u2028ä"',)
