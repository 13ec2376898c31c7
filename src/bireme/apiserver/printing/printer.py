"""What makes rows of objects of one kind."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from bireme.apiserver.rules import Object

Cells = Callable[[Object, datetime], list[Any]]
Conditions = Callable[[Object], list[Object]]


def no_conditions(_: Object) -> list[Object]:
    return []


class Printer(NamedTuple):
    """A kind's columns, and what fills them: neither function raises, whatever the shape of the object."""

    columns: list[Object]
    cells: Cells
    conditions: Conditions = no_conditions
    """What is said of a row as a whole: of a pod's, that it has ended."""
