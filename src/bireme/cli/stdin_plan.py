"""Decides whether our standard input goes to a job.

mpirun gives its standard input to rank 0, so an MPI job that is made of a command gets ours if it is
redirected; a terminal only if the user asks for it. Other jobs get it only with `--stdin`. Input that goes
nowhere is never dropped without a word.
"""

import contextlib
import fcntl
import os
import stat
import struct
import termios
from enum import Enum
from typing import Final, Literal, NamedTuple

import click

Reader = Literal["rank 0", "replica", "none"]
_HINT: Final = "let the program read a file by its name, or redirect from /dev/null"


class Source(Enum):
    """Kinds of standard input; a file or a pipe is redirected input."""

    NOTHING = "nothing"
    FILE = "file"
    PIPE = "pipe"
    TERMINAL = "terminal"


def classify(descriptor: int = 0) -> Source:
    """Return what a descriptor reads from; /dev/null and a file that was read to its end are nothing."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return Source.NOTHING
    if stat.S_ISREG(status.st_mode):
        with contextlib.suppress(OSError):
            # Files of /proc have no size, but something to read.
            if os.lseek(descriptor, 0, os.SEEK_CUR) >= status.st_size > 0:
                return Source.NOTHING
        return Source.FILE
    if stat.S_ISCHR(status.st_mode):
        return Source.TERMINAL if os.isatty(descriptor) else _character_device(status.st_rdev)
    return Source.PIPE


def _character_device(device: int) -> Source:
    return Source.NOTHING if device == os.stat(os.devnull).st_rdev else Source.PIPE  # noqa: PTH116


def decide_stdin(
    source: Source, reader: Reader, *, wanted: bool | None, detach: bool, takes_terminal: bool = False
) -> bool:
    """Return whether to forward standard input. Raises click.UsageError for input that can't be forwarded."""
    if wanted is False or source is Source.NOTHING:
        return False
    if reader == "none" or (reader == "replica" and not wanted):
        return False
    if source is Source.TERMINAL and not (wanted or takes_terminal):
        return False
    if detach and (wanted or source is Source.FILE):
        raise click.UsageError(
            f"standard input can't be forwarded with --detach: nobody is left to send it\n\nhint: {_HINT}"
        )
    return not detach


class StdinPlan(NamedTuple):
    """The decision about standard input, and a note for the user."""

    forwards: bool = False
    note: str = ""


def plan_stdin(
    reader: Reader, *, wanted: bool | None = None, detach: bool = False, takes_terminal: bool = False
) -> StdinPlan:
    """Decide about the standard input of this process. The note says if input is dropped."""
    source = classify()
    if decide_stdin(source, reader, wanted=wanted, detach=detach, takes_terminal=takes_terminal):
        return StdinPlan(forwards=True)
    if wanted is not None or not _has_data(source):
        return StdinPlan()
    option = "; --stdin passes it on" if reader == "replica" and not detach else ""
    return StdinPlan(note=f"standard input is not passed on to the job{option}")


def _has_data(source: Source) -> bool:
    if source is Source.FILE:
        return True
    if source is not Source.PIPE:
        return False
    try:
        waiting = fcntl.ioctl(0, termios.FIONREAD, struct.pack("i", 0))
    except OSError:
        return False
    return bool(struct.unpack("i", waiting)[0] > 0)
