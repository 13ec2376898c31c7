"""Commands on terminals."""

import contextlib
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Self

PATIENCE_SECONDS = 240
_ANSWER_SECONDS = 0.5


class Terminal:
    """A command on a terminal of its own, which is its controlling one."""

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (24, 80),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(*size)
        self.text = ""
        self._more = threading.Condition()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.end()

    def expect(self, text: str) -> None:
        """Wait until this was written."""
        assert self._was_written(text, PATIENCE_SECONDS), self.text

    def said(self, typed: str, text: str) -> bool:
        """Type something; return whether this was written by now, or soon."""
        self.type(typed)
        return self._was_written(text, _ANSWER_SECONDS)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        self.type("\x03")

    def resize(self, rows: int, columns: int) -> None:
        ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        with contextlib.suppress(OSError):
            os.close(self._ours)
        return code

    def _was_written(self, text: str, seconds: float) -> bool:
        with self._more:
            return self._more.wait_for(lambda: text in self.text, seconds)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._ours, 1 << 16):
                with self._more:
                    self.text += data.decode(errors="replace")
                    self._more.notify_all()
