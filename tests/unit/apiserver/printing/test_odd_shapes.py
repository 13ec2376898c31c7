"""Whatever a client stored is printed: fields of other types never break a table."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Column, Kind
from bireme.apiserver.printing.json_path import PathSyntaxError, parse
from bireme.apiserver.printing.table import table
from support.printed_objects import OBJECTS
from support.printed_widgets import WIDGETS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "Ready", "True", "Always", "Completed", "2026-01-02T03:04:05Z", "-1"]),
    st.text(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)
CASES = [
    *((kind, body) for kind, _, body in OBJECTS + WIDGETS),
    (NAMESPACE, {"status": {"phase": "Active"}}),
    (CUSTOM_RESOURCE_DEFINITION, {}),
]
PIECES = (
    ".spec", ".a", "..", "*", "[0]", "[-1:]", "[?(@.a==1)]", "[?(@.a)]", "['a']", "[a]", ",", "'",
    '"', "1", "true", "word", "@", "$", " ", "\\", "{", "}", "[", "]", "(", ")", "?", "-", ":", "\n", "é",
)  # fmt: skip


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path of every value below this one."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    )
    for key, each in members:
        yield (*path, key)
        yield from places(each, *path, key)


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at a path, where there is such a path."""
    if not path:
        return other
    if not isinstance(value, dict | list):
        return value
    members = dict(value.items() if isinstance(value, dict) else enumerate(value))
    members |= {key: replaced(each, path[1:], other) for key, each in members.items() if key == path[0]}
    return members if isinstance(value, dict) else list(members.values())


@given(st.sampled_from(CASES), st.data())
def test_an_object_of_any_shape_is_printed(case: tuple[Kind, Any], data: st.DataObject) -> None:
    kind, body = case
    metadata = {"name": "a", "labels": {}, "annotations": {}, **body.get("metadata", {})}
    obj = {"status": {}, **body, "metadata": metadata}
    for place in data.draw(st.lists(st.sampled_from(list(places(obj))), min_size=1, max_size=4)):
        obj = replaced(obj, place, data.draw(VALUES))
    made = table(kind, [obj], NOW)
    assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])
    msgspec.json.encode(made)


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), VALUES)
def test_any_text_is_a_path_or_refused_as_one(expression: str, value: Any) -> None:
    try:
        parse(expression)
    except PathSyntaxError:
        return
    columns = (Column(name="c", type="string", json_path=expression),)
    kind = Kind(plural="p", kind="P", custom=True, columns=columns)
    (row,) = table(kind, [{"metadata": {"name": "a"}, "spec": value, "a": value}], NOW)["rows"]
    assert row["cells"][0] == "a"
    assert row["cells"][1] is None or isinstance(row["cells"][1], str)


def test_an_object_as_deep_as_can_be_is_printed() -> None:
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    columns = tuple(Column(name=path, type="string", json_path=path) for path in (".spec", ".spec.."))
    kind = Kind(plural="p", kind="P", custom=True, columns=columns)
    (row,) = table(kind, [{"metadata": {"name": "a"}, "spec": deep}], NOW)["rows"]
    assert row["cells"] == ["a", None, None]
