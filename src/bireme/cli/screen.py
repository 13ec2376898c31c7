"""What is written while jobs run: replicas' lines with their names, and one line under them.

That line is the status or, while a replica draws a progress bar by carriage returns, the bar. A bar becomes
an ordinary line when its replica ends the line.
"""

import os
import re
import sys
import zlib
from collections.abc import Sequence
from typing import BinaryIO, TextIO

from bireme.terminal_text import REPLACEMENT, neutralise, one_line

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_MOST_UNENDED = 4 << 20
"""A line may be long; one without an end must not take all memory."""
_COLUMNS = 80
_RETURN = re.compile(rb"\r(?![\r\n]|\Z)")
"""A carriage return that something follows on its line."""
_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]")


class Lines:
    """Cuts a stream of chunks into lines, ends included.

    mpirun of Open MPI 5 writes a NUL after its own messages. `of_mpirun` leaves out those at the beginning of
    a line, so that grep does not take the output for binary data.
    """

    def __init__(self, *, of_mpirun: bool = False) -> None:
        self._rest = b""
        self._of_mpirun = of_mpirun

    @property
    def progress(self) -> bytes:
        """What the unended line shows on a terminal after its last carriage return; empty if it has none."""
        *_, before, last = (b"", b"", *self._rest.split(b"\r"))
        return last or before if b"\r" in self._rest else b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now; one that grows without an end is cut."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MOST_UNENDED:
            lines.append(self._rest)
            self._rest = b""
        return self._without_nuls(lines)

    def end(self) -> list[bytes]:
        """What is left at the end of the stream."""
        [rest], self._rest = self._without_nuls([self._rest]), b""
        return [rest] if rest else []

    def _without_nuls(self, lines: list[bytes]) -> list[bytes]:
        return [line.lstrip(b"\0") for line in lines] if self._of_mpirun else lines


class Screen:
    """Standard output for what jobs print, standard error for talk.

    The status line stands below everything on a terminal; elsewhere there is none.
    """

    def __init__(
        self,
        output: BinaryIO | None = None,
        talk: TextIO | None = None,
        *,
        coloured: bool | None = None,
        live: bool | None = None,
    ) -> None:
        self._output = output or sys.stdout.buffer
        self._talk = talk or sys.stderr
        self._coloured = _wants_colour(self._output) if coloured is None else coloured
        self._live = _can_redraw(self._talk) if live is None else live
        self._width = 0
        self._status = self._question = ""
        self._bars: dict[str, str] = {}
        """The unended lines of replicas that draw progress bars; the newest is shown."""

    def add_name(self, name: str) -> None:
        """Make room for a replica's name in the column of names."""
        self._width = max(self._width, len(name))

    def write(self, name: str, lines: Sequence[bytes]) -> None:
        """A replica's lines, each with its name; without a name as they are."""
        if not lines:
            return
        prefix = self.prefix(name) if name else b""
        self._clear()
        self._bars.pop(name, None)
        # In one go: a replica may write a million lines a second.
        text = (b"\n" + prefix).join(lines)
        if b"\r" in text and name:
            text = _RETURN.sub(lambda _: b"\r" + prefix, text)
        self._output.write(prefix + text + b"\n")
        self._output.flush()
        self._draw()

    def show_progress(self, name: str, text: bytes) -> None:
        """Show the unended line of a replica that draws a progress bar, in the place of the status line."""
        shown = one_line(_SEQUENCE.sub("", text.decode(errors="replace"))).replace(REPLACEMENT, "")
        if not self._live or not name or not shown.strip() or self._bars.get(name) == shown:
            return
        if not self._question:
            self._clear()
        self._bars.pop(name, None)
        self._bars[name] = shown
        # Drawn anew, a question would hide what is being typed.
        if not self._question:
            self._draw()

    def prefix(self, name: str) -> bytes:
        text = f"{one_line(name):<{self._width}} | "
        return (f"\x1b[{colour_of(name)}m{text}\x1b[0m" if self._coloured else text).encode()

    def say(self, text: str) -> None:
        """A line of talk."""
        self._clear()
        self._talk.write(f"{neutralise(text)}\n")
        self._talk.flush()
        self._draw()

    def show_status(self, text: str) -> None:
        """Replace the status line; an empty one goes."""
        text = one_line(text)
        if not self._live or text == self._status:
            return
        if self._question:
            # Drawn anew it would hide what is being typed.
            self._status = text
            return
        self._clear()
        self._status = text
        self._draw()

    def ask(self, question: str) -> None:
        """Put a question into the place of the status line, until it is an empty one."""
        question = neutralise(question)
        if self._live:
            self._clear()
            self._question = question
            self._draw()
        else:
            self._talk.write(question or "\n")
            self._talk.flush()

    def _clear(self) -> None:
        if self._status or self._question or self._bars:
            self._talk.write("\r\x1b[K")
            self._talk.flush()

    def _draw(self) -> None:
        if self._status or self._question or self._bars:
            most = _columns(self._talk) - 1
            # A question's end says what can be answered.
            below = self._status
            if self._bars:
                name, bar = next(reversed(self._bars.items()))
                below = f"{one_line(name):<{self._width}} | {bar}"
            dim = f"\x1b[2m{below[:most]}\x1b[0m"
            self._talk.write(self._question[-most:] if self._question else dim)
            self._talk.flush()


def colour_of(name: str) -> int:
    """The same for the same name, and another for its neighbour: by type, then by index."""
    type_, _, index = name.rpartition("-")
    if not index.isdigit():
        type_, index = name, "0"
    return _COLOURS[(zlib.crc32(type_.encode()) + int(index)) % len(_COLOURS)]


def _wants_colour(output: BinaryIO) -> bool:
    return _can_redraw(output) and not os.environ.get("NO_COLOR")


def _can_redraw(stream: BinaryIO | TextIO) -> bool:
    """Whether that is a terminal that knows more than letters."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS
