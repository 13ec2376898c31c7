"""Creation: what the server fills in, and what it refuses."""

from datetime import datetime
from typing import Any

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE, NODE, OURS, POD, ROLE, SECRET, SERVICE, Kind
from bireme.apiserver.store import Store

(GENERIC_JOB,) = (kind for kind in OURS if kind.kind == "GenericJob")
JOB = {"apiVersion": GENERIC_JOB.api_version, "kind": "GenericJob"}


def refusal(store: Store, kind: Kind, body: object, now: datetime, namespace: str = "default") -> StatusError:
    before = store.version
    with pytest.raises(StatusError) as refused:
        store.create(kind, body, now, namespace=namespace)
    assert store.version == before
    return refused.value


def test_the_server_fills_in_metadata(store: Store, now: datetime) -> None:
    made = store.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"k": "v"}}, now, namespace="default")
    assert made == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "00000000-0000-4000-8000-000000000002",
            "resourceVersion": "3",
            "creationTimestamp": "2026-01-01T12:00:00Z",
        },
        "data": {"k": "v"},
    }
    assert store.get(CONFIG_MAP, "a", namespace="default") == made


def test_what_is_the_servers_to_say_is_not_taken_from_the_creator(store: Store, now: datetime) -> None:
    metadata = {
        "name": "a",
        "uid": "mine",
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "generation": 7,
        "managedFields": [{"manager": "me"}],
        "selfLink": "/a",
        "labels": {},
        "finalizers": None,
    }
    made = store.create(GENERIC_JOB, {**JOB, "metadata": metadata, "status": {"phase": "Running"}}, now,
                        namespace="default")  # fmt: skip
    assert made["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "00000000-0000-4000-8000-000000000002",
        "resourceVersion": "3",
        "generation": 1,
        "creationTimestamp": "2026-01-01T12:00:00Z",
    }
    assert "status" not in made


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (POD, {"spec": {"containers": [{"name": "c"}]}}, {"phase": "Pending", "qosClass": "BestEffort"}),
        (NAMESPACE, {}, {"phase": "Active"}),
        (SERVICE, {}, {"loadBalancer": {}}),
        (NODE, {}, {"phase": "Mine"}),
    ],
    ids=["pods are pending", "namespaces are active", "services balance nothing", "nodes say it themselves"],
)
def test_the_first_status_is_the_kinds_own(
    store: Store, now: datetime, kind: Kind, body: dict[str, Any], status: dict[str, Any]
) -> None:
    namespace = "default" if kind.namespaced else ""
    full = {"metadata": {"name": "a"}, "status": {"phase": "Mine"}, **body}
    assert store.create(kind, full, now, namespace=namespace)["status"] == status


def test_generated_names_take_the_next_free_suffix(now: datetime) -> None:
    suffixes = iter(["bbbbb", "bbbbb", "ccccc"])
    store = Store(suffix=lambda: next(suffixes))
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    body = {"metadata": {"generateName": "job-"}}
    names = [store.create(CONFIG_MAP, body, now, namespace="default")["metadata"]["name"] for _ in range(2)]
    assert names == ["job-bbbbb", "job-ccccc"]


def test_a_long_prefix_is_cut_so_that_the_name_fits(store: Store, now: datetime) -> None:
    made = store.create(CONFIG_MAP, {"metadata": {"generateName": "x" * 70}}, now, namespace="default")
    assert len(made["metadata"]["name"]) == 63


def test_names_that_are_all_taken_are_a_conflict_worth_a_retry(now: datetime) -> None:
    store = Store(suffix=lambda: "bbbbb")
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    body = {"metadata": {"generateName": "job-"}}
    store.create(CONFIG_MAP, body, now, namespace="default")
    error = refusal(store, CONFIG_MAP, body, now)
    assert (error.code, error.reason) == (409, "AlreadyExists")
    assert "was not able to generate a unique name" in error.message
    assert error.status["details"]["retryAfterSeconds"] == 1


def test_a_name_is_taken_once(store: Store, now: datetime) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["example.com/f"]}}
    store.create(CONFIG_MAP, body, now, namespace="default")
    error = refusal(store, CONFIG_MAP, body, now)
    assert error.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 409,
    }
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    assert refusal(store, CONFIG_MAP, body, now).message == (
        'object is being deleted: configmaps "a" already exists'
    )


def test_a_namespace_must_be_there(store: Store, now: datetime) -> None:
    error = refusal(store, CONFIG_MAP, {"metadata": {"name": "a"}}, now, "nowhere")
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')


def test_a_terminating_namespace_takes_nothing_new(store: Store, now: datetime) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "going"}}, now)
    store.delete(NAMESPACE, "going", now)
    error = refusal(store, GENERIC_JOB, {**JOB, "metadata": {"name": "a"}}, now, "going")
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'genericjobs.batch.tensorstack.dev "a" is forbidden: unable to create new content in namespace going'
        " because it is being terminated"
    )
    assert error.status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace going is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize(
    ("metadata", "field", "words"),
    [
        ({}, "metadata.name", "Required value: name or generateName is required"),
        ({"name": "A_b"}, "metadata.name", "a lowercase RFC 1123 subdomain must consist of"),
        ({"name": "x" * 254}, "metadata.name", "must be no more than 253 bytes"),
        ({"generateName": "Ab-"}, "metadata.generateName", 'Invalid value: "Ab-"'),
        ({"name": "a", "labels": {"a b": ""}}, "metadata.labels", "name part must consist of"),
        ({"name": "a", "labels": {"/a": ""}}, "metadata.labels", "prefix part must be non-empty"),
        ({"name": "a", "labels": {"a/b/c": ""}}, "metadata.labels", "a valid label key must consist of"),
        ({"name": "a", "labels": {"a": "x" * 64}}, "metadata.labels", "must be no more than 63 bytes"),
        ({"name": "a", "labels": {"a": "-"}}, "metadata.labels", "a valid label must be an empty string or"),
        ({"name": "a", "annotations": {"a b": ""}}, "metadata.annotations", "name part must consist of"),
        (
            {"name": "a", "annotations": {"a": "x" * 262144}},
            "metadata.annotations",
            "Too long: may not be more",
        ),
        ({"name": "a", "finalizers": ["a b"]}, "metadata.finalizers", "name part must consist of"),
        ({"name": "a", "finalizers": ["short"]}, "metadata.finalizers[0]", "nor is it fully qualified"),
        ({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "both set"),
        (
            {"name": "a", "ownerReferences": [{"kind": "K", "name": "n", "uid": "u"}]},
            "metadata.ownerReferences.apiVersion",
            'Invalid value: "": version must not be empty',
        ),
        (
            {
                "name": "a",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": True}
                    for name in ("x", "y")
                ],
            },
            "metadata.ownerReferences",
            'Found "true" in references for K/x and K/y',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_metadata_is_named(
    store: Store, now: datetime, metadata: dict[str, Any], field: str, words: str
) -> None:
    error = refusal(store, CONFIG_MAP, {"metadata": metadata}, now)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith(
        f'ConfigMap "{metadata.get("name", error.status["details"].get("name", ""))}" is'
    )
    named = {cause["field"]: cause["message"] for cause in error.status["details"]["causes"]}
    assert words in named[field]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (NAMESPACE, "a.b", "must not contain dots"),
        (NAMESPACE, "A", "a lowercase RFC 1123 label must consist of"),
        (SERVICE, "x" * 64, "must be no more than 63 bytes"),
        (ROLE, "a/b", "may not contain '/'"),
        (ROLE, "..", "may not be '..'"),
    ],
    ids=["dots", "capitals", "too long", "a slash", "a way up"],
)
def test_some_kinds_have_rules_of_their_own_for_names(
    store: Store, now: datetime, kind: Kind, name: str, words: str
) -> None:
    error = refusal(store, kind, {"metadata": {"name": name}}, now)
    assert (error.code, words in error.message) == (422, True), error.message


def test_roles_may_have_colons_in_their_names(store: Store, now: datetime) -> None:
    made = store.create(ROLE, {"metadata": {"name": "system:Role"}}, now, namespace="default")
    assert made["metadata"]["name"] == "system:Role"


def test_what_says_nothing_is_left_out(store: Store, now: datetime) -> None:
    metadata = {"name": "a", "generation": 0, "labels": {"k": None}, "annotations": {}, "ownerReferences": []}
    made = store.create(CONFIG_MAP, {"metadata": metadata, "data": {}}, now, namespace="default")
    assert made["metadata"]["labels"] == {"k": ""}
    assert not made["metadata"].keys() & {"generation", "annotations", "ownerReferences"}
    assert "data" not in made


def test_all_problems_are_told_at_once(store: Store, now: datetime) -> None:
    error = refusal(store, CONFIG_MAP, {"metadata": {"name": "A", "labels": {"a b": "c d"}}}, now)
    assert [cause["field"] for cause in error.status["details"]["causes"]] == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
    ]
    assert error.message.startswith(
        'ConfigMap "A" is invalid: [metadata.name: Invalid value: "A": a lowercase'
    )
    assert error.message.endswith("]")


def test_our_kinds_may_have_any_finalizer(store: Store, now: datetime) -> None:
    body = {**JOB, "metadata": {"name": "a", "finalizers": ["short"]}}
    assert store.create(GENERIC_JOB, body, now, namespace="default")["metadata"]["finalizers"] == ["short"]


@pytest.mark.parametrize(
    ("kind", "body", "code", "words"),
    [
        (CONFIG_MAP, {"kind": "Pod", "metadata": {"name": "a"}}, 400, "cannot be handled as a ConfigMap"),
        (CONFIG_MAP, {"apiVersion": "v2", "metadata": {"name": "a"}}, 400, "cannot be handled as"),
        (CONFIG_MAP, [], 400, "cannot be handled as a ConfigMap"),
        (CONFIG_MAP, {"metadata": {"name": 1}}, 400, "Expected `str | null`, got `int` - at `$.name`"),
        (CONFIG_MAP, {"metadata": {"name": "a", "labels": {"a": 1}}}, 400, "at `$.labels[...]`"),
        (CONFIG_MAP, {"metadata": {"name": "a", "namespace": "other"}}, 400, "does not match the namespace"),
        (CONFIG_MAP, {"metadata": {"name": "a", "resourceVersion": "5"}}, 500, "should not be set on"),
        (CONFIG_MAP, {"metadata": {"name": object()}}, 400, "cannot be handled as a ConfigMap"),
        (GENERIC_JOB, {"metadata": {"name": "a"}}, 400, "Object 'Kind' is missing"),
        (GENERIC_JOB, {"kind": "MPIJob", "metadata": {"name": "a"}}, 422, "must be GenericJob"),
    ],
    ids=["kind", "version", "list", "name", "label", "namespace", "version set", "no JSON", "no kind",
         "our kind"],
)  # fmt: skip
def test_a_body_that_is_something_else_is_refused(
    store: Store, now: datetime, kind: Kind, body: object, code: int, words: str
) -> None:
    error = refusal(store, kind, body, now)
    assert (error.code, words in error.message) == (code, True), error.message


def test_the_same_owner_twice_is_one_owner(store: Store, now: datetime) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    body = {"metadata": {"name": "a", "ownerReferences": [owner, dict(owner)]}}
    assert store.create(CONFIG_MAP, body, now, namespace="default")["metadata"]["ownerReferences"] == [owner]


def test_what_the_writer_keeps_is_not_what_is_stored(store: Store, now: datetime) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"k": "v"}}
    store.create(CONFIG_MAP, body, now, namespace="default")
    body["data"]["k"] = "changed"
    body["metadata"]["labels"]["k"] = "changed"
    stored = store.get(CONFIG_MAP, "a", namespace="default")
    assert (stored["data"], stored["metadata"]["labels"]) == ({"k": "v"}, {"k": "v"})


def test_string_data_of_a_secret_is_written_and_never_read(store: Store, now: datetime) -> None:
    body = {"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"l": "dw=="}}
    made = store.create(SECRET, body, now, namespace="default")
    assert (made["data"], made["type"], "stringData" in made) == ({"l": "dw==", "k": "dg=="}, "Opaque", False)
