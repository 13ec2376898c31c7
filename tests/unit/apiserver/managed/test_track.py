from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.api.kinds import GENERIC_JOB
from bireme.apiserver.kinds import CONFIG_MAP, EVENT, LEASE, NAMESPACE, POD, Kind, custom
from bireme.apiserver.managed.entries import entry, updater
from bireme.apiserver.managed.resets import reset_fields
from bireme.apiserver.managed.track import track
from bireme.apiserver.openapi.definitions import schema_of

Object = dict[str, Any]
NOW, STAMP = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05Z"
EARLIER = "2029-01-01T00:00:00Z"


def write(
    schema: Object, old: Object | None, new: Object, manager: str = "m", **options: Any
) -> list[Object]:
    return track(schema, old, new, manager=manager, api_version="v1", now=NOW, **options)


def owner(manager: str, fields: Object, time: str = EARLIER, sub: str = "") -> Object:
    return entry(updater(manager, "v1", sub), "v1", fields, time)


def obj(spec: Object, *owners: Object, **metadata: Any) -> Object:
    listed = {"managedFields": list(owners)} if owners else {}
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"} | metadata | listed, "spec": spec}


SIZE: Object = {"f:spec": {"f:size": {}}}


def test_who_creates_an_object_owns_all_but_what_names_it(schema: Object) -> None:
    new = obj({"size": 1, "names": {"a": "1"}}, namespace="n", uid="u", generateName="x", labels={"l": "1"})
    assert write(schema, None, new, custom=True) == [
        owner(
            "m",
            {
                "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:l": {}}},
                "f:spec": {".": {}, "f:names": {".": {}, "f:a": {}}, "f:size": {}},
            },
            STAMP,
        )
    ]


def test_a_change_moves_fields_to_its_writer(schema: Object) -> None:
    old = obj({"size": 1, "on": True}, owner("a", {"f:spec": {"f:on": {}, "f:size": {}}}))
    new = obj({"size": 2, "on": True})
    assert write(schema, old, new, "b") == [owner("a", {"f:spec": {"f:on": {}}}), owner("b", SIZE, STAMP)]


def test_a_writer_keeps_what_it_owned(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1, "on": True}), "a") == [
        owner("a", {"f:spec": {"f:on": {}, "f:size": {}}}, STAMP)
    ]


def test_a_write_without_a_change_leaves_owners_and_times(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1}), "b") == [owner("a", SIZE)]


def test_nobody_owns_what_is_gone(schema: Object) -> None:
    old = obj({"size": 1, "on": True}, owner("a", SIZE), owner("b", {"f:spec": {"f:on": {}}}))
    assert write(schema, old, obj({"on": True}), "c") == [owner("b", {"f:spec": {"f:on": {}}})]


def test_subresources_have_owners_of_their_own(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    new = obj({"size": 2}) | {"status": {"phase": "x"}}
    assert write(schema, old, new, "a", subresource="status", ignored=[("spec",)]) == [
        owner("a", SIZE),
        owner("a", {"f:status": {".": {}, "f:phase": {}}}, STAMP, "status"),
    ]


def test_what_the_server_puts_back_is_not_owned(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1}) | {"status": {"phase": "x"}}, ignored=[("status",)]) == [
        owner("a", SIZE)
    ]


SENT: dict[str, tuple[Any, list[Object]]] = {
    "absent": (None, [owner("a", SIZE)]),
    "other ones": ([owner("z", SIZE)], [owner("z", SIZE)]),
    "unreadable": ([owner("z", SIZE) | {"operation": "x"}], [owner("a", SIZE)]),
    "an empty list": ([], []),
    "an empty entry": ([{}], []),
    "of another version": ([owner("z", SIZE) | {"apiVersion": "v9"}], []),
    "of no fields": ([owner("z", {}), owner("y", SIZE)], [owner("y", SIZE)]),
}


@pytest.mark.parametrize(("sent", "expected"), SENT.values(), ids=SENT)
def test_owners_that_a_writer_sends(schema: Object, sent: Any, expected: list[Object]) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1}, managedFields=sent)) == expected


def test_a_custom_object_with_an_owner_of_another_version_loses_them_all(schema: Object) -> None:
    sent = [owner("a", SIZE), owner("z", SIZE) | {"apiVersion": "v9"}]
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1}, *sent), custom=True) == []


def test_a_subresource_takes_no_owners(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"size": 1}, owner("z", SIZE)), subresource="status") == [owner("a", SIZE)]


def test_an_object_without_owners_is_not_tracked(schema: Object) -> None:
    assert write(schema, obj({"size": 1}), obj({"size": 2})) == []


def test_an_object_that_can_not_be_tracked_loses_its_owners(schema: Object) -> None:
    old = obj({"size": 1}, owner("a", SIZE))
    assert write(schema, old, obj({"mounts": [{"from": "x"}]})) == []


def test_nothing_that_is_passed_in_is_changed(schema: Object) -> None:
    old = obj({"size": 1, "names": {"a": "1"}}, owner("a", SIZE), owner("b", {"f:spec": {"f:names": {}}}))
    new = obj({"size": 2, "names": {"b": "1"}}, owner("a", SIZE))
    before = repr((old, new))
    write(schema, old, new)
    assert repr((old, new)) == before


CREATED = {
    "ConfigMap": (CONFIG_MAP, {"data": {"a": "1"}}, {"f:data": {".": {}, "f:a": {}}}),
    "Pod": (
        POD,
        {
            "spec": {"containers": [{"name": "c", "resources": {}}], "securityContext": {}},
            "status": {"phase": "x"},
        },
        {
            "f:spec": {
                "f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:resources": {}}},
                "f:securityContext": {},
            }
        },
    ),
    "Event": (
        EVENT,
        {
            "count": 1,
            "eventTime": None,
            "involvedObject": {"name": "x"},
            "reportingInstance": "",
            "source": {},
        },
        {"f:count": {}, "f:involvedObject": {}},
    ),
    "Lease": (LEASE, {"spec": {"holderIdentity": "x"}}, {"f:spec": {"f:holderIdentity": {}}}),
}


@pytest.mark.parametrize(("kind", "content", "fields"), CREATED.values(), ids=CREATED)
def test_what_a_new_object_has_anyway_is_not_owned(kind: Kind, content: Object, fields: Object) -> None:
    new = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}} | content
    found = write(schema_of(kind), None, new, ignored=reset_fields(kind))
    assert [each["fieldsV1"] for each in found] == [fields]


@pytest.mark.parametrize(
    ("kind", "subresource", "expected"),
    [
        pytest.param(CONFIG_MAP, "", (), id="a kind without a status"),
        pytest.param(NAMESPACE, "", (("status",),), id="a kind"),
        pytest.param(NAMESPACE, "finalize", (("status",),), id="another subresource"),
        pytest.param(NAMESPACE, "status", (("spec",),), id="a status"),
        pytest.param(
            POD,
            "status",
            (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
            id="a pod's",
        ),
        pytest.param(custom(GENERIC_JOB), "", (("status",),), id="a custom kind"),
        pytest.param(custom(GENERIC_JOB), "status", (("metadata",), ("spec",)), id="a custom kind's status"),
    ],
)
def test_what_is_put_back(kind: Kind, subresource: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert reset_fields(kind, subresource) == expected
