"""How a command that can't do its work says so: what is wrong, a blank line, what to do about it."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError

from bireme.cli.output import Styled, echo

USAGE = 2
"""The exit code of a command that was called the wrong way, as click has it."""
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
        echo(Styled("error:", fg="red", bold=True), f" {self.message}", err=True)
        if self.hint:
            echo("\n", Styled("hint:", fg="cyan", bold=True), f" {self.hint}", err=True)


def fail_with(failures: Sequence[Failure]) -> None:
    """Tell all of them and end the command, if there are any. A hint for several stands below the last."""
    for failure, after in pairwise(failures):
        if failure.hint == after.hint:
            failure.hint = ""
        failure.show()
    if failures:
        raise failures[-1]


@contextmanager
def in_one_voice(ctx: click.Context | None = None) -> Iterator[None]:
    """Let what click itself finds wrong look like any other failure; its exit codes stay.

    So does what the machine refuses, and nobody has foreseen: a folder that can't be read, a full disk.
    Ctrl-C needs no words, and has its own exit code.
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
    except OSError as error:
        # Nobody reads any more what is written: whom should it be told?
        if error.errno == errno.EPIPE:
            raise
        raise Failure(_refusal(error)) from error
    except UnicodeEncodeError as error:
        name = os.fsencode(error.object)
        raise Failure(
            f"{name!r} is not UTF-8, and can't be passed on", "rename it, or leave it out"
        ) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _refusal(error: OSError) -> str:
    why = error.strerror or str(error) or type(error).__name__
    return why if error.filename is None else f"{error.filename}: {why}"


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


def say(*parts: str | Styled) -> None:
    """Talk, which goes to standard error: standard output is for data."""
    echo(*parts, err=True)
