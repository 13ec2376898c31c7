"""The three sorts of patches, on plain documents."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD, SERVICE, SERVICE_ACCOUNT, Kind
from bireme.apiserver.patches import MOST_OPERATIONS, json_patch, merge_patch
from bireme.apiserver.strategic import merge

Object = dict[str, Any]

# The cases of RFC 7386, appendix A.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    # Beyond the RFC, as a server does it.
    ({"a": 1}, {"a": [None, {"b": None, "c": [{"d": None}]}]}, {"a": [None, {"c": [{}]}]}),
    ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
]


@pytest.mark.parametrize(("document", "patch", "expected"), MERGES)
def test_merge_patches_follow_the_rfc(document: Any, patch: Any, expected: Any) -> None:
    before = deepcopy(document)
    assert merge_patch(document, patch) == expected
    assert document == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


NO_NULLS = st.recursive(
    st.booleans() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
PATCHES = st.recursive(
    st.none() | NO_NULLS, lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=8
)


@given(JSON, PATCHES)
def test_merging_the_same_patch_twice_is_merging_it_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


OPERATIONS: dict[str, tuple[Any, list[Object], Any]] = {
    "add a field": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "add to a list": ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    "add at the end": ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
    "append": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "add before the end": ({"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    "replace": ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": 2}], {"a": {"b": 2}}),
    "replace what is not there": ({}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    "replace all": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    "remove": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "move": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    "copy": ({"a": [1]}, [{"op": "copy", "from": "/a/0", "path": "/a/-"}], {"a": [1, 1]}),
    "test": ({"a": [1]}, [{"op": "test", "path": "/a", "value": [1]}], {"a": [1]}),
    "escapes": ({"a/b": {"c~d": 1}}, [{"op": "remove", "path": "/a~1b/c~0d"}], {"a/b": {}}),
    "one after the other": (
        {},
        [{"op": "add", "path": "/a", "value": []}, {"op": "add", "path": "/a/-", "value": 1}],
        {"a": [1]},
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_json_patches(name: str) -> None:
    document, operations, expected = OPERATIONS[name]
    before = deepcopy(document)
    assert json_patch(document, operations) == expected
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": "/l/5"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "replace", "path": "/l/x", "value": 1},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/b", "value": 1},
        {"op": "move", "from": "/b", "path": "/c"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "add"},
        {"op": "frob", "path": "/a"},
        {"path": "/a"},
    ],
    ids=str,
)
def test_operations_that_fail_do_nothing_and_do_not_say_why(operation: Object) -> None:
    document = {"a": 1, "l": [1]}
    with pytest.raises(StatusError) as refused:
        json_patch(document, [{"op": "add", "path": "/z", "value": 1}, operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == "the server rejected our request due to an error in our request"
    assert document == {"a": 1, "l": [1]}


@pytest.mark.parametrize(
    ("patch", "code"),
    [({}, 400), ([1], 400), ([{}] * (MOST_OPERATIONS + 1), 413)],
    ids=["no list", "no operations", "too many"],
)
def test_what_is_no_json_patch(patch: object, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({}, patch)
    assert refused.value.code == code


def containers(*names: str) -> Object:
    return {"spec": {"containers": [{"name": name, "image": f"{name}:1"} for name in names]}}


STRATEGIC: dict[str, tuple[Kind, Object, Object, Object]] = {
    "maps are merged": (POD, {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    "null removes": (POD, {"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
    "null of nothing is nothing": (POD, {}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    "other lists are replaced": (POD, {"a": [1]}, {"a": [2]}, {"a": [2]}),
    "a container by name": (
        POD,
        containers("a", "b"),
        {"spec": {"containers": [{"name": "b", "image": "b:2"}]}},
        {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}},
    ),
    "a new container comes first": (
        POD,
        containers("a"),
        {"spec": {"containers": [{"name": "n"}]}},
        {"spec": {"containers": [{"name": "n"}, {"name": "a", "image": "a:1"}]}},
    ),
    "a container goes": (
        POD,
        containers("a", "b"),
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        containers("b"),
    ),
    "all containers are replaced": (
        POD,
        containers("a", "b"),
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "c", "image": "c:1"}]}},
        containers("c"),
    ),
    "the order is set": (
        POD,
        containers("a", "b", "c"),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        containers("b", "c", "a"),
    ),
    "the order is set, and a container too": (
        POD,
        containers("a", "b"),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "b", "image": "b:2"}],
            }
        },
        {"spec": {"containers": [{"name": "b", "image": "b:2"}, {"name": "a", "image": "a:1"}]}},
    ),
    "an order of nothing": (POD, {"spec": {}}, {"spec": {"$setElementOrder/containers": []}}, {"spec": {}}),
    "variables by name": (
        POD,
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}},
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}]}]}},
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}]}]}},
    ),
    "ports of containers by their number": (
        POD,
        {"ports": [{"containerPort": 1, "name": "x"}]},
        {"ports": [{"containerPort": 1, "name": "y"}]},
        {"ports": [{"containerPort": 1, "name": "y"}]},
    ),
    "ports of services by theirs": (
        SERVICE,
        {"ports": [{"port": 1, "name": "x"}]},
        {"ports": [{"port": 1, "name": "y"}, {"port": 2}]},
        {"ports": [{"port": 1, "name": "y"}, {"port": 2}]},
    ),
    "a volume keeps only the keys it retains": (
        POD,
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ),
    "conditions by type": (
        POD,
        {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]},
        {"conditions": [{"type": "B", "status": "False"}]},
        {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]},
    ),
    "owners by UID": (
        POD,
        {"ownerReferences": [{"uid": "1"}, {"uid": "2"}]},
        {"ownerReferences": [{"uid": "1", "$patch": "delete"}]},
        {"ownerReferences": [{"uid": "2"}]},
    ),
    "finalizers are a set": (
        POD,
        {"finalizers": ["a", "b"]},
        {"finalizers": ["b", "c"]},
        {"finalizers": ["a", "b", "c"]},
    ),
    "a finalizer goes": (
        POD,
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "finalizers in an order": (
        POD,
        {"finalizers": ["a", "b"]},
        {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b"]},
        {"finalizers": ["b", "a"]},
    ),
    "a map is replaced": (
        POD,
        {"labels": {"a": "1"}},
        {"labels": {"$patch": "replace", "b": "2"}},
        {"labels": {"b": "2"}},
    ),
    "a map is emptied": (POD, {"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    "a directive about nothing is nothing": (POD, {}, {"labels": {"$patch": "delete"}}, {}),
    "another type takes the place": (POD, {"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
    "secrets of an account by name": (
        SERVICE_ACCOUNT,
        {"secrets": [{"name": "a"}]},
        {"secrets": [{"name": "a", "x": 1}]},
        {"secrets": [{"name": "a", "x": 1}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STRATEGIC)
def test_strategic_merge_patches(name: str) -> None:
    kind, document, patch, expected = STRATEGIC[name]
    before = deepcopy(document)
    assert merge(kind, document, patch) == expected
    assert document == before


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"containers": [{"image": "i"}]}, 500, "does not contain declared merge key: name"),
        ({"containers": [{"$patch": "delete"}]}, 500, "does not contain declared merge key: name"),
        ({"containers": ["a"]}, 500, "list element types are not identical"),
        ({"containers": [{"$patch": "frob"}]}, 500, "unknown patch type: frob"),
        ({"labels": {"$patch": "frob"}}, 500, "unknown patch type: frob"),
        ({"labels": {"$retainKeys": ["x"], "a": "1"}}, 400, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": "a"}, 400, "invalid patch format of setElementOrder list"),
    ],
    ids=["no key", "no key to delete", "no objects", "item directive", "map directive", "keys", "order"],
)
def test_strategic_merge_patches_that_are_refused(patch: Object, code: int, words: str) -> None:
    document = {"containers": [{"name": "a"}], "labels": {}}
    with pytest.raises(StatusError) as refused:
        merge(POD, document, patch)
    assert (refused.value.code, words in refused.value.message) == (code, True), refused.value.message
