"""How problems are shown: where, what, the line with a caret under the place, and what to do."""

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from bireme.admission.problems import ABSENT, Problem
from bireme.cli.output import Styled, echo
from bireme.manifest import Span
from bireme.terminal_text import one_line

_WIDTH = 100
_COLOURS = {"error": "red", "warning": "yellow"}


class Diagnostic(NamedTuple):
    """A problem at its place in a source; `problem` is None where the text itself is broken."""

    source: str
    span: Span
    severity: str
    message: str
    hint: str | None
    line: str
    path: str = ""
    problem: Problem | None = None


def show(diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics to standard error, a blank line between them."""
    for index, diagnostic in enumerate(diagnostics):
        if index:
            echo(err=True)
        echo(*_render(diagnostic), err=True)


def _render(diagnostic: Diagnostic) -> list[str | Styled]:
    colour = _COLOURS[diagnostic.severity]
    span = diagnostic.span
    head = Styled(f"{diagnostic.severity}:", fg=colour, bold=True)
    where = f"{diagnostic.source}:{span.line}:{span.column}:"
    what = f"{diagnostic.path}: {diagnostic.message}" if diagnostic.path else diagnostic.message
    parts = [head, f" {one_line(where)} {printable(what)}\n", *_excerpt(diagnostic, colour)]
    if diagnostic.hint:
        parts += ["\n", Styled("hint:", fg="cyan", bold=True), f" {printable(diagnostic.hint)}"]
    return parts


def _excerpt(diagnostic: Diagnostic, colour: str) -> list[str | Styled]:
    span = diagnostic.span
    line = diagnostic.line
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    # A long line is cut so that the place stays in view.
    first = max(0, start - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[first : first + _WIDTH]
    start, end = start - first, min(end - first, len(shown))
    number = str(span.line).rjust(4)
    indent = " " * display_width(shown[:start])
    carets = "^" * max(1, display_width(shown[start:end].rstrip()))
    return [
        f"{number} | {printable(shown)}\n{' ' * len(number)} | {indent}",
        Styled(carets, fg=colour, bold=True),
    ]


def printable(text: str) -> str:
    """The text without anything that would move the cursor or change colours."""
    return "".join(char if char.isprintable() else " " if char == "\t" else "�" for char in text)


def display_width(text: str) -> int:
    """How many columns a terminal gives the text."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def as_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic for programs."""
    span, problem = diagnostic.span, diagnostic.problem
    value = problem.value if problem is not None and problem.value is not ABSENT else None
    return {
        "file": diagnostic.source,
        "line": span.line,
        "column": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
        "severity": diagnostic.severity,
        "path": diagnostic.path,
        "rule": problem.rule if problem is not None else "syntax",
        "message": diagnostic.message,
        "value": value,
        "hint": diagnostic.hint,
        "fixable": problem is not None and problem.fix is not None,
    }
