"""Definitions are Kubernetes' own, resolved; a CRD's schema is completed."""

import subprocess
import sys
from typing import Any

import pytest

from bireme.apiserver.kinds import CORE, POD, Kind
from bireme.apiserver.openapi.definitions import OBJECT_META, closure, definition, raw_definition, schema_of

PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
CONTAINER = "io.k8s.api.core.v1.Container"


def custom(schema: dict[str, Any]) -> Kind:
    return Kind(
        group="example.com", plural="things", kind="Thing", custom=True, has_status=True, crd_schema=schema
    )


def all_schemas(schema: dict[str, Any], seen: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    if id(schema) not in seen:
        seen[id(schema)] = schema
        for child in schema.get("properties", {}).values():
            all_schemas(child, seen)
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                all_schemas(schema[keyword], seen)
    return seen


@pytest.mark.parametrize("kind", CORE, ids=lambda kind: kind.kind)
def test_no_reference_is_left(kind: Kind) -> None:
    schemas = all_schemas(schema_of(kind), {}).values()
    assert [each for each in schemas if isinstance(each.get("$ref"), str) or "allOf" in each] == []


def test_a_reference_becomes_the_definition_itself() -> None:
    pod = definition("io.k8s.api.core.v1.PodList")["properties"]["items"]["items"]
    assert pod["properties"] is definition(POD.definition)["properties"]
    assert definition(PROPS)["properties"]["not"] is definition(PROPS)


def test_keywords_beside_a_reference_win() -> None:
    spec = schema_of(POD)["properties"]["spec"]
    assert spec["description"].startswith("Specification of the desired behavior of the pod.")
    assert spec["default"] == {}
    assert spec["properties"] is definition("io.k8s.api.core.v1.PodSpec")["properties"]
    assert definition("io.k8s.api.core.v1.PodSpec")["description"] == "PodSpec is a description of a pod."


def test_a_field_may_have_the_name_of_a_keyword() -> None:
    properties = definition(PROPS)["properties"]
    assert (properties["$ref"], properties["title"]) == ({"type": "string"}, {"type": "string"})
    assert properties["allOf"]["items"] == definition(PROPS) | {"default": {}}


def test_keywords_of_merging_are_kept() -> None:
    ports = definition(CONTAINER)["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"


def test_what_nobody_defined_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        definition("io.k8s.api.core.v1.Nothing")


def test_the_raw_definition_has_references_and_they_are_all_there() -> None:
    items = raw_definition("io.k8s.api.core.v1.PodList")["properties"]["items"]["items"]
    assert items["allOf"] == [{"$ref": f"#/components/schemas/{POD.definition}"}]
    assert {CONTAINER, OBJECT_META, POD.definition} <= closure(POD.definition)
    assert all(raw_definition(name) for name in closure(POD.definition))


def test_a_crd_gets_what_every_object_has() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "integer"}}}
    completed = schema_of(custom(schema))
    assert list(completed["properties"]) == ["apiVersion", "kind", "spec", "metadata"]
    assert completed["properties"]["metadata"]["properties"]["finalizers"]["x-kubernetes-list-type"] == "set"
    assert schema == {"type": "object", "properties": {"spec": {"type": "integer"}}}


def test_a_crd_may_restrict_names() -> None:
    short = {"type": "string", "maxLength": 5}
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": short}}}}
    properties = schema_of(custom(schema))["properties"]["metadata"]["properties"]
    assert properties["name"] is not definition(OBJECT_META)["properties"]["name"]
    assert properties["name"] == short
    assert properties["labels"] is definition(OBJECT_META)["properties"]["labels"]


def test_an_embedded_resource_is_completed_at_any_depth() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    schema = {"type": "object", "properties": {"many": {"type": "array", "items": embedded}}}
    items = schema_of(custom(schema))["properties"]["many"]["items"]
    assert set(items["properties"]) == {"apiVersion", "kind", "metadata"}


def test_a_crd_without_a_schema_takes_any_field() -> None:
    assert schema_of(custom({}))["x-kubernetes-preserve-unknown-fields"] is True


def test_the_same_kind_gives_the_same_schema() -> None:
    kind = custom({"type": "object"})
    assert schema_of(kind) is schema_of(kind)
    assert schema_of(custom({"type": "object"})) is not schema_of(kind)
    assert schema_of(POD) is schema_of(POD)


def test_the_file_is_not_read_before_it_is_needed() -> None:
    code = "import bireme.apiserver.openapi.documents, bireme.apiserver.openapi.definitions as d;"
    checked = subprocess.run(
        [sys.executable, "-c", f"{code} print(d._data.cache_info().misses)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert checked.stdout == "0\n"
