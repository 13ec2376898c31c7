from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.managed.compare import Change, compare, equal
from bireme.apiserver.managed.merging import merge
from bireme.apiserver.managed.paths import Fields, paths, sentence
from bireme.apiserver.managed.shapes import UnkeyedError, shape_of

Object = dict[str, Any]


def listed(fields: Fields) -> list[str]:
    return sorted(sentence(path).removeprefix(".spec") for path in paths(fields))


def changes(schema: Object, old: Object, new: Object) -> tuple[list[str], list[str]]:
    change = compare(shape_of(schema), {"spec": old}, {"spec": new})
    return listed(change.changed), listed(change.removed)


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        pytest.param({"size": 1}, {"size": 1}, [], [], id="nothing"),
        pytest.param({"size": 1}, {"size": 2}, [".size"], [], id="a scalar"),
        pytest.param({"size": 1}, {}, [], [".size"], id="a scalar goes"),
        pytest.param(
            {}, {"inner": {"y": {"z": "1"}}}, [".inner", ".inner.y", ".inner.y.z"], [], id="objects",
        ),
        pytest.param({"inner": {}}, {"inner": {"x": "1"}}, [".inner.x"], [], id="into an empty object"),
        pytest.param({"inner": {"x": "1"}}, {"inner": {}}, [], [".inner.x"], id="an object is emptied"),
        pytest.param({}, {"inner": {}}, [".inner"], [], id="an empty object"),
        pytest.param({"names": {"a": "1"}}, {"names": {"b": "1"}}, [".names.b"], [".names.a"], id="a map"),
        pytest.param({"color": {"r": "1"}}, {"color": {"g": "1"}}, [".color"], [], id="an atomic map"),
        pytest.param({"steps": ["a"]}, {"steps": ["a", "b"]}, [".steps"], [], id="an atomic list"),
        pytest.param(
            {"tags": ["a", "b"]}, {"tags": ["c", "a"]}, ['.tags[="c"]'], ['.tags[="b"]'], id="a set",
        ),
        pytest.param({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, [], [], id="a set in another order"),
        pytest.param({"tags": []}, {"tags": None}, [".tags"], [], id="null for an empty list"),
        pytest.param(
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 1, "note": "x"}, {"port": 1, "protocol": "UDP"}]},
            [
                '.ports[port=1,protocol="TCP"].note',
                '.ports[port=1,protocol="UDP"]',
                '.ports[port=1,protocol="UDP"].port',
                '.ports[port=1,protocol="UDP"].protocol',
            ],
            [],
            id="a list by keys",
        ),
        pytest.param(
            {"mounts": [{"path": "/a", "from": "x"}]}, {"mounts": [{"path": "/a"}]},
            [], ['.mounts[path="/a"].from'], id="a list by a patch's merge key",
        ),
        pytest.param(
            {"tags": ["a", "a"]}, {"tags": ["a"]}, ['.tags[="a"]'], ['.tags[="a"]'], id="duplicates no more",
        ),
        pytest.param(
            {"tags": ["a"]}, {"tags": ["a", "a"]}, ['.tags[="a"]'], ['.tags[="a"]'], id="duplicates now",
        ),
        pytest.param(
            {"mounts": [{"path": "/a"}, {"path": "/a"}]},
            {"mounts": [{"path": "/a"}, {"path": "/a", "from": "x"}]},
            ['.mounts[path="/a"]'], [], id="duplicates change",
        ),
        pytest.param(
            {"free": {"a": 1}}, {"free": {"a": {"b": 1}}}, [".free.a", ".free.a.b"], [], id="map for scalar",
        ),
        pytest.param(
            {"free": {"a": {"b": 1}}}, {"free": {"a": 1}}, [".free.a"], [".free.a.b"], id="scalar for map",
        ),
        pytest.param({"free": {"a": {"b": [1]}}}, {"free": {"a": {"b": [2]}}}, [".free.a.b"], [], id="free"),
        pytest.param({"any": 1}, {"any": True}, [".any"], [], id="what Python takes for equal"),
        pytest.param({"any": {"a": [1]}}, {"any": {"a": [True]}}, [".any.a"], [], id="the same, deeper"),
        pytest.param({"any": 1}, {"any": 1.0}, [], [], id="the same number"),
        pytest.param({"any": None}, {"any": "x"}, [".any"], [], id="something for null"),
    ],
)  # fmt: skip
def test_changes(schema: Object, old: Object, new: Object, changed: list[str], removed: list[str]) -> None:
    assert changes(schema, old, new) == (changed, removed)


def test_owners_of_fields_are_not_compared(schema: Object) -> None:
    old = {"metadata": {"name": "x", "managedFields": [{"manager": "a"}]}}
    new = {"metadata": {"name": "x", "managedFields": [{"manager": "b"}]}}
    assert compare(shape_of(schema), old, new) == Change({}, {})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"ports": [None]}, id="null for an item"),
        pytest.param({"mounts": [{"from": "x"}]}, id="no key"),
        pytest.param({"mounts": ["x"]}, id="a text for an item"),
        pytest.param({"tags": [{}]}, id="a map in a set"),
        pytest.param({"tags": [[]]}, id="a list in a set"),
        pytest.param({"tags": [None]}, id="null in a set"),
    ],
)
def test_items_that_nothing_tells_apart_are_refused(schema: Object, spec: Object) -> None:
    with pytest.raises(UnkeyedError):
        compare(shape_of(schema), {}, {"spec": spec})


values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(values, values)
def test_no_change_is_found_just_in_equal_values(schema: Object, old: Any, new: Any) -> None:
    change = compare(shape_of(schema), {"spec": {"any": old}}, {"spec": {"any": new}})
    assert (change == Change({}, {})) == equal(old, new)


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        pytest.param(["a", "b", "c"], ["c", "a"], ["b", "c", "a"], id="another order"),
        pytest.param(["a", "b", "c"], ["b", "x"], ["a", "b", "c", "x"], id="a new one after"),
        pytest.param(["a", "b", "c"], ["x", "b"], ["a", "x", "b", "c"], id="a new one before"),
        pytest.param(["a", "b"], ["c", "d"], ["a", "b", "c", "d"], id="nothing in common"),
        pytest.param(["a", "a", "b"], ["a"], ["a", "b"], id="duplicates"),
        pytest.param([], ["a"], ["a"], id="from nothing"),
        pytest.param(["a"], [], ["a"], id="nothing to add"),
        pytest.param(["a"], None, ["a"], id="null"),
        pytest.param(None, ["a"], ["a"], id="over null"),
        pytest.param([], None, None, id="null over nothing"),
    ],
)
def test_merged_lists_keep_what_both_have(schema: Object, below: Any, above: Any, merged: Any) -> None:
    found = merge(shape_of(schema), {"spec": {"tags": below}}, {"spec": {"tags": above}})
    assert found == {"spec": {"tags": merged}}
