"""Where a container's output goes: straight into a file. Beside it an index tells what came when.

The index holds a pair of numbers for each moment at which the file had grown: the size it had then, and the
time. So times are known to within a round of the shim, what is not noted down yet can be told, and no byte
passes through it. When the file outgrows its cap, its beginning is given back to the disk: offsets stay, and
readers start behind the hole.

A disk that fills up. The program writes into the file itself, so a write without a free block fails in the
program. The shim prevents that as far as it can:

    runway    A few blocks beyond the end of the file are allocated at all times. A program that prints
              little does not notice that others have filled the disk.
    cut       If the file has grown and the free space is below the headroom (bireme/disk.py), the older half
              of the file is given back to the disk, and the runway is extended again. The shim looks more
              often while the disk is nearly full. So a program that prints without end keeps its last part,
              and the space that is left serves the rest of the data folder.
    mark      A line at the place of the cut says so. It overwrites the first lines that are left, which needs
              no new block. `is_cut` tells the daemon.

A program that prints more than the runway and all free space between two looks gets ENOSPC, and may fail. The
mark is then at the end of what it could write. Output that does not grow is not cut.
"""

import contextlib
import os
import struct
from typing import Final

from bireme import disk

PAIR: Final = struct.Struct("<Qd")
KEPT_SHARE: Final = 0.75
RUNWAY_BYTES: Final = 32 << 10
LEAST_KEPT: Final = RUNWAY_BYTES // 4
"""Output on a full disk is cut to half, but not to less than this.

It is cut before it has used up the runway, so the blocks of the file itself serve it without end.
"""
_BLOCK: Final = 4096
_NEARLY_FULL: Final = 16
"""The disk is nearly full below so many times the headroom."""


class Output:
    """One file of output, with its index. `folder` is named where output is cut."""

    def __init__(self, path: str, cap: int, folder: str = "") -> None:
        self._path, self._cap = path, cap
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._index = os.open(f"{path}.index", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size, self._start = os.fstat(self.descriptor).st_size, 0
        self._allocated, self._has_runway = 0, False
        place = folder or os.path.dirname(path)  # noqa: PTH120 - pathlib costs the shim its start
        self._mark = f"bireme: output cut here: no space left on the disk of {place}".encode()
        self._owes_mark = False
        self.is_cut = False
        """Whether output was lost because the disk was full."""
        self.is_nearly_full = False
        """Whether the file had grown at the last look, on a disk that is nearly full."""
        self._extend()

    def look(self, now: float) -> bool:
        """Note down whether there is more, and keep space for what comes; return whether there was."""
        size = os.fstat(self.descriptor).st_size
        grown, self._size = size != self._size, size
        if grown:
            with contextlib.suppress(OSError):
                os.write(self._index, PAIR.pack(size, now))
            if self._cap and size - self._start > self._cap:
                self._cut(int(self._cap * KEPT_SHARE))
        self.is_nearly_full = False
        if grown or not self._has_runway:
            self._keep_space()
        if self._owes_mark:
            self._append_mark()
        return grown

    def close(self) -> None:
        """Close the files, and free the runway. All writers must have ended."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, os.fstat(self.descriptor).st_size)
        os.close(self.descriptor)
        os.close(self._index)

    # ---- a full disk

    def _keep_space(self) -> None:
        space = disk.space_of(self.descriptor)
        self.is_nearly_full = space.free < _NEARLY_FULL * space.headroom
        if space.free < space.headroom:
            if self._size >= self._allocated and space.free < RUNWAY_BYTES:
                # There was no block behind the runway: the program's last write has failed, or was short.
                self._owes_mark = self.is_cut = True
            present = self._size - self._start
            if present > 2 * LEAST_KEPT and self._cut(max(present // 2, LEAST_KEPT)):
                self.is_cut = True
                self._mark_cut()
        self._extend()

    def _extend(self) -> None:
        """Allocate the runway, or as much of it as there is space for."""
        begin = self._size // _BLOCK * _BLOCK
        for length in range(RUNWAY_BYTES, 0, -LEAST_KEPT):
            if begin + length <= self._allocated:
                return
            try:
                disk.allocate(self.descriptor, begin, length)
            except OSError as error:
                # A file system that has no such thing is not asked at every look.
                self._has_runway = disk.is_unsupported(error)
                continue
            self._allocated, self._has_runway = begin + length, True
            return

    def _cut(self, kept: int) -> bool:
        """Give all but the last so many bytes back to the disk; return whether that was possible."""
        start = (self._size - kept) // _BLOCK * _BLOCK
        try:
            disk.punch_hole(self.descriptor, start)
        except OSError:
            return False
        self._start = start
        return True

    def _mark_cut(self) -> None:
        """Overwrite the first lines after the hole with the mark.

        It begins with a line break, since readers skip the line that a hole has cut, and is padded to the end
        of the last line that it overwrites.
        """
        mark = b"\n" + self._mark
        with contextlib.suppress(OSError), open(self._path, "r+b", buffering=0) as file:  # noqa: PTH123
            first_lines = os.pread(file.fileno(), LEAST_KEPT, self._start)
            end = first_lines.find(b"\n", len(mark))
            text = mark + b"\n" if end < 0 else mark.ljust(end)
            os.pwrite(file.fileno(), text, self._start)

    def _append_mark(self) -> None:
        with contextlib.suppress(OSError), open(self._path, "rb") as file:  # noqa: PTH123
            is_new_line = not self._size or os.pread(file.fileno(), 1, self._size - 1) == b"\n"
            line = self._mark + b"\n" if is_new_line else b"\n" + self._mark + b"\n"
            self._size += os.write(self.descriptor, line)
            self._owes_mark = False
