"""How a command that can't do its work says so: what is wrong, a blank line, what to do about it."""

from typing import IO, Any

import click

TIMED_OUT = 124
"""The exit code of a wait that took too long, as that of timeout(1)."""
INTERRUPTED = 130


class Failure(click.ClickException):
    """Ends the command with a message for people."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        told, _, inside = message.partition("\n\nhint: ")
        super().__init__(told)
        self.hint = hint or inside
        self.code = exit_code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.code

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        click.echo(f"{click.style('error:', fg='red', bold=True)} {self.message}", err=True)
        if self.hint:
            click.echo(f"\n{click.style('hint:', fg='cyan', bold=True)} {self.hint}", err=True)


def say(text: str) -> None:
    """Talk, which goes to standard error: standard output is for data."""
    click.echo(text, err=True)
