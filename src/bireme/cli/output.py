"""The one place where commands write what they say themselves.

`echo` neutralises all text, so that no object, server or file name can send commands to the terminal. Our own
colours are no text but `Styled` parts. What programs write (`bireme logs`, `bireme run`) does not come here:
`screen` passes it on byte by byte.
"""

import sys
from typing import NamedTuple

import click

from bireme.terminal_text import neutralise


class Styled(NamedTuple):
    """A part of a line with a colour; it is text like any other."""

    text: str
    fg: str | None = None
    bold: bool | None = None


def echo(*parts: str | Styled, err: bool = False, nl: bool = True) -> None:
    """Write parts one after the other, to standard output, or to standard error."""
    line = "".join(_rendered(part) for part in parts)
    click.echo(line, err=err, nl=nl)  # noqa: TID251 - this is the place


def echo_data(text: str, *, nl: bool = True) -> None:
    """Write data for another program to standard output, unchanged; a terminal gets it neutralised."""
    shown = neutralise(text) if sys.stdout.isatty() else text
    click.echo(shown, nl=nl)  # noqa: TID251 - this is the place


def _rendered(part: str | Styled) -> str:
    if isinstance(part, str):
        return neutralise(part)
    return click.style(neutralise(part.text), fg=part.fg, bold=part.bold)
