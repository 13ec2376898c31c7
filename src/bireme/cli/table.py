"""Tables as kubectl prints them, of what the server answers."""

from collections.abc import Sequence
from typing import Any

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_GAP = "   "


def print_table(
    answer: dict[str, Any], *, wide: bool, prefix: str = "", namespaced: bool = False
) -> list[str]:
    """The lines of a Table; `prefix` stands before each name."""
    columns = answer.get("columnDefinitions") or ()
    shown = [index for index, column in enumerate(columns) if wide or not column.get("priority")]
    header = [str(columns[index]["name"]).upper() for index in shown]
    rows = [[_cell(row["cells"][index]) for index in shown] for row in answer.get("rows") or ()]
    for row in rows:
        row[0] = prefix + row[0]
    if namespaced:
        spaces = [_namespace(row) for row in answer.get("rows") or ()]
        header, rows = (
            ["NAMESPACE", *header],
            [[space, *row] for space, row in zip(spaces, rows, strict=True)],
        )
    return align([header, *rows])


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, their columns under each other."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\n", "\\n")


def _namespace(row: dict[str, Any]) -> str:
    return str(((row.get("object") or {}).get("metadata") or {}).get("namespace") or "")
