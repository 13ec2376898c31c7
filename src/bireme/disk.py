"""Space on the disk of a data folder: how much is left, and blocks that a file owns before it needs them.

As a disk fills up, three limits apply one after the other. Each is a few MiB, and less on a small disk:

    headroom   below it, shims remove the oldest output of their containers (node/shim/output.py)
    minimum    below it, the disk counts as full: the API server creates no objects, and users are told
    reserve    blocks that the database has allocated in advance (apiserver/reserve.py), so that
               deletions and status updates can be saved on a disk with no free block

This module uses the standard library only, because shims import it.
"""

import errno
import functools
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

_MIB: Final = 1 << 20
_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2


class Space(NamedTuple):
    """The size of a file system and what is free, in bytes, as df(1) shows it; `total` 0 is unlimited."""

    total: int
    free: int

    @property
    def headroom(self) -> int:
        return min(8 * _MIB, self.total // 16)

    @property
    def minimum(self) -> int:
        return min(_MIB, self.total // 64)

    @property
    def reserve(self) -> int:
        return min(8 * _MIB, self.total // 8) if self.total else 8 * _MIB

    @property
    def is_full(self) -> bool:
        return self.free < self.minimum


def space_of(place: Path | str | int) -> Space:
    """Return the space on the file system of a path or a descriptor."""
    stat = os.statvfs(place)
    # Not f_bfree, even for root: it counts blocks that ext4 keeps for itself.
    return Space(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)


def is_full(folder: Path) -> bool:
    """Return whether the disk of a folder counts as full."""
    return space_of(folder).is_full


def allocate(descriptor: int, offset: int, length: int) -> None:
    """Allocate blocks for a part of a file, also beyond its end, without changing its size. Idempotent.

    Raises OSError: ENOSPC or EDQUOT without space, EOPNOTSUPP if the file system cannot do it.
    """
    _fallocate(descriptor, _KEEP_SIZE, offset, length)


def punch_hole(descriptor: int, length: int) -> None:
    """Free the blocks of the first `length` bytes of a file; offsets stay as they are."""
    _fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, 0, length)


def is_unsupported(error: OSError) -> bool:
    """Return whether a file system has no fallocate, as some network file systems."""
    return error.errno in (errno.EOPNOTSUPP, errno.ENOSYS)


def _fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    import ctypes

    result = _libc().fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length))
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> Any:
    # Loaded when it is first used: most commands only read how much space is left.
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
