"""The store answers as a real API server does: generated requests go to both, the answers are compared."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.apiserver import garbage
from bireme.apiserver.patches import MERGE_PATCH
from support.control_plane import ControlPlane
from support.store_witness import (
    CONFIG_MAPS,
    GENERIC_JOBS,
    KINDS,
    SPACE,
    Call,
    Kind,
    Model,
    Object,
    Real,
    Step,
    Witness,
    steps_of,
)

pytestmark = pytest.mark.xdist_group("control_plane")

CRD = Path(__file__).parents[2] / "deploy/crds/batch.tensorstack.dev_genericjobs.yaml"
LONG = settings().max_examples > 1000
EXAMPLES = settings(max_examples=1500 if LONG else 30)
numbers = itertools.count(1)


def wait_until(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane) -> Iterator[Real]:
    """The API server with the CRD and a namespace in which pods can be created."""
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: schedulers and kubelets would write too")
    control_plane.kubectl("apply", "-f", str(CRD))
    control_plane.kubectl("create", "namespace", SPACE)
    control_plane.kubectl("-n", SPACE, "wait", "--for=create", "serviceaccount/default", "--timeout=150s")
    server = Real(control_plane)
    wait_until(lambda: server.call(Call("GET", GENERIC_JOBS.collection)).code == 200)
    yield server
    server.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
@EXAMPLES
@given(data=st.data(), selector=st.sampled_from(["", "s=1", "s!=1"]))
def test_generated_requests_are_answered_alike(
    real: Real, kind: Kind, data: st.DataObject, selector: str
) -> None:
    steps = [Step("create", "a label"), *data.draw(st.lists(steps_of(kind), min_size=4, max_size=12))]
    number = next(numbers)
    theirs, ours = Witness(real, kind, number), Witness(Model(), kind, number)
    for each in steps:
        assert ours.take(each) == theirs.take(each), each
    # An object that every selector takes, so that the last event is known.
    last = Step("create", "a label" if selector == "s=1" else "another label", "z")
    assert ours.take(last) == theirs.take(last)
    told = ours.events({"resourceVersion": ours.start, "labelSelector": selector})
    params = {"resourceVersion": theirs.start, "labelSelector": selector}
    assert told == theirs.events(params, len(told))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"resourceVersion": "0"},
        {"labelSelector": "s=1"},
        {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        },
    ],
    ids=["without a version", "any version", "selected", "with initial events"],
)
def test_a_watch_begins_alike(real: Real, params: dict[str, str]) -> None:
    number = next(numbers)
    theirs, ours = Witness(real, CONFIG_MAPS, number), Witness(Model(), CONFIG_MAPS, number)
    for each in (
        Step("create", "a label", "b"),
        Step("create", "another label", "a"),
        Step("create", "a label", "c"),
    ):
        assert ours.take(each) == theirs.take(each)
    told = ours.events(params)
    assert told == theirs.events(params, len(told))


@pytest.mark.parametrize("selector", ["", "s=1", "s=2"], ids=["all", "the first half", "the second half"])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_are_cut_alike(real: Real, selector: str, limit: int) -> None:
    """Also when something goes between the pages: it is still in them."""
    number = next(numbers)
    # In a namespace where nothing else is: whatever follows a page shows in it.
    kind = GENERIC_JOBS._replace(collection=GENERIC_JOBS.collection.replace(SPACE, f"pages-{number}"))
    pages = []
    for side in (Model(), real):
        side.call(Call("POST", "/api/v1/namespaces", {"metadata": {"name": f"pages-{number}"}}))
        witness = Witness(side, kind, number)
        for name in "abcd":
            witness.take(Step("create", "a label" if name < "c" else "another label", name))
        pages.append(list(pages_of(witness, selector, limit)))
    assert pages[0] == pages[1]


def pages_of(witness: Witness, selector: str, limit: int) -> Iterator[Object]:
    call = Call("GET", witness.kind.collection, params={"labelSelector": selector, "limit": str(limit)})
    while call.params.get("continue") != "":
        yield witness.see(call)
        token = witness.side.call(call).body["metadata"].get("continue", "")
        witness.side.call(Call("DELETE", witness.path("d")))
        call = call._replace(params={**call.params, "continue": token})


OWNED: dict[str, tuple[dict[str, dict[str, bool]], str]] = {
    "Background": ({"child": {"owner": False}, "grandchild": {"child": False}}, "owner"),
    "Foreground": (
        {"child": {"owner": True}, "grandchild": {"child": True}, "loose": {"owner": False}},
        "owner",
    ),
    "Orphan": ({"child": {"owner": True}, "grandchild": {"child": True}}, "owner"),
    "Background, another owner": (
        {"child": {"owner": True, "other": True}, "only": {"owner": True}},
        "owner",
    ),
    "Foreground, another owner": (
        {"child": {"owner": True, "other": True}, "only": {"owner": True}},
        "owner",
    ),
    "Background, no owner at all": ({"child": {"nobody": True}}, ""),
}


@pytest.mark.parametrize("name", OWNED)
def test_garbage_goes_alike(real: Real, name: str) -> None:
    references, deleted = OWNED[name]
    number, model = next(numbers), Model()
    for side in (real, model):
        own(side, number, references)
        if deleted:
            options = {"propagationPolicy": name.partition(",")[0]}
            side.call(Call("DELETE", f"{CONFIG_MAPS.collection}/{number}-{deleted}", options))
    garbage.settle(model.store, model.now())
    wait_until(lambda: owners(real, number) == owners(model, number))
    assert owners(real, number) == owners(model, number)


def own(side: Real | Model, number: int, references: Mapping[str, Mapping[str, bool]]) -> None:
    """Create the objects, each after its owners."""
    uids = {"nobody": "00000000-0000-4000-8000-aaaaaaaaaaaa"}
    for name in ("owner", "other", *references):
        metadata = {"name": f"{number}-{name}", "labels": {"example": f"e{number}"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{number}-{owner}", "uid": uids[owner],
             "blockOwnerDeletion": blocks}
            for owner, blocks in references.get(name, {}).items()
        ]}  # fmt: skip
        created = side.call(Call("POST", CONFIG_MAPS.collection, {"metadata": metadata})).body
        uids[name] = created["metadata"]["uid"]


def owners(side: Real | Model, number: int) -> dict[str, tuple[list[str], list[str]]]:
    """Of each object that is left, its owners and its finalizers."""
    params = {"labelSelector": f"example=e{number}"}
    items = side.call(Call("GET", CONFIG_MAPS.collection, params=params)).body["items"]
    return {
        metadata["name"]: (
            [reference["name"] for reference in metadata.get("ownerReferences", ())],
            metadata.get("finalizers", []),
        )
        for metadata in (item["metadata"] for item in items)
    }


OBJECT = f"{CONFIG_MAPS.collection}/a"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
LEASE = {"metadata": {"name": "lease"}, "spec": {"holderIdentity": "a"}}
SCRIPTS: dict[str, list[Call]] = {
    "a namespace ends": [
        Call("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived", "labels": {"a": "b"}}}),
        Call("POST", "/api/v1/namespaces/short-lived/configmaps", {"metadata": {"name": "a"}}),
        Call("DELETE", "/api/v1/namespaces/short-lived"),
        Call("POST", "/api/v1/namespaces/short-lived/configmaps", {"metadata": {"name": "b"}}),
        Call("PATCH", "/api/v1/namespaces/short-lived/configmaps/a", {"data": {"a": "b"}}, MERGE_PATCH),
        Call("DELETE", "/api/v1/namespaces/short-lived"),
        Call("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived"}}),
        Call("DELETE", "/api/v1/namespaces/default"),
        Call("POST", "/api/v1/namespaces", {"metadata": {"name": "dotted.name"}}),
    ],
    "a replacement creates": [
        Call("PUT", f"{LEASES}/lease", LEASE),
        Call("PUT", f"{LEASES}/lease", LEASE),
        Call("DELETE", f"{LEASES}/lease"),
        Call("PUT", f"{LEASES}/lease", {"metadata": {"name": "lease", "uid": "other"}}),
    ],
    "what is not there": [
        Call("GET", "/api/v1/namespaces/nowhere/configmaps"),
        Call("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}),
        Call("GET", f"/api/v1/namespaces/{SPACE}/frobs"),
        Call("GET", f"/api/v1/namespaces/{SPACE}/configmaps/a/status"),
        Call("POST", f"/api/v1/namespaces/{SPACE}/configmaps/a", {}),
    ],
    "bodies of another kind": [
        Call("POST", CONFIG_MAPS.collection, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}),
        Call("POST", GENERIC_JOBS.collection, {"metadata": {"name": "a"}}),
        Call("POST", GENERIC_JOBS.collection, GENERIC_JOBS.head | {"kind": "Other"}),
        Call("POST", CONFIG_MAPS.collection, {"metadata": {}}),
        Call("PATCH", OBJECT, [], MERGE_PATCH),
        Call("PATCH", OBJECT, {}, "application/json"),
    ],
    "lists of versions": [
        Call("GET", CONFIG_MAPS.collection, params={"resourceVersionMatch": "Exact"}),
        Call("GET", CONFIG_MAPS.collection, params={"resourceVersion": "0", "resourceVersionMatch": "Exact"}),
        Call("GET", CONFIG_MAPS.collection, params={"resourceVersion": "1", "resourceVersionMatch": "Other"}),
        Call("GET", CONFIG_MAPS.collection, params={"limit": "nonsense"}),
    ],
    "deletions that can't be": [
        Call("DELETE", OBJECT, {"propagationPolicy": "Sideways"}),
        Call("DELETE", OBJECT, {"propagationPolicy": "Orphan", "orphanDependents": True}),
        Call("DELETE", OBJECT, params={"gracePeriodSeconds": "nonsense"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_answered_alike(real: Real, name: str) -> None:
    number = next(numbers)
    theirs, ours = Witness(real, CONFIG_MAPS, number), Witness(Model(), CONFIG_MAPS, number)
    for call in SCRIPTS[name]:
        assert ours.see(call) == theirs.see(call), call
