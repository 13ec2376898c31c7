"""The documents below /openapi/v3."""

from typing import Any

import msgspec
import pytest

from bireme.apiserver.kinds import CORE, POD, Kind
from bireme.apiserver.openapi.custom import custom_definitions, definition_name
from bireme.apiserver.openapi.definitions import references
from bireme.apiserver.openapi.documents import document, index

THING = Kind(
    group="example.com", version="v1beta1", plural="things", kind="Thing", custom=True, has_status=True,
    crd_schema={"type": "object", "description": "A thing.", "properties": {"spec": {"type": "object"}}},
)  # fmt: skip
KINDS = (*CORE, THING)
NAME = "com.example.v1beta1.Thing"
BOTH = [{"type": "integer"}, {"type": "string"}]


def made(group: str = "", version: str = "v1", kinds: tuple[Kind, ...] = KINDS) -> dict[str, Any]:
    found = document(kinds, group, version)
    assert found is not None
    return found


def published(schema: dict[str, Any]) -> dict[str, Any]:
    root = {"type": "object", "properties": {"it": schema}}
    definitions = custom_definitions(msgspec.structs.replace(THING, crd_schema=root))
    it: dict[str, Any] = definitions[NAME]["properties"]["it"]
    return it


def test_the_index_names_every_group_and_version() -> None:
    assert list(index(KINDS)["paths"]) == [
        "api/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/example.com/v1beta1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/scheduling.k8s.io/v1",
    ]


def test_an_address_changes_with_its_document_alone() -> None:
    schema = THING.crd_schema | {"description": "Another."}
    before = index(KINDS)["paths"]
    after = index((*CORE, msgspec.structs.replace(THING, crd_schema=schema)))["paths"]
    assert before == index(KINDS)["paths"]
    assert [path for path in before if before[path] != after[path]] == ["apis/example.com/v1beta1"]
    assert before["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


@pytest.mark.parametrize(
    ("group", "version"),
    [("", "v2"), ("apps", "v1"), ("example.com", "v1")],
    ids=["core", "group", "version"],
)
def test_what_is_not_served_has_no_document(group: str, version: str) -> None:
    assert document(KINDS, group, version) is None


@pytest.mark.parametrize("path", index(KINDS)["paths"])
def test_a_document_holds_all_that_it_refers_to(path: str) -> None:
    *_, group, version = ["", *path.split("/")[1:]]
    found = made(group, version)
    assert references(found) - set(found["components"]["schemas"]) == set()
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_an_operation_says_what_clients_look_for() -> None:
    patch = made()["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-action"] == "patch"
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert patch["operationId"] == "patchCoreV1NamespacedPod"
    names = [each["name"] for each in patch["parameters"]]
    assert names == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_a_custom_kind_takes_no_strategic_merge_patch() -> None:
    path = "/apis/example.com/v1beta1/namespaces/{namespace}/things/{name}"
    content = made("example.com", "v1beta1")["paths"][path]["patch"]["requestBody"]["content"]
    assert list(content) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]


def test_paths_are_those_of_the_kinds() -> None:
    assert list(made("example.com", "v1beta1")["paths"]) == [
        "/apis/example.com/v1beta1/namespaces/{namespace}/things",
        "/apis/example.com/v1beta1/namespaces/{namespace}/things/{name}",
        "/apis/example.com/v1beta1/namespaces/{namespace}/things/{name}/status",
        "/apis/example.com/v1beta1/things",
    ]
    assert "/api/v1/namespaces/{namespace}/pods/{name}/exec" in made()["paths"]
    assert "/api/v1/pods" not in made(kinds=tuple(kind for kind in CORE if kind is not POD))["paths"]


def test_reviews_can_only_be_created() -> None:
    paths = made("authorization.k8s.io", kinds=())["paths"]
    assert {path.rsplit("/", 1)[-1]: set(item) for path, item in paths.items()} == {
        "localsubjectaccessreviews": {"post", "parameters"},
        "selfsubjectaccessreviews": {"post", "parameters"},
        "selfsubjectrulesreviews": {"post", "parameters"},
        "subjectaccessreviews": {"post", "parameters"},
    }


def test_a_definition_is_named_by_its_reversed_domain() -> None:
    generic = Kind(
        custom=True, group="batch.tensorstack.dev", version="v1beta1", plural="g", kind="GenericJob"
    )
    assert definition_name(generic) == "dev.tensorstack.batch.v1beta1.GenericJob"
    assert definition_name(POD) == "io.k8s.api.core.v1.Pod"


def test_a_custom_kind_and_its_list_are_defined() -> None:
    definitions = custom_definitions(THING)
    assert list(definitions) == [NAME, f"{NAME}List"]
    thing, things = definitions.values()
    assert thing["description"] == "A thing."
    assert thing["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1beta1", "kind": "Thing"}
    ]
    assert references(thing) == {"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    assert things["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{NAME}"}
    assert "properties" in THING.crd_schema
    assert "metadata" not in THING.crd_schema["properties"]


def test_a_custom_kind_without_a_schema_has_no_properties() -> None:
    thing = custom_definitions(msgspec.structs.replace(THING, crd_schema={}))[NAME]
    assert set(thing) == {"type", "x-kubernetes-group-version-kind"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, {"anyOf": BOTH}, id="plain"),
        pytest.param({"anyOf": BOTH}, {"anyOf": BOTH}, id="named already"),
        pytest.param(
            {"anyOf": [{"minimum": 1}]},
            {"anyOf": [{"minimum": 1}], "allOf": [{"anyOf": BOTH}]},
            id="with conditions of its own",
        ),
        pytest.param({"allOf": [{"anyOf": BOTH}]}, {"allOf": [{"anyOf": BOTH}]}, id="named in a condition"),
    ],
)
def test_both_types_of_an_int_or_string_are_named(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    mark = {"x-kubernetes-int-or-string": True}
    assert published(mark | schema) == mark | expected


def test_an_embedded_resource_must_say_what_it_is() -> None:
    found = published({"type": "object", "x-kubernetes-embedded-resource": True, "required": ["apiVersion"]})
    assert found["required"] == ["apiVersion", "kind"]
    assert references(found["properties"]["metadata"]) == {"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
