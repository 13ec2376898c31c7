"""Sets of paths behave as sets, whatever form they are kept in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.managed.elements import ElementError, rank
from bireme.apiserver.managed.paths import (
    SELF,
    Fields,
    contains,
    difference,
    intersection,
    of_fields,
    outside,
    paths,
    read,
    sentence,
    union,
)

Paths = set[tuple[str, ...]]
elements = st.sampled_from(["f:a", "f:b", 'k:{"n":2}', 'k:{"n":10}', 'v:"x"'])
some_paths = st.sets(st.lists(elements, min_size=1, max_size=4).map(tuple), max_size=12)


def fields_of(chosen: Paths) -> Fields:
    made: Fields = {}
    for path in chosen:
        node: Fields = {}
        for element in reversed(path):
            node = {element: node}
        made = union(made, node)
    return made


def is_sorted(fields: Fields) -> bool:
    return list(fields) == sorted(fields, key=rank) and all(map(is_sorted, fields.values()))


@given(some_paths)
def test_a_set_has_the_paths_that_it_is_made_of(chosen: Paths) -> None:
    fields = fields_of(chosen)
    assert set(paths(fields)) == chosen
    assert is_sorted(fields)
    assert all(contains(fields, path) for path in chosen)
    assert read(fields) == fields


@given(some_paths, some_paths)
def test_operations_are_those_of_sets(one: Paths, other: Paths) -> None:
    made = {
        "union": union(fields_of(one), fields_of(other)),
        "difference": difference(fields_of(one), fields_of(other)),
        "intersection": intersection(fields_of(one), fields_of(other)),
        "outside": outside(fields_of(one), fields_of(other)),
    }
    assert {name: set(paths(fields)) for name, fields in made.items()} == {
        "union": one | other,
        "difference": one - other,
        "intersection": one & other,
        "outside": {path for path in one if not any(path[: n + 1] in other for n in range(len(path)))},
    }
    assert all(map(is_sorted, made.values()))


@given(some_paths, some_paths)
def test_operations_leave_their_operands_alone(one: Paths, other: Paths) -> None:
    first, second = fields_of(one), fields_of(other)
    for operation in (union, difference, intersection, outside):
        operation(first, second)
    assert (first, second) == (fields_of(one), fields_of(other))


def test_what_is_not_touched_is_not_copied() -> None:
    fields = of_fields(("spec", "size"), ("metadata", "labels", "a"))
    assert difference(fields, of_fields(("status",))) is fields
    assert outside(fields, of_fields(("status",))) is fields


def test_shorter_paths_of_a_level_are_listed_first() -> None:
    fields = of_fields(("a", "x"), ("b",), ("c",), ("c", "y"))
    assert [sentence(path) for path in paths(fields)] == [".b", ".c", ".a.x", ".c.y"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(None, {}, id="nothing"),
        pytest.param({SELF: {}}, {}, id="the whole object"),
        pytest.param({"f:a": None}, {"f:a": {}}, id="null for a leaf"),
        pytest.param({"f:a": {"q:x": {}}}, {"f:a": {}}, id="an unknown sort below a field"),
        pytest.param({"f:b": {}, "f:a": {}}, {"f:a": {}, "f:b": {}}, id="another order"),
        pytest.param({"f:a": {"f:b": {}, SELF: {}}}, {"f:a": {SELF: {}, "f:b": {}}}, id="both"),
    ],
)
def test_reading(written: Any, expected: Fields) -> None:
    found = read(written)
    assert found == expected
    assert is_sorted(found)


@pytest.mark.parametrize("written", ["x", [], {"a": {}}, {"f:a": 7}], ids=str)
def test_what_can_not_be_read_is_refused(written: Any) -> None:
    with pytest.raises(ElementError):
        read(written)
