import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.managed.apply import LAST_APPLIED, apply, check_type
from bireme.apiserver.managed.entries import applier, entry, updater

Object = dict[str, Any]
NOW, STAMP = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05Z"
EARLIER = "2029-01-01T00:00:00Z"
SIZE: Object = {"f:spec": {"f:size": {}}}


def obj(spec: Any, *owners: Object, **metadata: Any) -> Object:
    listed = {"managedFields": list(owners)} if owners else {}
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"} | metadata | listed, "spec": spec}


def applied(manager: str, fields: Object, time: str | None = EARLIER, sub: str = "") -> Object:
    return entry(applier(manager, sub), "v1", fields, time)


def updated(manager: str, fields: Object, time: str = EARLIER, sub: str = "") -> Object:
    return entry(updater(manager, "v1", sub), "v1", fields, time)


def run(
    schema: Object, old: Object | None, spec: Any, manager: str = "m", *, force: bool = False, **more: Any
) -> Object:
    config = spec if "metadata" in spec else obj(spec)
    return apply(
        schema, old, config, manager=manager, force=force, api_version="v1", now=NOW, custom=True, **more
    )


def test_apply_creates_an_object(schema: Object) -> None:
    made = run(schema, None, {"size": 1, "ports": [{"port": 80}], "inner": {"x": "1"}})
    fields: Object = {
        "f:inner": {"f:x": {}},
        "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
        "f:size": {},
    }
    spec = {"size": 1, "ports": [{"port": 80}], "inner": {"x": "1"}}
    assert made == obj(spec, applied("m", {"f:spec": fields}, STAMP))


def test_the_same_again_changes_nothing(schema: Object) -> None:
    old = obj({"size": 1, "on": True}, applied("m", SIZE))
    assert run(schema, old, {"size": 1}) == old


def test_who_applies_the_same_owns_it_too_without_a_time(schema: Object) -> None:
    old = obj({"size": 1}, applied("a", SIZE))
    assert run(schema, old, {"size": 1}, "b") == obj(
        {"size": 1}, applied("b", SIZE, None), applied("a", SIZE)
    )


def test_what_is_no_longer_applied_goes(schema: Object) -> None:
    fields: Object = {"f:spec": {"f:size": {}, "f:names": {"f:a": {}, "f:b": {}}}}
    old = obj({"size": 1, "on": True, "names": {"a": "1", "b": "1", "c": "1"}}, applied("m", fields))
    made = run(schema, old, {"names": {"a": "1"}})
    assert made["spec"] == {"on": True, "names": {"a": "1", "c": "1"}}
    assert made["metadata"]["managedFields"] == [applied("m", {"f:spec": {"f:names": {"f:a": {}}}}, STAMP)]


@pytest.mark.parametrize("other", [applied("o", SIZE), updated("o", SIZE)], ids=["an applier", "an updater"])
def test_what_another_owns_stays(schema: Object, other: Object) -> None:
    old = obj({"size": 1}, applied("m", SIZE), other)
    made = run(schema, old, {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}})
    assert made == obj({"size": 1}, other)


def test_items_of_lists_go_one_by_one(schema: Object) -> None:
    tcp_1, tcp_2 = 'k:{"port":1,"protocol":"TCP"}', 'k:{"port":2,"protocol":"TCP"}'
    mine = {"f:spec": {"f:ports": {tcp_1: {".": {}}}, "f:tags": {'v:"a"': {}, 'v:"b"': {}}}}
    other: Object = {"f:spec": {"f:ports": {tcp_2: {".": {}, "f:port": {}}}}}
    spec = {"tags": ["a", "b", "c"], "ports": [{"port": 1, "note": "x"}, {"port": 2}]}
    made = run(schema, obj(spec, applied("m", mine), updated("o", other)), {"tags": ["b"]})
    assert made["spec"] == {"tags": ["b", "c"], "ports": [{"port": 2}]}


def test_an_atomic_list_goes_as_a_whole(schema: Object) -> None:
    old = obj({"steps": ["a"], "size": 1}, applied("m", {"f:spec": {"f:steps": {}}}))
    assert run(schema, old, {})["spec"] == {"size": 1}


CONFLICTS = {
    "with an applier": (
        [applied("a", SIZE)],
        'Apply failed with 1 conflict: conflict with "a": .spec.size',
        [('conflict with "a"', ".spec.size")],
    ),
    "with an updater": (
        [updated("a", SIZE)],
        'Apply failed with 1 conflict: conflict with "a" using v1: .spec.size',
        [('conflict with "a" using v1', ".spec.size")],
    ),
    "with a subresource": (
        [updated("a", SIZE, sub="status")],
        'Apply failed with 1 conflict: conflict with "a" with subresource "status" using v1: .spec.size',
        [('conflict with "a" with subresource "status" using v1', ".spec.size")],
    ),
    "with two": (
        [updated("b", {"f:spec": {"f:on": {}, "f:size": {}}}), applied("a", SIZE)],
        (
            'Apply failed with 3 conflicts: conflicts with "a":\n- .spec.size\nconflicts with "b" using v1:\n'
            "- .spec.on\n- .spec.size"
        ),
        [
            ('conflict with "a"', ".spec.size"),
            ('conflict with "b" using v1', ".spec.on"),
            ('conflict with "b" using v1', ".spec.size"),
        ],
    ),
}


@pytest.mark.parametrize(("owners", "message", "causes"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_others_own_is_a_conflict(
    schema: Object, owners: list[Object], message: str, causes: list[tuple[str, str]]
) -> None:
    with pytest.raises(StatusError) as refusal:
        run(schema, obj({"size": 1, "on": True}, *owners), {"size": 2, "on": False})
    status = refusal.value.status
    assert (status["code"], status["reason"], status["message"]) == (409, "Conflict", message)
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": text, "field": field} for text, field in causes
    ]


def test_force_takes_fields_from_others(schema: Object) -> None:
    old = obj(
        {"size": 1, "on": True}, updated("a", {"f:spec": {"f:on": {}, "f:size": {}}}), applied("b", SIZE)
    )
    made = run(schema, old, {"size": 2}, force=True)
    assert made == obj(
        {"size": 2, "on": True}, applied("m", SIZE, STAMP), updated("a", {"f:spec": {"f:on": {}}})
    )


def test_who_owned_an_object_before_the_first_apply_is_written_down(schema: Object) -> None:
    made = run(schema, obj({"size": 1, "on": True}), {"size": 1})
    before = updated("before-first-apply", {"f:spec": {".": {}, "f:on": {}, "f:size": {}}}, STAMP)
    assert made == obj({"size": 1, "on": True}, applied("m", SIZE, None), before)


def test_a_status_is_applied_by_itself(schema: Object) -> None:
    config = obj({"size": 7}) | {"status": {"phase": "x"}}
    made = run(
        schema, obj({"size": 1}, applied("m", SIZE)), config, subresource="status", ignored=[("spec",)]
    )
    assert made["metadata"]["managedFields"] == [
        applied("m", SIZE),
        applied("m", {"f:status": {"f:phase": {}}}, STAMP, "status"),
    ]


REFUSED = {
    "owners": (obj({}, managedFields=[]), 400, "metadata.managedFields must be nil"),
    "an unknown field": ({"other": 1}, 500, ".spec.other: field not declared in schema"),
    "a text for a number": ({"size": "x"}, 500, ".spec.size: expected numeric (int or float), got string"),
    "a number for a text": (
        {"tags": [1]}, 500, ".spec.tags[=1]: expected string, got &value.valueUnstructured{Value:1}"
    ),
    "an object for a text": (
        {"names": {"a": {"b": ["c", None]}}}, 500,
        (
            ".spec.names.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}"
            '{"b":[]interface {}{"c", interface {}(nil)}}}'
        ),
    ),
    "a text for a truth": ({"on": "x"}, 500, ".spec.on: expected boolean, got &{x}"),
    "a list for a map": ({"inner": ["x", 1]}, 500, ".spec.inner: expected map, got &{[x 1]}"),
    "a map for a list": ({"ports": {"a": None}}, 500, ".spec.ports: expected list, got &{map[a:<nil>]}"),
    "duplicates": ({"tags": ["a", "a"]}, 500, '.spec.tags: duplicate entries for key [="a"]'),
    "null for an item": (
        {"ports": [None]}, 500,
        ".spec.ports: element 0: associative list with keys may not have a null element",
    ),
    "several": (
        {"on": "x", "size": []}, 500,
        (
            "errors:\n  .spec.on: expected boolean, got &{x}"
            "\n  .spec.size: expected numeric (int or float), got []interface {}"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_applied(schema: Object, config: Object, code: int, message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        run(schema, None, config)
    prefix = "failed to create typed patch object (/x; /v1, Kind=X): " if code == 500 else ""
    assert (refusal.value.code, refusal.value.message) == (code, prefix + message)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param({"apiVersion": "g/v2", "kind": "X"}, "g/v2, Kind=X", id="version"),
        pytest.param({"apiVersion": "v1", "kind": "X"}, "/v1, Kind=X", id="group"),
        pytest.param({"apiVersion": "g/v1", "kind": "Y"}, "g/v1, Kind=Y", id="kind"),
        pytest.param({}, "/, Kind=", id="nothing"),
    ],
)
def test_a_config_of_another_kind_is_refused(config: Object, said: str) -> None:
    check_type("g", "v1", "X", {"apiVersion": "g/v1", "kind": "X"})
    with pytest.raises(StatusError) as refusal:
        check_type("g", "v1", "X", config)
    assert refusal.value.message == f"invalid object type: {said}"


def with_annotation(spec: Object, said: Object, *owners: Object) -> Object:
    text = json.dumps({"apiVersion": "v1", "kind": "X", "spec": said})
    return obj(spec, *owners, annotations={LAST_APPLIED: text})


CLIENT_SIDE = updated("kubectl-client-side-apply", {"f:spec": {"f:on": {}, "f:size": {}}})


def test_kubectl_takes_over_what_it_applied_on_the_clients_side(schema: Object) -> None:
    old = with_annotation({"size": 1, "on": True}, {"size": 1}, CLIENT_SIDE)
    made = run(schema, old, {"size": 2}, "kubectl")
    assert made["spec"] == {"size": 2, "on": True}
    text = made["metadata"]["annotations"][LAST_APPLIED]
    assert text == '{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"spec":{"size":2}}\n'


@pytest.mark.parametrize("manager", ["kubectl", "other"])
def test_what_kubectl_did_not_apply_stays_a_conflict(schema: Object, manager: str) -> None:
    old = with_annotation({"size": 1, "on": True}, {"size": 1}, CLIENT_SIDE)
    with pytest.raises(StatusError) as refusal:
        run(schema, old, {"size": 2, "on": False}, manager)
    fields = [each["field"] for each in refusal.value.status["details"]["causes"]]
    assert fields == ([".spec.on"] if manager == "kubectl" else [".spec.on", ".spec.size"])


def test_nothing_that_is_passed_in_is_changed(schema: Object) -> None:
    fields: Object = {"f:spec": {"f:names": {"f:a": {}, "f:b": {}}, "f:tags": {'v:"a"': {}}}}
    old = obj({"names": {"a": "1", "b": "1"}, "tags": ["a", "b"]}, applied("m", fields), updated("o", SIZE))
    config = obj({"names": {"c": "1"}, "tags": ["c"]})
    before = repr((old, config))
    run(schema, old, config)
    assert repr((old, config)) == before
