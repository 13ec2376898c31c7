"""Where a container's output goes: straight into a file. Beside it an index tells what came when.

The index holds a pair of numbers for each moment at which the file had grown: the size it had then, and the
time. So times are known to within a round of the shim, what is not noted down yet can be told, and no byte
passes through it. When the file outgrows its cap, its beginning is given back to the disk: offsets stay, and
readers start behind the hole.
"""

import os
import struct
from typing import Final

from bireme.node.shim import kernel

PAIR: Final = struct.Struct("<Qd")
KEPT_SHARE: Final = 0.75
_BLOCK: Final = 4096


class Output:
    """One file of output, with its index."""

    def __init__(self, path: str, cap: int) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._index = os.open(f"{path}.index", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._cap, self._size, self._start = cap, os.fstat(self.descriptor).st_size, 0

    def look(self, now: float) -> bool:
        """Note down whether there is more; return whether there was."""
        size = os.fstat(self.descriptor).st_size
        if size == self._size:
            return False
        try:
            os.write(self._index, PAIR.pack(size, now))
            self._cut(size)
        except OSError:
            pass
        self._size = size
        return True

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._index)

    def _cut(self, size: int) -> None:
        if self._cap and size - self._start > self._cap:
            self._start = (size - int(self._cap * KEPT_SHARE)) // _BLOCK * _BLOCK
            kernel.punch_hole(self.descriptor, self._start)
