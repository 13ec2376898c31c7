"""A store shows what a dictionary would, its index agrees, and its changes add up."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.api.core import Pod
from bireme.kube.store import Change, Store
from unit.kube.scripted import pod

NAMES = st.sampled_from("abc")


def make(name: str, version: int, **fields: str) -> Pod:
    return msgspec.convert(pod(name, version, **fields), Pod)


pods = st.builds(
    make, NAMES, st.integers(1, 4), uid=st.sampled_from(["u1", "u2"]), owner=st.sampled_from(["", "o1", "o2"])
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), pods),
        st.tuples(st.just("remove"), pods),
        st.tuples(st.just("replace"), st.lists(pods, max_size=3)),
    )
)


@given(steps)
def test_whoever_follows_the_changes_knows_what_is_there(steps: list[tuple[str, Any]]) -> None:
    store: Store[Pod] = Store()
    followed: dict[str, Pod] = {}
    for verb, argument in steps:
        for old, new in getattr(store, verb)(argument):
            check(old, new, followed)
        assert {each.metadata.name: each for each in store.all()} == followed
        for owner in ("o1", "o2"):
            owned = [each for each in followed.values() if owner in owners(each)]
            assert sorted(store.by_owner(owner), key=name) == sorted(owned, key=name)


def check(old: Pod | None, new: Pod | None, followed: dict[str, Pod]) -> None:
    if old is not None:
        known = followed.pop(old.metadata.name)
        assert known.metadata.uid == old.metadata.uid
    if new is not None:
        assert new.metadata.name not in followed
        assert old is None or old.metadata.uid == new.metadata.uid
        assert old is None or old.metadata.resource_version != new.metadata.resource_version
        followed[new.metadata.name] = new


def owners(each: Pod) -> set[str]:
    return {owner.uid for owner in each.metadata.owner_references}


def name(each: Pod) -> str:
    return each.metadata.name


def test_an_object_of_another_uid_is_another_object() -> None:
    store: Store[Pod] = Store()
    first, second = make("a", 1, uid="u1"), make("a", 2, uid="u2")
    store.put(first)
    assert store.put(second) == [Change(first, None), Change(None, second)]


def test_the_deletion_of_a_predecessor_does_not_touch_its_successor() -> None:
    store: Store[Pod] = Store()
    store.put(make("a", 5, uid="u2"))
    assert store.remove(make("a", 4, uid="u1")) == []
    assert len(store) == 1


def test_what_vanished_is_told_before_what_came() -> None:
    store: Store[Pod] = Store()
    gone, came = make("a", 1), make("b", 2)
    store.put(gone)
    assert store.replace([came]) == [Change(gone, None), Change(None, came)]


def test_a_store_without_the_index_says_so() -> None:
    store: Store[Pod] = Store(index_by_owner=False)
    store.put(make("a", 1, owner="o1"))
    with pytest.raises(LookupError):
        store.by_owner("o1")
