"""Columns of CRDs: JSONPath, and cells of each type."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver.kinds import Column, Kind
from bireme.apiserver.printing.json_path import PathSyntaxError, parse
from bireme.apiserver.printing.table import table
from support.printed_widgets import PATHS, SPEC, WIDGET, Object

NOW = datetime(2019, 5, 6, 7, 13, 9, tzinfo=UTC)
SHOWN = {
    "a string": "a <text> & more", "a number as text": "7", "a fraction as text": "2.75",
    "a small fraction as text": "1e-07", "a large one as text": "1e+21", "truth as text": "true",
    "an object as text":
        '{"a":"1 \\u003c 2 \\u0026 3","b":[1,2.5,1e-7,1e+22,null],"dotted.key":"found"}',
    "a list as text": '["x","y","z"]', "null as text": "<no value>",
    "first": "x", "last": "z", "no index": "x", "tail": "y", "middle": "y", "strided": "y", "all": "x",
    "field of all": "Done", "last field": "Same", "filtered": "True", "filtered in single quotes": "True",
    "filtered with spaces": "True", "filtered otherwise": "Done", "filtered by a number": "Ready",
    "filtered by equal numbers": "Ready", "filtered by a lesser number": "Done", "filtered by truth": "Ready",
    "filtered by a field": "Same", "filtered by existence": "Ready", "filtered by a failure": "Ready",
    "filtered with a parenthesis": "Ready", "quoted key": "a <text> & more", "dotted key": "found",
    "dots in quotes": "1 < 2 & 3", "escaped in quotes": "found", "two keys": "a <text> & more",
    "two indexes": "z", "wildcard": "child", "wildcard of a list": "x", "descent": "treasure",
    "after spaces": "a <text> & more", "more": "a <text> & more",
}  # fmt: skip
BEYOND_COMPARE = "descent to all"
TYPED = {
    "whole as integer": 7, "fraction as integer": 2, "whole as number": 7, "fraction as number": 2.75,
    "yes as boolean": True, "text as date": "<invalid>", "date as date": "5m", "hour as date": "5m",
    "emptyText as date": "<unknown>", "nullText as date": "<unknown>", "zeroDate as date": "<unknown>",
    "day as date": "<invalid>", "fractionOfDate as date": "4m59s", "zoned as date": "125m",
    "ancient as date": "292y", "ahead as date": "<invalid>",
}  # fmt: skip


def cells(kind: Kind, spec: Object) -> dict[str, Any]:
    made = table(kind, [{"metadata": {"name": "w"}, "spec": spec}], NOW)
    columns = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(columns, made["rows"][0]["cells"], strict=True))


FULL = cells(WIDGET, SPEC)


@pytest.mark.parametrize("name", sorted(PATHS.keys() - {BEYOND_COMPARE}), ids=PATHS.get)
def test_a_path_finds_a_value_or_leaves_the_cell_absent(name: str) -> None:
    assert FULL[name] == SHOWN.get(name)


@pytest.mark.parametrize("name", [name for name in FULL if " as " in name and not name.endswith(" as text")])
def test_a_cell_is_of_its_columns_type(name: str) -> None:
    expected = TYPED.get(name)
    assert (FULL[name], type(FULL[name])) == (expected, type(expected))


def test_a_descent_finds_what_it_starts_at() -> None:
    assert FULL[BEYOND_COMPARE].startswith('{"ahead":"2219')


def test_cells_of_an_empty_object_are_absent() -> None:
    assert {name for name, cell in cells(WIDGET, {}).items() if cell is not None} == {"Name"}


def test_a_column_describes_itself() -> None:
    columns = {column["name"]: column for column in table(WIDGET, [], NOW)["columnDefinitions"]}
    assert columns["first"]["description"] == (
        "Custom resource definition column (in JSONPath format): .spec.list[0]"
    )
    assert columns["Described"] == {
        "name": "Described", "type": "integer", "format": "int32", "description": "A whole.", "priority": 1,
    }  # fmt: skip


def test_a_column_of_an_unknown_type_is_absent() -> None:
    kind = Kind(
        plural="p", kind="P", custom=True, columns=(Column(name="c", type="colour", json_path=".spec.text"),)
    )
    assert cells(kind, SPEC)["c"] is None


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("integer", 1e21, -(2**63)), ("integer", -2.9, -2), ("number", 1e21, 1e21), ("number", 3.0, 3),
        ("string", -0.0, "-0"), ("string", 100.0, "100"), ("string", 1e20, "100000000000000000000"),
        ("string", 0.0001, "0.0001"), ("string", 0.00001, "1e-05"), ("string", 1.5e300, "1.5e+300"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_go_writes_them(kind: str, value: float, shown: object) -> None:
    columns = (Column(name="c", type=kind, json_path=".spec.n"),)
    cell = cells(Kind(plural="p", kind="P", custom=True, columns=columns), {"n": value})["c"]
    assert (cell, type(cell)) == (shown, type(shown))


@pytest.mark.parametrize(
    "expression",
    [
        ".a[", ".a[x]", ".a[-]", ".a[1:2:3:4]", ".a[?(@.b", '.a[?(@.b=="c]', ".a[?(@.b)x]",
        ".a[1,x]", "....a",
        ".a !", '"open', '"\\q"', "1.2.3", "-", ".a\n", "..*", ".a[" + "9" * 5000 + "]",
    ],
)  # fmt: skip
def test_an_ill_formed_path_is_refused(expression: str) -> None:
    with pytest.raises(PathSyntaxError):
        parse(expression)
