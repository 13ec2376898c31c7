"""The garbage collector and the end of namespaces, round by round."""

from datetime import datetime
from typing import Any

import pytest

from bireme.apiserver.deletion import DeleteOptions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.garbage import collect, finish_namespaces, settle
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE, NODE, POD
from bireme.apiserver.store import Store

Object = dict[str, Any]


def create(
    store: Store,
    now: datetime,
    name: str,
    *owners: Object,
    block: bool = True,
    finalizers: tuple[str, ...] = (),
) -> Object:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
    return store.create(CONFIG_MAP, {"metadata": metadata}, now, namespace="default")


def delete(store: Store, now: datetime, name: str, policy: str | None = None) -> None:
    store.delete(CONFIG_MAP, name, now, DeleteOptions(propagation_policy=policy), namespace="default")


def left(store: Store) -> list[str]:
    return [obj["metadata"]["name"] for obj in store.list(CONFIG_MAP).items]


def owners_of(store: Store, name: str) -> list[str]:
    metadata = store.get(CONFIG_MAP, name, namespace="default")["metadata"]
    return [each["name"] for each in metadata.get("ownerReferences", ())]


def test_with_an_owner_nothing_happens(store: Store, now: datetime) -> None:
    create(store, now, "child", create(store, now, "owner"))
    assert collect(store, now) == 0


def test_in_the_background_dependents_go_after_their_owner(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    child = create(store, now, "child", owner)
    create(store, now, "grandchild", child)
    delete(store, now, "owner")
    assert left(store) == ["child", "grandchild"]
    collect(store, now)
    collect(store, now)
    assert left(store) == []
    assert collect(store, now) == 0


def test_in_the_foreground_an_owner_waits_for_dependents_that_block(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    create(store, now, "held", owner, finalizers=("example.com/f",))
    create(store, now, "child", owner)
    delete(store, now, "owner", "Foreground")
    settle(store, now)
    assert left(store) == ["held", "owner"]
    store.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, namespace="default")
    settle(store, now)
    assert left(store) == []


def test_in_the_foreground_dependents_that_do_not_block_go_too(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    create(store, now, "held", owner, block=False, finalizers=("example.com/f",))
    delete(store, now, "owner", "Foreground")
    settle(store, now)
    assert left(store) == ["held"]
    assert "deletionTimestamp" in store.get(CONFIG_MAP, "held", namespace="default")["metadata"]


def test_the_foreground_reaches_dependents_of_dependents(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    child = create(store, now, "child", owner)
    create(store, now, "held", child, finalizers=("example.com/f",))
    delete(store, now, "owner", "Foreground")
    settle(store, now)
    assert left(store) == ["child", "held", "owner"]
    assert store.get(CONFIG_MAP, "child", namespace="default")["metadata"]["finalizers"] == [
        "foregroundDeletion"
    ]


def test_orphans_stay_without_their_owner(store: Store, now: datetime) -> None:
    owner, other = create(store, now, "owner"), create(store, now, "other")
    create(store, now, "child", owner)
    create(store, now, "shared", owner, other)
    delete(store, now, "owner", "Orphan")
    settle(store, now)
    assert left(store) == ["child", "other", "shared"]
    assert (owners_of(store, "child"), owners_of(store, "shared")) == ([], ["other"])


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_another_owner_keeps_a_dependent(store: Store, now: datetime, policy: str) -> None:
    owner, other = create(store, now, "owner"), create(store, now, "other")
    create(store, now, "shared", owner, other)
    delete(store, now, "owner", policy)
    settle(store, now)
    assert left(store) == ["other", "shared"]
    assert owners_of(store, "shared") == ["other"]


def reference(kind: str, name: str, api_version: str = "v1") -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": "nobody"}}


def test_an_owner_that_never_was_makes_garbage(store: Store, now: datetime) -> None:
    create(store, now, "owner")
    create(store, now, "child", reference("ConfigMap", "nowhere"))
    create(store, now, "impostor", reference("ConfigMap", "owner"))
    collect(store, now)
    assert left(store) == ["owner"]


def test_an_owner_of_an_unknown_kind_leaves_doubt(store: Store, now: datetime) -> None:
    create(store, now, "child", reference("Frob", "x"), reference("ConfigMap", "nowhere"))
    assert collect(store, now) == 0
    assert left(store) == ["child"]


def test_an_owner_in_another_namespace_is_none(store: Store, now: datetime) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "other"}}, now)
    owner = store.create(CONFIG_MAP, {"metadata": {"name": "owner"}}, now, namespace="other")
    create(store, now, "child", owner)
    collect(store, now)
    assert left(store) == ["owner"]


def test_what_is_in_no_namespace_is_not_owned_by_what_is(store: Store, now: datetime) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    store.create(NODE, {"metadata": {"name": "n", "ownerReferences": [owner]}}, now)
    assert collect(store, now) == 0


def test_a_cluster_wide_owner_is_found_from_a_namespace(store: Store, now: datetime) -> None:
    node = store.create(NODE, {"metadata": {"name": "n"}}, now)
    create(store, now, "child", node)
    assert collect(store, now) == 0
    store.delete(NODE, "n", now)
    collect(store, now)
    assert left(store) == []


def test_objects_that_own_each_other_go_in_the_end(store: Store, now: datetime) -> None:
    one = create(store, now, "one")
    two = create(store, now, "two", one)
    back = {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": two["metadata"]["uid"],
            "blockOwnerDeletion": True}  # fmt: skip
    store.patch(CONFIG_MAP, "one", {"metadata": {"ownerReferences": [back]}}, namespace="default")
    delete(store, now, "one", "Foreground")
    settle(store, now)
    assert left(store) == []


def test_a_dependent_keeps_its_own_wish(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    child = create(store, now, "child", owner, finalizers=("orphan",))
    create(store, now, "grandchild", child)
    delete(store, now, "owner")
    settle(store, now)
    assert left(store) == ["grandchild"]


def test_dependent_pods_keep_their_grace(store: Store, now: datetime) -> None:
    owner = create(store, now, "owner")
    body = {
        "metadata": {
            "name": "pod",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            ],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    }
    store.create(POD, body, now, namespace="default")
    delete(store, now, "owner")
    settle(store, now)
    assert store.get(POD, "pod", namespace="default")["metadata"]["deletionGracePeriodSeconds"] == 30


# ---- namespaces


@pytest.fixture
def going(store: Store, now: datetime) -> str:
    store.create(NAMESPACE, {"metadata": {"name": "going"}}, now)
    return "going"


def test_a_deleted_namespace_is_terminating(store: Store, now: datetime, going: str) -> None:
    left = store.delete(NAMESPACE, going, now)
    assert (left.goes, left.obj["status"]) == (False, {"phase": "Terminating"})
    assert left.obj["metadata"]["deletionTimestamp"] == "2026-01-01T12:00:00Z"
    assert "deletionGracePeriodSeconds" not in left.obj["metadata"]
    assert store.delete(NAMESPACE, going, now).obj == left.obj


def test_an_empty_namespace_goes_in_one_round(store: Store, now: datetime, going: str) -> None:
    store.delete(NAMESPACE, going, now)
    assert finish_namespaces(store, now) == 1
    assert store.find(NAMESPACE, going) is None
    assert finish_namespaces(store, now) == 0


def test_a_namespace_waits_for_what_is_in_it(store: Store, now: datetime, going: str) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/f"]}}
    store.create(CONFIG_MAP, held, now, namespace=going)
    store.create(CONFIG_MAP, {"metadata": {"name": "free"}}, now, namespace=going)
    create(store, now, "elsewhere")
    store.delete(NAMESPACE, going, now)
    settle(store, now)
    assert left(store) == ["elsewhere", "held"]
    store.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, namespace=going)
    settle(store, now)
    assert (left(store), store.find(NAMESPACE, going)) == (["elsewhere"], None)


def test_a_namespace_with_a_finalizer_stays_when_it_is_empty(store: Store, now: datetime, going: str) -> None:
    store.patch(NAMESPACE, going, {"metadata": {"finalizers": ["example.com/f"]}})
    store.delete(NAMESPACE, going, now)
    settle(store, now)
    assert store.get(NAMESPACE, going)["spec"] == {}
    store.patch(NAMESPACE, going, {"metadata": {"finalizers": None}})
    assert store.find(NAMESPACE, going) is None


def test_some_namespaces_stay_for_ever(store: Store, now: datetime) -> None:
    with pytest.raises(StatusError) as refused:
        store.delete(NAMESPACE, "default", now)
    assert (refused.value.code, refused.value.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )
