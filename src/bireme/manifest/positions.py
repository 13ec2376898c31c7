"""Places in a text: offsets, lines and columns."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

BOM = "\ufeff"

_LONGEST_EXCERPT = 60
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text, ``text[start:end]``; it may be empty.

    Lines and columns count characters from 1. A byte order mark has an offset but no column.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Something in the text that kubectl refuses, or that no reader of it could have meant.

    ``related`` is the other place that takes part: the first of two equal keys, the bracket
    that is never closed.
    """

    span: Span
    message: str
    hint: str | None
    related: Span | None = None


def excerpt(text: str) -> str:
    """Return the text as messages show it: in backticks, on one line, and not too long."""
    short = text if len(text) <= _LONGEST_EXCERPT else text[: _LONGEST_EXCERPT - 3] + "..."
    return "`" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short) + "`"


class Lines:
    """The lines of one text. The table is made when a span is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def starts(self) -> list[int]:
        first = 1 if self.text.startswith(BOM) else 0
        return [first, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    def span(self, start: int, end: int) -> Span:
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return Span(line, column, end_line, end_column, start, end)

    def line(self, offset: int) -> int:
        return self._place(offset)[0]

    def line_start(self, offset: int) -> int:
        return self.starts[self.line(offset) - 1]

    def _place(self, offset: int) -> tuple[int, int]:
        line = max(bisect_right(self.starts, offset), 1)
        return line, max(offset - self.starts[line - 1], 0) + 1
