"""Interleaved comparisons and the table that they are written into."""

from collections.abc import Callable, Iterator

import pytest
from bench.comparison import BEGIN, END, Row, Sample, compare, format_table, replace_table

ROW = Row("LAMMPS", 2, "2 × 1", "4.1", 4.0, 4.2, "s", 1.1, "yes")


def side(times: Iterator[float], result: str = "same") -> Callable[[], Sample]:
    return lambda: Sample({"": next(times)}, result)


def test_comparison_takes_the_best_of_each_side() -> None:
    compared = compare(side(iter([3.0, 2.0, 4.0])), side(iter([2.1, 5.0, 9.0])), {"": 1.1}, 3, 3)
    assert (compared.bare[""], compared.bireme[""], compared.rounds) == (2.0, 2.1, 3)


def test_comparison_that_keeps_its_limit_stops_after_the_first_rounds() -> None:
    assert compare(side(iter([1.0] * 9)), side(iter([1.0] * 9)), {"": 1.1}, 3, 9).rounds == 3


def test_comparison_that_misses_its_limit_gets_more_rounds() -> None:
    slow_at_first = iter([2.0, 2.0, 2.0, 2.0, 1.0])
    assert compare(side(iter([1.0] * 9)), side(slow_at_first), {"": 1.1}, 3, 9).rounds == 5


def test_comparison_that_always_misses_its_limit_ends() -> None:
    compared = compare(side(iter([1.0] * 9)), side(iter([2.0] * 9)), {"": 1.1}, 3, 9)
    assert (compared.rounds, compared.ratio("")) == (9, 2.0)


def test_different_results_end_a_comparison_at_once() -> None:
    compared = compare(side(iter([1.0])), side(iter([1.0]), "other"), {"": 1.1}, 3, 9)
    assert (compared.has_same_result, compared.results) == (False, ("same", "other"))


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (ROW, "| LAMMPS | 2 | 2 × 1 | 4.1 | 4.00 s | 4.20 s | 1.05 | 1.1 | yes |"),
        (ROW._replace(bireme=8.0), "| LAMMPS | 2 | 2 × 1 | 4.1 | 4.00 s | 8.00 s | **2.00** | 1.1 | yes |"),
        (
            ROW._replace(bare=None, bireme=None, limit=None, same_result="exit code 1"),
            "| LAMMPS | 2 | 2 × 1 | 4.1 | – | – | – | – | exit code 1 |",
        ),
        (
            ROW._replace(bare=132.4, bireme=13.24, unit="µs"),
            "| LAMMPS | 2 | 2 × 1 | 4.1 | 132 µs | 13.2 µs | 0.10 | 1.1 | yes |",
        ),
    ],
    ids=["kept", "missed", "failed", "microseconds"],
)
def test_row_shows_what_was_measured(row: Row, cells: str) -> None:
    assert format_table([row]).splitlines()[2] == cells


def test_table_replaces_what_is_between_the_markers() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replace_table(document, "| new |\n") == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"


def test_document_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines"):
        replace_table("text", "| new |\n")
