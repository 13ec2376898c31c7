"""A store that does with objects what an API server does: what only shows with schemas and field owners."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bireme.apiserver import garbage, subresources
from bireme.apiserver.deletion import DeleteOptions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import (
    CONFIG_MAP,
    CORE,
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    LEASE,
    NAMESPACE,
    POD,
    Kind,
)
from bireme.apiserver.lists import Query
from bireme.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from bireme.apiserver.routes import Reply, Request, handle
from bireme.apiserver.store import Store
from bireme.apiserver.terms import Terms
from bireme.apiserver.typed import BySchema

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 0},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "x-kubernetes-list-type": "set",
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
CRD: Object = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}
WIDGET: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


@pytest.fixture
def store() -> Store:
    made = Store(CORE, intake=BySchema())
    made.create(NAMESPACE, {"metadata": {"name": "default"}}, NOW)
    made.create(CUSTOM_RESOURCE_DEFINITION, CRD, NOW)
    return made


def ask(
    store: Store,
    method: str,
    path: str,
    body: object = None,
    media_type: str = "application/json",
    **params: str,
) -> Reply:
    raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
    return handle(store, Request(method, path, params, raw, media_type, "test"), NOW)


def refused(write: Callable[[], object]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        write()
    return caught.value


def make(store: Store, kind: Kind, name: str = "a", **metadata: Any) -> Object:
    body = {"metadata": {"name": name, **metadata}}
    return store.create(kind, body, NOW, namespace="default", terms=Terms(manager="maker"))


def test_warnings_come_with_a_refusal_too(store: Store) -> None:
    body = {"metadata": {"name": "a", "labels": {"bad key": ""}}, "unknown": 1}
    reply = ask(store, "POST", MAPS, body)
    assert (reply.code, reply.warnings) == (422, ('unknown field "unknown"',))


def test_what_can_not_be_decoded_is_refused_without_warnings(store: Store) -> None:
    reply = ask(store, "POST", MAPS, {"metadata": {"name": "a"}, "data": [], "unknown": 1})
    assert (reply.code, reply.warnings) == (400, ())


def test_an_eviction_can_be_a_dry_run(store: Store) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = store.create(POD, {"metadata": {"name": "p"}, "spec": spec}, NOW, namespace="default")
    eviction = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}
    subresources.evict(store, "p", eviction, NOW, namespace="default")
    assert store.get(POD, "p", namespace="default") == pod


def test_all_problems_of_an_object_are_told_together(store: Store) -> None:
    body = {"metadata": {"name": "a", "labels": {"bad key": ""}}, "data": {"bad key": ""}}
    causes = ask(store, "POST", MAPS, body).obj["details"]["causes"]
    assert [each["field"] for each in causes] == ["metadata.labels", "data[bad key]"]


@pytest.mark.parametrize("path", [MAPS, WIDGETS], ids=["core", "custom"])
def test_strict_reading_refuses_a_body(store: Store, path: str) -> None:
    body = {"metadata": {"name": "w"}, "unknown": 1} | ({} if path == MAPS else WIDGET)
    message = ask(store, "POST", path, body, fieldValidation="Strict").obj["message"]
    assert message.endswith(': strict decoding error: unknown field "unknown"')
    assert message.startswith(("ConfigMap in version", "Widget in version"))


@pytest.mark.parametrize(
    ("patch", "media_type", "complaint"),
    [
        (b'{"unknown": 1}', MERGE_PATCH, 'unknown field "unknown"'),
        (b'{"data": {}, "data": {}}', MERGE_PATCH, 'duplicate field "data"'),
        (
            b'[{"op": "add", "op": "add", "path": "/data", "value": {}}]',
            JSON_PATCH,
            'json patch duplicate field "[0].op"',
        ),
    ],
    ids=["unknown", "twice", "twice in an operation"],
)
def test_strict_reading_refuses_a_patch_and_lenient_reading_warns(
    store: Store, patch: bytes, media_type: str, complaint: str
) -> None:
    make(store, CONFIG_MAP)
    strict = ask(store, "PATCH", f"{MAPS}/a", patch, media_type, fieldValidation="Strict")
    assert (strict.code, strict.obj["details"]["causes"][0]["field"]) == (422, "patch")
    assert strict.obj["message"].endswith(f"strict decoding error: {complaint}")
    lenient = ask(store, "PATCH", f"{MAPS}/a", patch, media_type)
    assert (lenient.code, lenient.warnings) == (200, (complaint,))


def test_a_time_that_is_none_is_refused(store: Store) -> None:
    metadata = {"name": "w", "creationTimestamp": "yesterday"}
    assert ask(store, "POST", WIDGETS, WIDGET | {"metadata": metadata}).code == 400
    config = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "now"}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    reply = ask(store, "PATCH", path, config, APPLY_PATCH, fieldManager="one")
    assert (reply.code, "to proper version" in reply.obj["message"]) == (500, True)


def test_an_apply_that_creates_needs_no_version_and_names_no_uid(store: Store) -> None:
    versioned = WIDGET | {"metadata": {"name": "w", "resourceVersion": "1"}}
    assert ask(store, "PATCH", f"{WIDGETS}/w", versioned, APPLY_PATCH, fieldManager="one").code == 201
    other = WIDGET | {"metadata": {"name": "x", "uid": "other"}}
    refusal = ask(store, "PATCH", f"{WIDGETS}/x", other, APPLY_PATCH, fieldManager="one")
    assert (refusal.code, "no existing object was found" in refusal.obj["message"]) == (409, True)


def test_options_in_the_body_of_a_deletion_are_all_that_counts(store: Store) -> None:
    make(store, CONFIG_MAP)
    assert ask(store, "DELETE", f"{MAPS}/a", dryRun="All").code == 200
    assert store.record(CONFIG_MAP, "a", namespace="default") is not None
    assert ask(store, "DELETE", f"{MAPS}/a", {"gracePeriodSeconds": 0}, dryRun="All").code == 200
    assert store.record(CONFIG_MAP, "a", namespace="default") is None


def test_an_unknown_dry_run_is_shown_as_a_list(store: Store) -> None:
    message = ask(store, "POST", MAPS, {}, dryRun="Some").obj["message"]
    assert 'dryRun: Unsupported value: ["Some"]' in message


def test_lists_of_custom_kinds_always_say_how_to_continue(store: Store) -> None:
    assert ask(store, "GET", WIDGETS).body()["metadata"]["continue"] == ""
    assert "continue" not in ask(store, "GET", MAPS).body()["metadata"]


def test_a_crd_keeps_what_is_empty_but_means_something(store: Store) -> None:
    version = store.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.com")["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}}
    size = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    assert (size["minimum"], size["default"]) == (0, 0)
    assert ask(store, "GET", f"{WIDGETS}/w/status").obj["message"] == 'widgets.example.com "w" not found'


def test_a_new_finalizer_without_a_domain_is_doubtful_in_custom_kinds(store: Store) -> None:
    metadata = {"name": "w", "finalizers": ["mine", "example.com/f", "orphan"]}
    reply = ask(store, "POST", WIDGETS, WIDGET | {"metadata": metadata})
    assert [each[:27] for each in reply.warnings] == ['metadata.finalizers: "mine"']
    assert ask(store, "PATCH", f"{WIDGETS}/w", {"spec": {"size": 1}}, MERGE_PATCH).warnings == ()


@pytest.mark.parametrize(("kind", "taken"), [(CONFIG_MAP, False), (LEASE, True), (EVENT, True)])
def test_which_kinds_take_a_finalizer_without_a_domain(store: Store, kind: Kind, taken: bool) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["mine"]}, "involvedObject": {"namespace": "default"}}
    content = body if kind is EVENT else {"metadata": body["metadata"]}
    if taken:
        store.create(kind, content, NOW, namespace="default")
    else:
        assert refused(lambda: store.create(kind, content, NOW, namespace="default")).code == 422


def test_empty_managed_fields_forget_all_owners(store: Store) -> None:
    make(store, CONFIG_MAP, labels={"a": "b"})
    reset = ask(store, "PATCH", f"{MAPS}/a", {"metadata": {"managedFields": []}}, MERGE_PATCH).obj
    assert "managedFields" not in reset["metadata"]


def test_empty_managed_fields_say_nothing_in_custom_kinds(store: Store) -> None:
    ask(store, "POST", WIDGETS, WIDGET | {"spec": {"size": 1}})
    kept = ask(store, "PATCH", f"{WIDGETS}/w", {"metadata": {"managedFields": []}}, MERGE_PATCH).obj
    assert [each["manager"] for each in kept["metadata"]["managedFields"]] == ["test"]


def test_a_status_write_with_a_mistyped_spec_loses_all_owners(store: Store) -> None:
    made = ask(store, "POST", WIDGETS, WIDGET | {"spec": {"tags": ["a"]}}).obj
    twice = made | {"spec": {"tags": ["a", "a"]}, "status": {"phase": "On"}}
    tracked = ask(store, "PUT", f"{WIDGETS}/w/status", twice).obj
    assert len(tracked["metadata"]["managedFields"]) == 2
    mistyped = tracked | {"spec": {"size": "x"}, "status": {"phase": "Off"}}
    assert "managedFields" not in ask(store, "PUT", f"{WIDGETS}/w/status", mistyped).obj["metadata"]


def test_the_name_of_a_custom_object_is_looked_at_closely_once(store: Store) -> None:
    bad = {"metadata": {"generateName": "Bad_"}}
    assert ask(store, "POST", WIDGETS, WIDGET | bad).code == 422
    ask(store, "POST", WIDGETS, WIDGET)
    assert ask(store, "PATCH", f"{WIDGETS}/w", bad, MERGE_PATCH).code == 200


def test_a_generated_namespace_is_labelled_with_its_name(store: Store) -> None:
    made = store.create(NAMESPACE, {"metadata": {"generateName": "space-"}}, NOW)["metadata"]
    assert made["labels"] == {"kubernetes.io/metadata.name": made["name"]}


def test_a_namespace_can_go_in_the_foreground(store: Store) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, NOW)
    held = store.delete(NAMESPACE, "other", NOW, DeleteOptions(propagation_policy="Foreground"))
    assert held.obj["metadata"]["finalizers"] == ["foregroundDeletion"]
    garbage.settle(store, NOW)
    assert store.find(NAMESPACE, "other") is None


@pytest.mark.parametrize(
    ("binding", "words"),
    [
        ({"target": {"kind": "Pod", "name": "n"}}, 'target.kind: Unsupported value: "Pod"'),
        ({"kind": "Other", "target": {"name": "n"}}, "cannot be handled as a Binding"),
    ],
    ids=["another kind of target", "no Binding"],
)
def test_a_pod_is_bound_by_a_binding_to_a_node(store: Store, binding: Object, words: str) -> None:
    body = binding | {"metadata": {"name": "p"}}
    assert words in refused(lambda: subresources.bind(store, "p", body, NOW, namespace="default")).message
    assert store.is_empty(POD)


def reference(owner: Object, *, blocks: bool = False) -> Object:
    uid, name = owner["metadata"]["uid"], owner["metadata"]["name"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": blocks}


def test_nobody_owns_a_reference_that_the_collector_has_dropped(store: Store) -> None:
    first, second = make(store, CONFIG_MAP, "first"), make(store, CONFIG_MAP, "second")
    make(store, CONFIG_MAP, "child", ownerReferences=[reference(first), reference(second)])
    store.delete(CONFIG_MAP, "first", NOW, namespace="default")
    garbage.settle(store, NOW)
    child = store.get(CONFIG_MAP, "child", namespace="default")["metadata"]
    owned = child["managedFields"][0]["fieldsV1"]["f:metadata"]["f:ownerReferences"]
    assert list(owned) == [".", f'k:{{"uid":"{second["metadata"]["uid"]}"}}']


def test_an_owner_that_goes_in_the_foreground_is_dropped_by_those_that_have_another(store: Store) -> None:
    """Also where something else holds it afterwards."""
    first = make(store, CONFIG_MAP, "first", finalizers=["example.com/f"])
    second = make(store, CONFIG_MAP, "second")
    make(store, CONFIG_MAP, "child", ownerReferences=[reference(first), reference(second)])
    store.delete(
        CONFIG_MAP, "first", NOW, DeleteOptions(propagation_policy="Foreground"), namespace="default"
    )
    garbage.settle(store, NOW)
    owners = store.get(CONFIG_MAP, "child", namespace="default")["metadata"]["ownerReferences"]
    assert [each["name"] for each in owners] == ["second"]


def test_the_options_of_a_list_are_looked_at_before_its_fields(store: Store) -> None:
    query = Query(field_selector="spec.other=1", resource_version_match="Exact")
    assert refused(lambda: store.list(CONFIG_MAP, query)).code == 422


@pytest.mark.parametrize(
    ("force", "code", "words"),
    [("", 409, "conflict"), ("true", 400, "does not match the name on the URL")],
    ids=["a conflict first", "then its name"],
)
def test_what_is_applied_under_another_name_is_refused(
    store: Store, force: str, code: int, words: str
) -> None:
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"k": "1"}}, NOW, namespace="default")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"k": "2"}}
    params = {"fieldManager": "other"} | ({"force": force} if force else {})
    request = Request("PATCH", f"{MAPS}/a", params, msgspec.json.encode(config), APPLY_PATCH)
    reply = handle(store, request, NOW)
    assert reply.code == code
    assert words in reply.obj["message"]
