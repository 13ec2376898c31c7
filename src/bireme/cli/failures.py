"""How a command that can't do its work says so: what is wrong, a blank line, what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError

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


@contextmanager
def in_one_voice(ctx: click.Context | None = None) -> Iterator[None]:
    """Let what click itself finds wrong look like any other failure; its exit codes stay.

    `ctx` is the group's, which knows the command where an error does not.
    """
    try:
        yield
    except (Failure, NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        told = Failure(error.format_message(), exit_code=error.exit_code)
        told.hint = told.hint or f"`{_called(error.ctx, ctx)} --help` says how it is called"
        raise told from error
    except click.ClickException as error:
        raise Failure(error.format_message(), exit_code=error.exit_code) from error


def _called(ctx: click.Context | None, group: click.Context | None) -> str:
    """The command as it was called."""
    if ctx is not None or group is None:
        return ctx.command_path if ctx is not None else "bireme"
    return " ".join(filter(None, (group.command_path, group.invoked_subcommand)))


class Group(click.Group):
    """Commands whose failures all look alike."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with in_one_voice():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with in_one_voice(ctx):
            return super().invoke(ctx)


def say(text: str) -> None:
    """Talk, which goes to standard error: standard output is for data."""
    click.echo(text, err=True)
