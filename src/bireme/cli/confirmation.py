"""Asks before a command destroys something.

On a cluster, `delete`, `pause` and a `run` that replaces a job ask on a terminal, and need `--yes` without
one; so does `delete --all` everywhere. `apply` asks on a terminal, and needs no `--yes` without one.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from bireme.cli.failures import USAGE, Failure, say
from bireme.cli.interrupts import has_terminal
from bireme.cli.output import echo

_SHOWN: Final = 20


def can_ask(files: Sequence[str] = ()) -> bool:
    """Whether there is a terminal, and standard input is not the manifest."""
    return has_terminal() and "-" not in files


def require_terminal(action: str, where: str, files: Sequence[str] = ()) -> None:
    """Fail if the question can't be asked: a script must say `--yes`."""
    if not can_ask(files):
        raise Failure(
            f"{action} on {where} must be confirmed, and there is no terminal to ask on",
            "--yes confirms it",
            USAGE,
        )


def confirm(action: str, names: Sequence[str], where: str, *, otherwise: str) -> None:
    """List what is affected and ask; Failure with the text `otherwise` if the answer is not yes."""
    for name in names[:_SHOWN]:
        say(f"  {name}")
    if len(names) > _SHOWN:
        say(f"  and {len(names) - _SHOWN} more")
    if not ask(f"{action} on {where}?"):
        raise Failure(otherwise)


def ask(question: str) -> bool:
    """Ask on the terminal; anything but yes is no. Raises KeyboardInterrupt on Ctrl-C."""
    with _interruptible():
        echo(f"{question} [y/N]: ", nl=False, err=True)
        answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        say("")
    return answer.strip().lower() in ("y", "yes")


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a blocking read: asyncio's own handler would only cancel the task after the read."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
