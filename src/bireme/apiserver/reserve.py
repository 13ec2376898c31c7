"""Disk space that a database owns before it needs it, so that a full disk can be cleaned up.

On a full disk a deletion is a write too: SQLite appends it to the write-ahead log (WAL), and later copies
pages into the database file. Both may need new blocks. The reserve is therefore kept inside these two files,
as blocks that are allocated but not written yet. Another process that fills the disk cannot take them. It
could take the space of a separate file that is deleted in an emergency.

`top_up` is called before each commit and allocates what is missing:

    True    the reserve is complete and the disk is not full: every write is accepted
    False   there is no space to complete it, or the disk is full: the caller refuses to create objects.
            Deletions and updates use the reserve

The next `top_up` that finds space completes the reserve; nothing has to be released, retried or restarted.

A start writes small files before it can serve. Their space is held by a file of its own, `store.db-reserve`,
which is removed at the start and made again later. SQLite removes the WAL when it closes the database; from
then until the next start, that file holds the space of the WAL too. After a crash the WAL is still there.

A file system without fallocate has no reserve: there, objects are refused while as much space is still free.
A file system that copies on write, such as btrfs, honours the reserve for the first write of each block only.
"""

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from bireme import disk

_PAGE_BYTES: Final = 4096
_MOST_WAL_PAGES: Final = 1000
_BLOCK_BYTES: Final = 512
"""The unit of st_blocks, on every file system."""


class Reserve:
    """The reserve of one database. Open it before SQLite opens the file, and close it after SQLite did.

    POSIX drops all locks that a process has on a file when the process closes any descriptor of that file.
    """

    def __init__(self, path: Path) -> None:
        self._for_start, self._wal = Path(f"{path}-reserve"), Path(f"{path}-wal")
        self._wal_index_path, self._wal_index = f"{path}-shm", -1
        self._for_start.unlink(missing_ok=True)
        self._database = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._bytes = disk.space_of(path).reserve
        self._wal_bytes = self._bytes // 4 * 3
        # Half of its share for pages that wait for a checkpoint, the other half for one large transaction.
        self.checkpoint_pages = min(_MOST_WAL_PAGES, max(1, self._wal_bytes // 2 // _PAGE_BYTES))

    def prepare(self) -> None:
        """Allocate the WAL, once SQLite has opened it, so that the first writes can be saved.

        SQLite also maps an index of the WAL into memory. A page of it without all of its blocks would end the
        process with SIGBUS on a full disk. Raises OSError.
        """
        if self._wal_index < 0:
            self._wal_index = os.open(self._wal_index_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        _allocate(self._wal_index, os.fstat(self._wal_index).st_size)
        descriptor = os.open(self._wal, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _allocate(descriptor, self._wal_bytes)
        finally:
            os.close(descriptor)

    def top_up(self, size: int) -> bool:
        """Complete the reserve, and return whether new objects may be created.

        `size` is that of the database in bytes, with the pages that are still in the WAL.
        """
        least = disk.space_of(self._database).minimum
        try:
            self.prepare()
            # A checkpoint truncates the file to its size, and frees the blocks beyond it.
            margin = self._bytes - self._wal_bytes
            if _allocated(self._database) < size + margin // 2:
                _allocate(self._database, size + margin)
            self._hold_for_start(least)
        except OSError as error:
            if not disk.is_unsupported(error):
                return False
            least += self._bytes
        return disk.space_of(self._database).free >= least

    def close(self) -> None:
        """Close the file, and hold the space for the next start as far as that is possible."""
        os.close(self._database)
        if self._wal_index >= 0:
            os.close(self._wal_index)
        with contextlib.suppress(OSError):
            self._hold_for_start(self._wal_bytes + disk.space_of(self._for_start.parent).minimum)

    def _hold_for_start(self, length: int) -> None:
        descriptor = os.open(self._for_start, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _allocate(descriptor, length)
        finally:
            os.close(descriptor)


def _allocated(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks * _BLOCK_BYTES


def _allocate(descriptor: int, length: int) -> None:
    """Allocate the beginning of a file, unless it has as many blocks. Raises OSError."""
    missing = length - _allocated(descriptor)
    if missing <= 0:
        return
    # Without space ext4 would allocate a part before it fails.
    if disk.space_of(descriptor).free < missing:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    disk.allocate(descriptor, 0, length)
