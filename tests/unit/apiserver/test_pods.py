"""Pods: what may change, binding, eviction."""

from datetime import datetime
from typing import Any

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD
from bireme.apiserver.pods import quality_of_service
from bireme.apiserver.store import Store
from bireme.apiserver.subresources import bind, evict

Object = dict[str, Any]
BINDING = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node"}}


@pytest.fixture
def pod(store: Store, now: datetime) -> Object:
    return create(store, now)


def create(store: Store, now: datetime, **spec: Any) -> Object:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return store.create(POD, body, now, namespace="default")


def write_spec(store: Store, spec: Object) -> Object:
    return store.patch(POD, "a", {"spec": spec}, namespace="default")


def write_status(store: Store, status: Object) -> Object:
    return store.patch(POD, "a", {"status": status}, namespace="default", subresource="status")


def test_a_pod_needs_containers(store: Store, now: datetime) -> None:
    with pytest.raises(StatusError, match=r'Pod "z" is invalid: spec\.containers: Required value'):
        store.create(POD, {"metadata": {"name": "z"}, "spec": {}}, now, namespace="default")


def test_a_pod_has_a_generation_and_some_defaults(pod: Object) -> None:
    assert pod["metadata"]["generation"] == 1
    assert (pod["spec"]["restartPolicy"], pod["spec"]["terminationGracePeriodSeconds"]) == ("Always", 30)


def test_defaults_need_not_be_repeated(store: Store, now: datetime, pod: Object) -> None:
    short = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert store.replace(POD, "a", short, now, namespace="default") == pod


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "image": "j"}]},
        {"activeDeadlineSeconds": 5},
        {"tolerations": [{"key": "t"}, {"key": "u"}]},
        {"tolerations": [{"key": "t", "tolerationSeconds": 5}]},
        {"schedulingGates": []},
    ],
    ids=["image", "deadline", "one more toleration", "a toleration's seconds", "gates"],
)
def test_what_may_change_of_a_spec(store: Store, now: datetime, change: Object) -> None:
    create(store, now, tolerations=[{"key": "t"}], schedulingGates=[{"name": "g"}])
    assert write_spec(store, change)["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"nodeName": "x"}, "spec", "pod updates may not change fields other than `spec.containers"),
        ({"containers": [{"name": "d", "image": "i"}]}, "spec", "pod updates may not change fields"),
        ({"containers": []}, "spec.containers", "pod updates may not add or remove containers"),
        ({"activeDeadlineSeconds": 9}, "spec.activeDeadlineSeconds", "must be less than or equal to"),
        ({"activeDeadlineSeconds": None}, "spec.activeDeadlineSeconds", "must not update from a positive"),
        ({"tolerations": []}, "spec.tolerations", "existing toleration can not be modified"),
        ({"schedulingGates": [{"name": "h"}]}, "spec.schedulingGates[0].name", "only deletion is allowed"),
        ({"terminationGracePeriodSeconds": 5}, "spec", "pod updates may not change fields"),
    ],
    ids=["node", "container", "fewer containers", "later deadline", "no deadline", "toleration", "gate",
         "grace"],
)  # fmt: skip
def test_what_may_not_change_of_a_spec(
    store: Store, now: datetime, change: Object, field: str, words: str
) -> None:
    create(store, now, activeDeadlineSeconds=5, tolerations=[{"key": "t"}], schedulingGates=[{"name": "g"}])
    with pytest.raises(StatusError) as refused:
        write_spec(store, change)
    (cause,) = refused.value.status["details"]["causes"]
    assert (refused.value.code, cause["field"]) == (422, field)
    assert words in cause["message"]


def test_a_negative_grace_can_be_mended(store: Store, now: datetime) -> None:
    create(store, now, terminationGracePeriodSeconds=-1)
    changed = write_spec(store, {"terminationGracePeriodSeconds": 1})
    assert changed["spec"]["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("policy", "exit_code", "allowed"),
    [("Always", 0, True), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Never", 1, False)],
)
def test_a_container_that_ended_runs_again_only_where_it_may(
    store: Store, now: datetime, policy: str, exit_code: int, allowed: bool
) -> None:
    create(store, now, restartPolicy=policy)
    ended = {"name": "c", "state": {"terminated": {"exitCode": exit_code}}}
    write_status(store, {"containerStatuses": [ended]})
    running = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    if allowed:
        assert write_status(store, running)["status"]["containerStatuses"] == running["containerStatuses"]
    else:
        with pytest.raises(StatusError, match="may not be transitioned to non-terminated state"):
            write_status(store, running)


def test_owners_survive_a_write_of_the_status(store: Store, now: datetime, pod: Object) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    store.patch(POD, "a", {"metadata": {"ownerReferences": [owner]}}, namespace="default")
    body = {"metadata": {"ownerReferences": None}, "status": {"phase": "Running"}}
    written = store.patch(POD, "a", body, namespace="default", subresource="status")
    assert written["metadata"]["ownerReferences"] == [owner]


def test_the_quality_of_service_stays(store: Store, pod: Object) -> None:
    with pytest.raises(StatusError, match=r'status\.qosClass: Invalid value: "Guaranteed": field is'):
        write_status(store, {"qosClass": "Guaranteed"})
    assert write_status(store, {"qosClass": None, "phase": "Running"})["status"]["qosClass"] == "BestEffort"


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"nvidia.com/gpu": 1}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": BOTH}], "Guaranteed"),
        ([{"limits": BOTH, "requests": BOTH}], "Guaranteed"),
        ([{"limits": BOTH, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"limits": BOTH}, {}], "Burstable"),
    ],
    ids=["nothing", "only others", "a request", "limits", "both alike", "less", "one without"],
)
def test_the_quality_of_service_follows_from_the_resources(resources: list[Object], expected: str) -> None:
    assert quality_of_service({"containers": [{"resources": each} for each in resources]}) == expected


# ---- binding


def test_a_bound_pod_is_scheduled(store: Store, now: datetime, pod: Object) -> None:
    binding = BINDING | {"metadata": {"name": "a", "labels": {"zone": "z"}, "annotations": {"n": "1"}}}
    bound = bind(store, "a", binding, now, namespace="default")
    assert bound["spec"] == pod["spec"] | {"nodeName": "node"}
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]
    assert (bound["metadata"]["labels"], bound["metadata"]["annotations"]) == ({"zone": "z"}, {"n": "1"})
    assert bound["metadata"]["generation"] == 1


@pytest.mark.parametrize("node", ["node", "other"])
def test_a_pod_is_bound_once(store: Store, now: datetime, pod: Object, node: str) -> None:
    bind(store, "a", BINDING, now, namespace="default")
    with pytest.raises(StatusError) as refused:
        bind(store, "a", BINDING | {"target": {"name": node}}, now, namespace="default")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "node"'
    )


def test_a_gated_pod_is_not_bound(store: Store, now: datetime) -> None:
    create(store, now, schedulingGates=[{"name": "g"}])
    with pytest.raises(StatusError, match=r"pod a has non-empty \.spec\.schedulingGates"):
        bind(store, "a", BINDING, now, namespace="default")


def test_a_pod_that_goes_is_not_bound(store: Store, now: datetime, pod: Object) -> None:
    store.patch(POD, "a", {"metadata": {"finalizers": ["example.com/f"]}}, namespace="default")
    store.delete(POD, "a", now, namespace="default")
    with pytest.raises(StatusError, match="pod a is being deleted, cannot be assigned to a host"):
        bind(store, "a", BINDING, now, namespace="default")


@pytest.mark.parametrize(
    ("binding", "code", "words"),
    [
        ({"metadata": {"name": "b"}, "target": {"name": "n"}}, 400, "name in URL does not match"),
        ([], 400, "name in URL does not match"),
        (b"{nope", 400, "malformed"),
        ({"metadata": {"name": "a"}}, 500, "target.name: Required value"),
        (BINDING | {"metadata": {"name": "a", "uid": "x"}}, 409, "UID in precondition: x"),
        (BINDING | {"metadata": {"name": "a", "resourceVersion": "1"}}, 409, "has been modified"),
    ],
    ids=["another name", "no object", "no JSON", "no target", "another UID", "another version"],
)
def test_bindings_that_are_refused(
    store: Store, now: datetime, pod: Object, binding: object, code: int, words: str
) -> None:
    with pytest.raises(StatusError) as refused:
        bind(store, "a", binding, now, namespace="default")
    assert (refused.value.code, words in refused.value.message) == (code, True), refused.value.message


# ---- eviction


def test_an_evicted_pod_says_so_and_goes(store: Store, now: datetime, pod: Object) -> None:
    bind(store, "a", BINDING, now, namespace="default")
    left = evict(store, "a", {"metadata": {"name": "a"}}, now, namespace="default")
    assert not left.goes
    assert left.obj["metadata"]["deletionGracePeriodSeconds"] == 30
    assert left.obj["status"]["conditions"][1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T12:00:00Z",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


def test_an_eviction_takes_options_of_deletion(store: Store, now: datetime, pod: Object) -> None:
    version = pod["metadata"]["resourceVersion"]
    stale = {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}}
    with pytest.raises(StatusError, match="does not match the ResourceVersion in record"):
        evict(store, "a", stale, now, namespace="default")
    current = {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"resourceVersion": version}}}
    assert evict(store, "a", current, now, namespace="default").goes
