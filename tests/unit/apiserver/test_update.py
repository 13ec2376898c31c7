"""Replacements and patches: versions, generations, the status subresource, and what can't change."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, LEASE, NAMESPACE, NODE, OURS, POD, SECRET, Kind
from bireme.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from bireme.apiserver.store import Store

(GENERIC_JOB,) = (kind for kind in OURS if kind.kind == "GenericJob")
JOB = {
    "apiVersion": GENERIC_JOB.api_version,
    "kind": "GenericJob",
    "metadata": {"name": "a"},
    "spec": {"x": 1},
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}

Object = dict[str, Any]


@pytest.fixture
def config_map(store: Store, now: datetime) -> Object:
    return store.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"k": "v"}}, now, namespace="default")


@pytest.fixture
def job(store: Store, now: datetime) -> Object:
    return store.create(GENERIC_JOB, JOB, now, namespace="default")


@pytest.fixture
def pod(store: Store, now: datetime) -> Object:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return store.create(POD, body, now, namespace="default")


def edited(obj: Object, **metadata: Any) -> Object:
    """A copy with other metadata; None takes a field away."""
    changed = {key: value for key, value in (obj["metadata"] | metadata).items() if value is not None}
    return obj | {"metadata": changed}


def refused(do: Callable[[], object]) -> tuple[int, str, str]:
    with pytest.raises(StatusError) as error:
        do()
    return error.value.code, error.value.reason, error.value.message


def patch(store: Store, kind: Kind, body: object, **options: Any) -> Object:
    return store.patch(kind, "a", body, namespace="default", **options)


# ---- versions


def test_every_write_takes_the_next_version_of_all(store: Store, now: datetime, config_map: Object) -> None:
    changed = patch(store, CONFIG_MAP, {"data": {"k": "w"}})
    other = store.create(CONFIG_MAP, {"metadata": {"name": "b"}}, now, namespace="default")
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (config_map, changed, other)]
    assert versions == [3, 4, 5]
    assert store.version == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": {"k": "v"}},
        {"metadata": {"labels": {}}},
        {"metadata": {"generation": 9, "selfLink": "/x"}},
    ],
    ids=["nothing", "the same", "an empty map", "what is the server's"],
)
def test_a_write_that_changes_nothing_is_no_write(store: Store, config_map: Object, body: Object) -> None:
    watcher = store.watch(CONFIG_MAP)
    watcher.poll()
    assert patch(store, CONFIG_MAP, body) == config_map
    assert store.version == 3
    assert watcher.poll() == []


def test_true_is_not_one(store: Store, now: datetime, job: Object) -> None:
    """Python takes them for equal; an API server does not."""
    changed = patch(store, GENERIC_JOB, {"spec": {"x": True}})
    assert changed["spec"] == {"x": True}
    assert changed["metadata"]["generation"] == 2


def test_a_replacement_with_an_older_version_is_a_conflict(
    store: Store, now: datetime, config_map: Object
) -> None:
    patch(store, CONFIG_MAP, {"data": {"k": "w"}})
    message = (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your'
        " changes to the latest version and try again"
    )
    assert refused(lambda: store.replace(CONFIG_MAP, "a", config_map, now, namespace="default")) == (
        409,
        "Conflict",
        message,
    )


def test_a_patch_may_name_a_version_too(store: Store, config_map: Object) -> None:
    current = {"metadata": {"resourceVersion": "3", "labels": {"a": "b"}}}
    assert patch(store, CONFIG_MAP, current)["metadata"]["labels"] == {"a": "b"}
    assert refused(lambda: patch(store, CONFIG_MAP, current))[:2] == (409, "Conflict")


def test_some_kinds_are_replaced_without_a_version(
    store: Store, now: datetime, config_map: Object, job: Object
) -> None:
    unversioned = edited(config_map, resourceVersion=None) | {"data": {"k": "w"}}
    assert store.replace(CONFIG_MAP, "a", unversioned, now, namespace="default")["data"] == {"k": "w"}
    unversioned = edited(job, resourceVersion=None)
    assert refused(lambda: store.replace(GENERIC_JOB, "a", unversioned, now, namespace="default"))[2] == (
        'genericjobs.batch.tensorstack.dev "a" is invalid: metadata.resourceVersion: Invalid value: 0: must'
        " be specified for an update"
    )


def test_a_replacement_of_another_object_of_the_name_is_a_conflict(
    store: Store, now: datetime, config_map: Object
) -> None:
    code, reason, message = refused(
        lambda: store.replace(CONFIG_MAP, "a", edited(config_map, uid="x"), now, namespace="default")
    )
    assert (code, reason) == (409, "Conflict")
    assert "Key: /registry/configmaps/default/a" in message
    assert message.endswith(f"UID in precondition: x, UID in object meta: {config_map['metadata']['uid']}")


def test_some_kinds_are_created_by_a_replacement(store: Store, now: datetime) -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    made = store.replace(LEASE, "a", lease, now, namespace="default")
    assert made["metadata"]["uid"]
    assert refused(
        lambda: store.replace(CONFIG_MAP, "x", {"metadata": {"name": "x"}}, now, namespace="default")
    ) == (
        404,
        "NotFound",
        'configmaps "x" not found',
    )


# ---- what can't change


@pytest.mark.parametrize(
    ("metadata", "code", "words"),
    [
        ({"name": "b"}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"name": None}, 400, "(a based on URL) was undeterminable"),
        ({"namespace": "other"}, 400, "does not match the namespace sent on the request"),
        ({"uid": "x"}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 422, "metadata.deletionTimestamp: Invalid value"),
        ({"deletionGracePeriodSeconds": 5}, 422, "metadata.deletionGracePeriodSeconds: Invalid value: 5"),
        ({"labels": {"a": 1}}, 422, 'is invalid: patch: Invalid value'),
        ({"labels": {"a b": "c"}}, 422, "metadata.labels"),
        ({"resourceVersion": "abc"}, 500, 'strconv.ParseUint: parsing "abc": invalid syntax'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_metadata_that_can_not_be_so(
    store: Store, config_map: Object, metadata: Object, code: int, words: str
) -> None:
    got, _, message = refused(lambda: patch(store, CONFIG_MAP, {"metadata": metadata}))
    assert (got, words in message) == (code, True), message


def test_what_is_the_servers_stays(store: Store, now: datetime, job: Object) -> None:
    other = edited(job, uid=None, creationTimestamp="2020-01-01T00:00:00Z", generation=77, labels={"a": "b"})
    changed = store.replace(GENERIC_JOB, "a", other, now, namespace="default")
    kept = ("uid", "creationTimestamp", "generation")
    assert [changed["metadata"][key] for key in kept] == [job["metadata"][key] for key in kept]


def test_sealed_data_stays(store: Store, config_map: Object) -> None:
    patch(store, CONFIG_MAP, {"immutable": True})
    assert (
        "data: Forbidden: field is immutable when `immutable` is set"
        in refused(lambda: patch(store, CONFIG_MAP, {"data": {"k": "w"}}))[2]
    )
    assert "immutable: Forbidden" in refused(lambda: patch(store, CONFIG_MAP, {"immutable": None}))[2]
    assert patch(store, CONFIG_MAP, {"metadata": {"labels": {"a": "b"}}})["metadata"]["labels"] == {"a": "b"}


def test_the_type_of_a_secret_stays(store: Store, now: datetime) -> None:
    store.create(SECRET, {"metadata": {"name": "a"}}, now, namespace="default")
    assert refused(lambda: patch(store, SECRET, {"type": "other"}))[2] == (
        'Secret "a" is invalid: type: Invalid value: "other": field is immutable'
    )


# ---- generation and status


@pytest.mark.parametrize(
    ("body", "generation"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, 1),
        ({"status": {"phase": "Running"}}, 1),
        ({"spec": {"x": 2}}, 2),
        ({"other": 1}, 2),
        ({"spec": {"x": 1}}, 1),
    ],
    ids=["metadata", "status", "spec", "another field", "the same spec"],
)
def test_the_generation_counts_changes_of_the_spec(
    store: Store, job: Object, body: Object, generation: int
) -> None:
    assert patch(store, GENERIC_JOB, body)["metadata"]["generation"] == generation


def test_kinds_without_a_generation_get_none(store: Store, config_map: Object) -> None:
    assert "generation" not in patch(store, CONFIG_MAP, {"data": {"k": "w"}})["metadata"]


def test_the_main_resource_leaves_the_status_alone(store: Store, now: datetime, job: Object) -> None:
    with_status = patch(store, GENERIC_JOB, {"status": {"phase": "Running"}}, subresource="status")
    replaced = store.replace(
        GENERIC_JOB,
        "a",
        with_status | {"spec": {"x": 2}, "status": {"phase": "Lost"}},
        now,
        namespace="default",
    )
    assert (replaced["spec"], replaced["status"]) == ({"x": 2}, {"phase": "Running"})


def test_the_status_of_our_kinds_is_all_that_its_subresource_writes(store: Store, job: Object) -> None:
    body = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]},
        "spec": {"x": 2},
        "status": {"phase": "Running"},
    }
    changed = patch(store, GENERIC_JOB, body, subresource="status")
    assert changed["status"] == {"phase": "Running"}
    assert changed["spec"] == {"x": 1}
    assert changed["metadata"] == job["metadata"] | {"resourceVersion": "4"}
    assert "status" not in patch(store, GENERIC_JOB, {"status": None}, subresource="status")


def test_the_status_of_a_pod_takes_labels_along_but_no_owners(store: Store, pod: Object) -> None:
    body = {
        "metadata": {"labels": {"a": "b"}, "ownerReferences": [OWNER]},
        "spec": {"activeDeadlineSeconds": 1},
        "status": {"phase": "Running"},
    }
    changed = patch(store, POD, body, subresource="status")
    assert changed["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert changed["spec"] == pod["spec"]
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert "ownerReferences" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("kind", "subresource"), [(CONFIG_MAP, "status"), (POD, "scale")], ids=["a status", "another one"]
)
def test_a_subresource_must_be_there(store: Store, now: datetime, kind: Kind, subresource: str) -> None:
    """Taken for the main resource, it would write what nobody asked for."""
    message = "the server could not find the requested resource"
    assert refused(lambda: patch(store, kind, {}, subresource=subresource)) == (404, "NotFound", message)


def test_a_status_needs_the_object(store: Store, now: datetime, job: Object) -> None:
    missing = edited(job, name="b", uid=None)
    do = lambda: store.replace(GENERIC_JOB, "b", missing, now, namespace="default", subresource="status")  # noqa: E731
    assert refused(do)[:2] == (404, "NotFound")


def test_the_spec_of_a_namespace_is_its_controllers(store: Store, now: datetime) -> None:
    before = store.get(NAMESPACE, "default")
    changed = store.patch(NAMESPACE, "default", {"spec": {"finalizers": []}, "status": {"phase": "Lost"}})
    assert changed == before
    assert before["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}


def test_nodes_have_a_status_and_no_generation(store: Store, now: datetime) -> None:
    store.create(NODE, {"metadata": {"name": "n"}}, now)
    store.patch(NODE, "n", {"spec": {"unschedulable": True}})
    node = store.patch(NODE, "n", {"status": {"phase": "X"}}, subresource="status")
    assert (node["status"], "generation" in node["metadata"]) == ({"phase": "X"}, False)


# ---- patches


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (MERGE_PATCH, {"data": {"k": None, "l": "w"}}),
        (STRATEGIC_MERGE_PATCH, {"data": {"k": None, "l": "w"}}),
        (JSON_PATCH, [{"op": "move", "from": "/data/k", "path": "/data/l"},
                      {"op": "replace", "path": "/data/l", "value": "w"}]),
    ],
    ids=["merge", "strategic", "JSON"],
)  # fmt: skip
def test_three_ways_to_patch(store: Store, config_map: Object, media_type: str, body: object) -> None:
    assert store.patch(CONFIG_MAP, "a", body, media_type, namespace="default")["data"] == {"l": "w"}
    assert config_map["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("kind", "media_type", "code", "words"),
    [
        (CONFIG_MAP, "application/json", 415, "Unsupported Media Type"),
        (
            GENERIC_JOB,
            STRATEGIC_MERGE_PATCH,
            415,
            "accepted media types include: application/json-patch+json",
        ),
        (CONFIG_MAP, APPLY_PATCH, 415, "Unsupported Media Type"),
        (CONFIG_MAP, MERGE_PATCH, 404, 'configmaps "x" not found'),
    ],
    ids=["no patch", "strategic for our kinds", "server-side apply", "nothing there"],
)
def test_patches_that_are_not_taken(store: Store, kind: Kind, media_type: str, code: int, words: str) -> None:
    got, _, message = refused(lambda: store.patch(kind, "x", {}, media_type, namespace="default"))
    assert (got, words in message) == (code, True), message


def test_a_patch_can_not_make_something_else_of_an_object(store: Store, config_map: Object) -> None:
    assert refused(lambda: patch(store, CONFIG_MAP, {"kind": "Pod"}))[0] == 422
    assert refused(lambda: patch(store, CONFIG_MAP, {"metadata": []}))[0] == 422
    assert refused(lambda: patch(store, CONFIG_MAP, []))[0] == 400


def test_a_patch_is_copied_too(store: Store, config_map: Object) -> None:
    body = {"data": {"k": "w"}}
    patch(store, CONFIG_MAP, body)
    body["data"]["k"] = "changed"
    assert store.get(CONFIG_MAP, "a", namespace="default")["data"] == {"k": "w"}
