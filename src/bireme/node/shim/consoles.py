"""What a container is started on: nothing to read, a pipe to read from, or a terminal.

Output goes straight into its file, but for a terminal's, which has to be passed on.
"""

import os
import select
import time
from typing import Final

_CHUNK: Final = 1 << 16
_REST_SECONDS: Final = 0.5


class Console:
    """The three descriptors of a container, and our end of them."""

    def __init__(self, output: int, *, stdin: bool = False, tty: bool = False) -> None:
        self._output = output
        self.is_terminal = tty
        self.ours: int | None = None
        """Where input goes in: a pipe's end, or the terminal's, which has the size as well."""
        if tty:
            self.ours, self._theirs = os.openpty()
        elif stdin:
            self._theirs, self.ours = os.pipe2(os.O_CLOEXEC)
        else:
            self._theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if self.ours is not None:
            os.set_blocking(self.ours, False)

    @property
    def given(self) -> tuple[int, int, int]:
        """What the container gets."""
        written = self._theirs if self.is_terminal else self._output
        return self._theirs, written, written

    def begin(self) -> None:
        """The container has its descriptors now. A terminal stays open: it would hang up without any user."""
        if not self.is_terminal:
            self._close_theirs()

    def pass_on(self) -> bool:
        """Take what came out of a terminal; return whether it may go on."""
        assert self.ours is not None, "only a terminal is read"
        try:
            data = os.read(self.ours, _CHUNK)
            while data:
                data = data[os.write(self._output, data) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def close_input(self) -> None:
        """Let a reader of the pipe come to its end."""
        if self.ours is not None and not self.is_terminal:
            os.close(self.ours)
            self.ours = None

    def end(self) -> None:
        """Take the rest, which the kernel may still be moving: it tells when that was all."""
        self._close_theirs()
        deadline = time.monotonic() + _REST_SECONDS
        while self.is_terminal and self.ours is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.ours], [], [], left)[0] or not self.pass_on():
                break
        if self.ours is not None:
            os.close(self.ours)
            self.ours = None

    def _close_theirs(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1
