"""Folders and files that only their owner can change.

A data folder holds the token, the database with its Secrets, and the sockets by which a daemon starts
programs. Whoever can change it can run code as its owner. So a folder is used only if

- it is a directory of ours that neither group nor others may write to,
- it is not a link, unless the link is ours or root's,
- and nobody else can replace it or a folder above it: a folder above that others may write to has the sticky
  bit, as /tmp has. A group that is the user's own, as many systems give each user one, counts as the user.

Root is no exception: a folder of another user is not root's. The files in such a folder are opened without
following links, and must be regular files of ours. Since nobody else can change the folder, a check holds
until the next use.

Everything raises UnsafeFileError, an OSError whose text names the path, what is wrong and what to do.
"""

import contextlib
import errno
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

_MOST_LINKS: Final = 40
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ALL: Final = stat.S_IRWXG | stat.S_IRWXO
_ELSEWHERE: Final = "or name a folder of your own with --data-dir"


class UnsafeFileError(OSError):
    """A folder or file that somebody else could have changed; `strerror` and `hint` are for people."""

    def __init__(self, path: str | Path, problem: str, hint: str) -> None:
        super().__init__(errno.EPERM, problem, str(path))
        self.hint = hint

    @property
    def message(self) -> str:
        return f"can't use {self.filename}: {self.strerror}\n\nhint: {self.hint}"


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, for this user alone; one that is there is checked."""
    missing = [path]
    while not os.path.lexists(missing[-1].parent):
        missing.append(missing[-1].parent)
    _check_parent(_resolve(missing[-1].parent.absolute()))
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=_FOLDER_MODE)
            # mkdir's mode is subject to the umask, which may take rights from the owner.
            each.chmod(_FOLDER_MODE)
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise UnsafeFileError unless a folder is ours alone, and FileNotFoundError if there is none."""
    real = _resolve(path.absolute())
    found = real.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFileError(path, "it is not a folder", f"remove it, {_ELSEWHERE}")
    if found.st_uid != os.geteuid():
        owner, us = _user(found.st_uid), _user(os.geteuid())
        raise UnsafeFileError(
            path, f"it belongs to {owner}, and you are {us}", f"make one with `mkdir -m 700`, {_ELSEWHERE}"
        )
    if found.st_mode & _OTHERS_WRITE:
        problem = f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
        hint = f"look who has written there, then `chmod go-w {path}`, {_ELSEWHERE}"
        raise UnsafeFileError(path, problem, hint)


def check_contents(path: Path) -> None:
    """Raise UnsafeFileError if something in a folder is not ours: it may once have been open to others."""
    for entry in path.iterdir():
        found = entry.lstat()
        if found.st_uid != os.geteuid():
            raise UnsafeFileError(entry, f"it belongs to {_user(found.st_uid)}", "remove it")
        if stat.S_ISDIR(found.st_mode) and found.st_mode & _OTHERS_WRITE:
            problem = f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
            hint = f"look who has written there, then `chmod go-w {entry}`"
            raise UnsafeFileError(entry, problem, hint)


def _resolve(path: Path) -> Path:
    """Follow the links in an absolute path; each folder on the way can be changed by root and us alone."""
    done, waiting, links = Path("/"), list(path.parts[:0:-1]), 0
    while waiting:
        _check_parent(done)
        part = waiting.pop()
        if part == "..":
            done = done.parent
            continue
        found = (done / part).lstat()
        if not stat.S_ISLNK(found.st_mode):
            done /= part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UnsafeFileError(path, os.strerror(errno.ELOOP), "remove the link")
        if found.st_uid not in (0, os.geteuid()):
            problem = f"it is a link of {_user(found.st_uid)}"
            raise UnsafeFileError(done / part, problem, f"remove it, {_ELSEWHERE}")
        target = (done / part).readlink()
        if target.is_absolute():
            done = Path("/")
        waiting += [each for each in reversed(target.parts) if each != "/"]
    return done


def _check_parent(folder: Path) -> None:
    """Refuse a folder in which others could replace one of ours."""
    found = folder.lstat()
    others = found.st_mode & _OTHERS_WRITE
    if not others or found.st_mode & stat.S_ISVTX or not stat.S_ISDIR(found.st_mode):
        return
    if others == stat.S_IWGRP and found.st_uid == os.geteuid() and _is_own_group(found.st_gid):
        return
    problem = f"others may replace what is in it (mode {stat.S_IMODE(found.st_mode):04o})"
    raise UnsafeFileError(folder, problem, f"`chmod go-w {folder}`, {_ELSEWHERE}")


def _is_own_group(gid: int) -> bool:
    """Whether a group has this user alone in it: it is named as the user, and has no other member."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def open_file(path: Path, flags: int, *, refused: int = _OTHERS_WRITE) -> int:
    """Open a file of ours, and return a descriptor. The file is for its owner alone afterwards.

    `refused` are the rights of others that make it unsafe: with them, its content may be theirs, or known to
    them. Raises FileNotFoundError.
    """
    # Not to wait for whoever would write to a FIFO.
    wanted = flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, wanted & ~os.O_TRUNC, _FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UnsafeFileError(path, "it is not a regular file", "remove it") from error
        raise
    try:
        found = os.fstat(descriptor)
        _check_file(path, found, refused)
        if stat.S_IMODE(found.st_mode) != _FILE_MODE:
            os.fchmod(descriptor, _FILE_MODE)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_file(path: Path) -> None:
    """Raise UnsafeFileError for a file that is not ours; none at all is fine. Opens nothing."""
    with contextlib.suppress(FileNotFoundError):
        _check_file(path, path.lstat(), _OTHERS_WRITE)


def _check_file(path: Path, found: os.stat_result, refused: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFileError(path, "it is not a regular file", "remove it")
    if found.st_uid != os.geteuid():
        raise UnsafeFileError(path, f"it belongs to {_user(found.st_uid)}", "remove it")
    if others := stat.S_IMODE(found.st_mode) & refused:
        may = "write to" if others & _OTHERS_WRITE else "read"
        problem = f"others may {may} it (mode {stat.S_IMODE(found.st_mode):04o})"
        raise UnsafeFileError(path, problem, "remove it, and a new one is made")


def open_log(path: Path) -> BinaryIO:
    """Open a log to append to, made if there is none. What others could write into it does no harm."""
    return os.fdopen(open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, refused=0), "ab")


def read_file(path: Path) -> bytes:
    """Return the content of a file of ours. Raises OSError."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read()


def read_secret(path: Path) -> bytes:
    """As read_file; a file that others could read is refused."""
    with os.fdopen(open_file(path, os.O_RDONLY, refused=_OTHERS_ALL), "rb") as file:
        return file.read()


def write_file(path: Path, content: bytes) -> None:
    """Put a whole file in place at once, for its owner alone. Raises OSError; then nothing has changed."""
    temporary = ""
    try:
        # mkstemp makes a new file with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise
