"""Compare a program that runs bare with the same program under Bireme, and report both side by side.

A round runs the program once each way. The figure of a side is the best of its rounds, because other work on
the machine can only add time. The sides take turns, so that a slow minute of the machine hits both. If a
ratio misses its limit, more rounds follow, up to a bound: the best of more rounds is closer to what a side
can do. This only measures longer: a program that fails, or computes different results on the two sides, ends
the comparison at once.

`compare` measures. `Row` is a line of the table, which `format_table` and `replace_table` write. This module
does not know what the program is, or how it is started.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROUNDS: Final = 3
MOST_ROUNDS: Final = 9
BEGIN: Final = "<!-- begin: real programs -->"
END: Final = "<!-- end: real programs -->"
_HEADER: Final = (
    "program", "ranks", "workers × slots", "Open MPI", "bare", "Bireme", "ratio", "limit", "same result",
)  # fmt: skip


class Sample(NamedTuple):
    """One run of a program: its figures, of which smaller ones are better, and what it computed."""

    figures: Mapping[str, float]
    result: Any


class Comparison(NamedTuple):
    """The best figures of each side after so many rounds."""

    bare: Mapping[str, float]
    bireme: Mapping[str, float]
    rounds: int
    has_same_result: bool
    results: tuple[Any, Any]
    """Of the last round: bare, then Bireme."""

    def ratio(self, figure: str) -> float:
        return self.bireme[figure] / self.bare[figure]

    def keeps(self, limits: Mapping[str, float]) -> bool:
        return all(self.ratio(figure) <= limit for figure, limit in limits.items())


def compare(
    bare: Callable[[], Sample],
    bireme: Callable[[], Sample],
    limits: Mapping[str, float],
    rounds: int = ROUNDS,
    most_rounds: int = MOST_ROUNDS,
) -> Comparison:
    """Run both sides in turn, `rounds` times and then until all ratios keep their limits.

    Stops after `most_rounds` in any case.
    """
    comparison = _first_round(bare(), bireme())
    while comparison.has_same_result and comparison.rounds < most_rounds:
        if comparison.rounds >= rounds and comparison.keeps(limits):
            break
        comparison = _next_round(comparison, _first_round(bare(), bireme()))
    return comparison


def _first_round(bare: Sample, bireme: Sample) -> Comparison:
    is_same = bare.result == bireme.result
    return Comparison(bare.figures, bireme.figures, 1, is_same, (bare.result, bireme.result))


def _next_round(so_far: Comparison, last: Comparison) -> Comparison:
    return last._replace(
        bare=_best(so_far.bare, last.bare),
        bireme=_best(so_far.bireme, last.bireme),
        rounds=so_far.rounds + 1,
    )


def _best(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {figure: min(value, other[figure]) for figure, value in one.items()}


class Row(NamedTuple):
    """A line of the table: one figure of one program in one layout."""

    program: str
    ranks: int
    layout: str
    mpi: str
    bare: float | None
    bireme: float | None
    """None if the program did not end well."""
    unit: str
    limit: float | None
    """None where the time is not the program's own to decide, and only the result counts."""
    same_result: str

    @property
    def ratio(self) -> float | None:
        return self.bireme / self.bare if self.bare and self.bireme else None

    @property
    def cells(self) -> list[str]:
        ratio = "–" if self.ratio is None else f"{self.ratio:.2f}"
        if self.ratio is not None and self.limit is not None and self.ratio > self.limit:
            ratio = f"**{ratio}**"
        limit = "–" if self.limit is None else f"{self.limit:g}"
        figures = (_figure(self.bare, self.unit), _figure(self.bireme, self.unit))
        return [
            self.program,
            str(self.ranks),
            self.layout,
            self.mpi,
            *figures,
            ratio,
            limit,
            self.same_result,
        ]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return (
        f"{value:.0f} {unit}"
        if value >= 100
        else f"{value:.2f} {unit}"
        if value < 10
        else f"{value:.1f} {unit}"
    )


def format_table(rows: Sequence[Row]) -> str:
    """Return a table in Markdown; a ratio beyond its limit is bold."""
    lines = [_HEADER, ("---",) * len(_HEADER), *(row.cells for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def replace_table(document: str, table: str) -> str:
    """Return a document with the table between its two markers. Raises ValueError without both markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"the document has no lines {BEGIN} and {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{table}{END}", document)


def save(rows: Sequence[Row], file: Path) -> None:
    """Write what was measured as JSON, one object for each row."""
    objects = [row._asdict() | {"ratio": row.ratio} for row in rows]
    file.write_text(json.dumps(objects, indent=2, ensure_ascii=False) + "\n")
