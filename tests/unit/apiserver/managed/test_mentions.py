from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.managed.mentions import mentioned
from bireme.apiserver.managed.paths import paths, sentence
from bireme.apiserver.managed.shapes import shape_of

Object = dict[str, Any]


def said(schema: Object, spec: object) -> list[str]:
    shape = shape_of(schema["properties"]["spec"])
    return sorted(sentence(path) for path in paths(mentioned(shape, spec)))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"size": 1, "on": True}, [".on", ".size"], id="scalars"),
        pytest.param({"color": {"r": "1"}, "steps": ["a"]}, [".color", ".steps"], id="atomic ones"),
        pytest.param({"names": {"a": "1"}}, [".names", ".names.a"], id="a map"),
        pytest.param(
            {"mounts": [{"path": "/a"}]},
            [".mounts", '.mounts[path="/a"]', '.mounts[path="/a"].path'],
            id="a list by one key",
        ),
        pytest.param(
            {"mounts": [{"path": "/a"}, {"path": "/a", "from": "x"}]},
            [".mounts", '.mounts[path="/a"]'],
            id="duplicates are one",
        ),
        pytest.param({"any": {"x": {"y": 1}}}, [".any", ".any.x", ".any.x.y"], id="what no schema describes"),
        pytest.param({"inner": {}}, [".inner"], id="an empty object"),
        pytest.param({"size": {"a": 1}}, [".size"], id="a map where a scalar belongs"),
    ],
)
def test_a_value_says_what_is_in_it(schema: Object, spec: Object, expected: list[str]) -> None:
    assert said(schema, spec) == expected
    assert said(schema, spec) == expected, "also the second time, when its keys are known"


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(st.sampled_from(["x", "y", "z", "size", "path", "from"]), inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["size", "inner", "any", "free", "names"]), VALUES), max_size=4)
)
def test_what_others_with_the_same_keys_said_makes_no_difference(schema: Object, specs: list[Object]) -> None:
    alone = [said(_anew(schema), spec) for spec in specs]
    assert [said(schema, spec) for spec in specs] == alone


def _anew(schema: Object) -> Object:
    """The same schema as one that nobody has used yet."""
    spec = schema["properties"]["spec"]
    return {"properties": {"spec": spec | {"properties": dict(spec["properties"])}}}
