"""Deletion: preconditions, finalizers, the grace of pods, and how dependents are to go."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from bireme.apiserver.deletion import DeleteOptions, Preconditions, read_options
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, EVENT, OURS, POD
from bireme.apiserver.lists import Query
from bireme.apiserver.store import Store

(GENERIC_JOB,) = (kind for kind in OURS if kind.kind == "GenericJob")

Object = dict[str, Any]


def config_map(store: Store, now: datetime, **metadata: Any) -> Object:
    return store.create(CONFIG_MAP, {"metadata": {"name": "a", **metadata}}, now, namespace="default")


def running_pod(store: Store, now: datetime, **metadata: Any) -> Object:
    body = {
        "metadata": {"name": "a", **metadata},
        "spec": {"nodeName": "node", "containers": [{"name": "c"}], "terminationGracePeriodSeconds": 30},
    }
    return store.create(POD, body, now, namespace="default")


def events_of(store: Store, version: str) -> list[str]:
    return [event.type for event in store.watch(POD, Query(resource_version=version)).poll()]


def test_an_object_without_finalizers_goes_at_once(store: Store, now: datetime) -> None:
    made = config_map(store, now)
    gone = store.delete(CONFIG_MAP, "a", now, namespace="default")
    assert gone.goes
    assert gone.obj["metadata"] == made["metadata"] | {"resourceVersion": "4"}
    assert store.find(CONFIG_MAP, "a", namespace="default") is None
    with pytest.raises(StatusError, match='configmaps "a" not found'):
        store.delete(CONFIG_MAP, "a", now, namespace="default")


@pytest.mark.parametrize(
    ("preconditions", "why"),
    [
        (Preconditions("x"), "the UID in the precondition (x) does not match the UID in record (00000000"),
        (Preconditions(None, "1"), "the ResourceVersion in the precondition (1) does not match"),
    ],
    ids=["uid", "version"],
)
def test_preconditions_must_hold(store: Store, now: datetime, preconditions: Preconditions, why: str) -> None:
    config_map(store, now)
    with pytest.raises(StatusError) as refused:
        store.delete(CONFIG_MAP, "a", now, DeleteOptions(preconditions=preconditions), namespace="default")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message.startswith(f'Operation cannot be fulfilled on ConfigMap "a": {why}')
    assert store.find(CONFIG_MAP, "a", namespace="default") is not None


def test_preconditions_that_hold_do_no_harm(store: Store, now: datetime) -> None:
    metadata = config_map(store, now)["metadata"]
    wanted = Preconditions(metadata["uid"], metadata["resourceVersion"])
    assert store.delete(CONFIG_MAP, "a", now, DeleteOptions(preconditions=wanted), namespace="default").goes


def test_an_object_waits_for_its_finalizers(store: Store, now: datetime) -> None:
    config_map(store, now, finalizers=["example.com/f", "example.com/g"])
    left = store.delete(CONFIG_MAP, "a", now, namespace="default")
    assert not left.goes
    assert left.obj["metadata"]["deletionTimestamp"] == "2026-01-01T12:00:00Z"
    assert left.obj["metadata"]["deletionGracePeriodSeconds"] == 0
    again = store.delete(CONFIG_MAP, "a", now + timedelta(seconds=5), namespace="default")
    assert again.obj == left.obj

    one = {"metadata": {"finalizers": ["example.com/g"]}}
    store.patch(CONFIG_MAP, "a", one, namespace="default")
    last = store.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, namespace="default")
    assert "finalizers" not in last["metadata"]
    assert store.find(CONFIG_MAP, "a", namespace="default") is None


def test_the_last_one_to_leave_is_seen_as_it_was_stored(store: Store, now: datetime) -> None:
    config_map(store, now, finalizers=["example.com/f"])
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    watcher = store.watch(CONFIG_MAP, Query(resource_version=str(store.version)))
    store.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}, "data": {"k": "v"}}, namespace="default")
    (event,) = watcher.poll()
    assert (event.type, "data" in event.object) == ("DELETED", False)
    assert event.object["metadata"]["finalizers"] == ["example.com/f"]
    assert event.object["metadata"]["resourceVersion"] == str(store.version)


def test_no_finalizer_is_added_to_what_goes(store: Store, now: datetime) -> None:
    config_map(store, now, finalizers=["example.com/f"])
    store.delete(CONFIG_MAP, "a", now, namespace="default")
    more = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
    with pytest.raises(StatusError) as refused:
        store.patch(CONFIG_MAP, "a", more, namespace="default")
    assert refused.value.message == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the'
        ' object is being deleted, found new finalizers []string{"example.com/g"}'
    )


def test_deletion_is_a_change_of_generation_where_there_is_one(store: Store, now: datetime) -> None:
    body = {
        "apiVersion": GENERIC_JOB.api_version,
        "kind": "GenericJob",
        "metadata": {"name": "a", "finalizers": ["example.com/f"]},
    }
    store.create(GENERIC_JOB, body, now, namespace="default")
    for _ in range(2):
        left = store.delete(GENERIC_JOB, "a", now, namespace="default")
        assert left.obj["metadata"]["generation"] == 2


# ---- pods


def test_a_running_pod_stays_until_somebody_deletes_it_without_grace(store: Store, now: datetime) -> None:
    made = running_pod(store, now)
    left = store.delete(POD, "a", now, namespace="default")
    assert not left.goes
    assert left.obj["metadata"]["deletionTimestamp"] == "2026-01-01T12:00:30Z"
    assert left.obj["metadata"]["deletionGracePeriodSeconds"] == 30
    assert left.obj["metadata"]["generation"] == 2
    gone = store.delete(POD, "a", now, DeleteOptions(grace_period_seconds=0), namespace="default")
    assert gone.goes
    assert gone.obj["metadata"]["deletionGracePeriodSeconds"] == 0
    assert events_of(store, made["metadata"]["resourceVersion"]) == ["MODIFIED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {}),
        ({"nodeName": "node"}, {"phase": "Succeeded"}),
        ({"nodeName": "node"}, {"phase": "Failed"}),
        ({"nodeName": "node", "terminationGracePeriodSeconds": 0}, {}),
    ],
    ids=["not scheduled", "succeeded", "failed", "without grace"],
)
def test_pods_with_nothing_to_stop_go_at_once(
    store: Store, now: datetime, spec: Object, status: Object
) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], **spec}}
    made = store.create(POD, body, now, namespace="default")
    store.patch(POD, "a", {"status": status}, namespace="default", subresource="status")
    version = str(store.version)
    gone = store.delete(POD, "a", now, DeleteOptions(grace_period_seconds=60 if spec == {} else None),
                        namespace="default")  # fmt: skip
    assert gone.goes
    assert events_of(store, version) == ["MODIFIED", "DELETED"]
    assert gone.obj["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    ("second", "later", "grace", "end"),
    [
        (None, 1, 30, "12:00:30"),
        (60, 1, 30, "12:00:30"),
        (30, 1, 30, "12:00:30"),
        (10, 1, 10, "12:00:10"),
        (10, 20, 1, "12:00:20"),
        (-5, 0, 1, "12:00:01"),
    ],
    ids=["unsaid", "longer", "the same", "shorter", "shorter than what has passed", "negative"],
)
def test_a_second_deletion_only_shortens_the_grace(
    store: Store, now: datetime, second: int | None, later: int, grace: int, end: str
) -> None:
    running_pod(store, now)
    store.delete(POD, "a", now, namespace="default")
    options = DeleteOptions(grace_period_seconds=second)
    left = store.delete(POD, "a", now + timedelta(seconds=later), options, namespace="default")
    assert not left.goes
    assert left.obj["metadata"]["deletionGracePeriodSeconds"] == grace
    assert left.obj["metadata"]["deletionTimestamp"] == f"2026-01-01T{end}Z"
    assert left.obj["metadata"]["generation"] == 2


def test_a_pod_waits_for_its_finalizers_and_its_grace(store: Store, now: datetime) -> None:
    running_pod(store, now, finalizers=["example.com/f"])
    store.delete(POD, "a", now, namespace="default")
    store.patch(POD, "a", {"metadata": {"finalizers": None}}, namespace="default")
    assert store.find(POD, "a", namespace="default") is not None
    assert store.delete(POD, "a", now, DeleteOptions(grace_period_seconds=0), namespace="default").goes


def test_a_pod_without_grace_left_goes_with_its_last_finalizer(store: Store, now: datetime) -> None:
    running_pod(store, now, finalizers=["example.com/f"])
    for grace in (None, 0, 5):
        options = DeleteOptions(grace_period_seconds=grace)
        assert not store.delete(POD, "a", now, options, namespace="default").goes
    store.patch(POD, "a", {"metadata": {"finalizers": None}}, namespace="default")
    assert store.find(POD, "a", namespace="default") is None


# ---- how dependents are to go


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        ([], {}, None),
        ([], {"propagation_policy": "Background"}, None),
        ([], {"propagation_policy": "Foreground"}, ["foregroundDeletion"]),
        ([], {"propagation_policy": "Orphan"}, ["orphan"]),
        ([], {"orphan_dependents": True}, ["orphan"]),
        ([], {"orphan_dependents": False}, None),
        (["orphan"], {}, ["orphan"]),
        (["orphan"], {"propagation_policy": "Background"}, None),
        (["example.com/f"], {"propagation_policy": "Foreground"}, ["example.com/f", "foregroundDeletion"]),
        (["foregroundDeletion", "example.com/f"], {"propagation_policy": "Background"}, ["example.com/f"]),
    ],
    ids=["unsaid", "background", "foreground", "orphan", "old orphan", "old background", "already orphan",
         "no longer orphan", "foreground beside others", "no longer foreground"],
)  # fmt: skip
def test_the_policy_is_left_to_the_garbage_collector_as_a_finalizer(
    store: Store, now: datetime, before: list[str], options: Object, after: list[str] | None
) -> None:
    config_map(store, now, finalizers=before)
    left = store.delete(CONFIG_MAP, "a", now, DeleteOptions(**options), namespace="default")
    assert left.goes is (after is None)
    if after is not None:
        assert left.obj["metadata"]["finalizers"] == after


def test_events_own_nothing(store: Store, now: datetime) -> None:
    store.create(EVENT, {"metadata": {"name": "a"}}, now, namespace="default")
    assert store.delete(
        EVENT, "a", now, DeleteOptions(propagation_policy="Foreground"), namespace="default"
    ).goes


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"propagationPolicy": "x"}, 422, 'supported values: "Foreground", "Background", "Orphan", "nil"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"gracePeriodSeconds": "x"}, 400, "Expected `int | null`, got `str`"),
    ],
    ids=["policy", "two policies", "grace"],
)
def test_options_that_are_refused(body: Object, code: int, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        read_options(body)
    assert (refused.value.code, words in refused.value.message) == (code, True), refused.value.message


def test_options_are_read_as_they_are_sent() -> None:
    body = {"kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": None}
    assert read_options(body) == DeleteOptions(grace_period_seconds=0, preconditions=Preconditions("u"))


def test_a_collection_goes_by_selector(store: Store, now: datetime) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        store.create(
            CONFIG_MAP, {"metadata": {"name": name, "labels": {"l": label}}}, now, namespace="default"
        )
    page = store.delete_collection(CONFIG_MAP, now, query=Query(label_selector="l=x"), namespace="default")
    assert [obj["metadata"]["name"] for obj in page.items] == ["a", "c"]
    assert [obj["metadata"]["name"] for obj in store.list(CONFIG_MAP).items] == ["b"]
