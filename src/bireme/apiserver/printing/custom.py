"""Kinds that a CRD defines: their columns are JSONPaths."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from bireme.apiserver.kinds import Column
from bireme.apiserver.printing.ages import INVALID, UNKNOWN, age, is_moment
from bireme.apiserver.printing.columns import AGE, NAME
from bireme.apiserver.printing.fields import name_of
from bireme.apiserver.printing.go_text import printed
from bireme.apiserver.printing.json_path import PathSyntaxError, parse
from bireme.apiserver.printing.printer import Printer
from bireme.apiserver.printing.steps import NoWayError, Step
from bireme.apiserver.rules import Object

Cell = Callable[[Object, datetime], Any]
_LEAST: Final = -(2**63)
"""What Go makes of a fraction that is too large for a whole number, on most machines."""
_DEFAULT: Final = Column(
    name="Age", type="date", json_path=".metadata.creationTimestamp", description=AGE["description"]
)


@lru_cache(maxsize=256)
def printer(columns: tuple[Column, ...]) -> Printer:
    """The printer of a CRD's columns: an age where there are none, and none after one that is no JSONPath."""
    shown, cells = [NAME], []
    for column in columns or (_DEFAULT,):
        try:
            cells.append(_cell(column.type, parse(column.json_path)))
        except PathSyntaxError:
            break
        shown.append(_definition(column))
    return Printer(shown, lambda obj, now: [name_of(obj), *(cell(obj, now) for cell in cells)])


def _definition(column: Column) -> Object:
    described = f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or described,
        "priority": column.priority,
    }


def _cell(kind: str, step: Step) -> Cell:
    show: Callable[[Any, datetime], Any] = _SHOWN.get(kind, _nothing)

    def cell(obj: Object, now: datetime) -> Any:
        try:
            values = step([obj])
            return show(values[0], now) if values else None
        except (NoWayError, RecursionError):
            return None

    return cell


def _nothing(_: Any, __: datetime) -> None:
    return None


def _string(value: Any, _: datetime) -> str:
    return printed(value)


def _integer(value: Any, _: datetime) -> int | None:
    if isinstance(value, float):
        return int(value) if abs(value) < -_LEAST else _LEAST
    return value if type(value) is int else None


def _number(value: Any, _: datetime) -> float | None:
    """A fraction that is whole is written as such."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return value if type(value) is int else None


def _boolean(value: Any, _: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    if value in ("", "null"):
        return UNKNOWN
    return age(value, now) if is_moment(value) else INVALID


_SHOWN: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
