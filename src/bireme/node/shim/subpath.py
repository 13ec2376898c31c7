"""Open `subPath` of a volume without leaving the volume.

Containers write into volumes, and so may put a symbolic link where a later container's `subPath` leads. The
path is therefore opened one component at a time, each relative to the descriptor of the one above it, and a
component that is a symbolic link is an error. Missing components become directories. The result is a
descriptor: it names the directory or file that was checked, whatever happens to its name afterwards, and is
mounted as `/proc/self/fd/N`.

The kernel checks each component where it has openat2 (Linux 5.6); elsewhere, and where a seccomp filter
hides that call, openat with O_NOFOLLOW does. Volumes that the node agent writes itself (ConfigMap, Secret,
downwardAPI, projected) have links of its own making: `..data` names the directory with their content, and
is resolved first. No container can write there. It imports the standard library only.
"""

import errno
import os
import stat
from typing import Final

from bireme.node.shim import kernel

_DATA: Final = "..data"
_UP: Final = ".."
_RESOLVE: Final = kernel.RESOLVE_IN_ROOT | kernel.RESOLVE_NO_SYMLINKS | kernel.RESOLVE_NO_MAGICLINKS
_NO_OPENAT2: Final = (errno.ENOSYS, errno.EPERM)


class SubPathError(OSError):
    """A subPath leads out of its volume, or can't be opened; `strerror` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EINVAL, why)


def split(path: str) -> list[str]:
    """Return the components of a subPath. Raises SubPathError for one that is absolute or goes up."""
    if path.startswith("/"):
        raise SubPathError(f"{path!r} must be a relative path")
    components = [part for part in path.split("/") if part not in ("", ".")]
    if _UP in components:
        raise SubPathError(f"{path!r} must not contain '..'")
    if "\0" in path:
        raise SubPathError(f"{path!r} must not contain a NUL byte")
    return components


def open_beneath(
    volume: str, path: str, *, is_written: bool = False, mode: int = 0o755, has_openat2: bool = True
) -> int:
    """Open a subPath of a volume, as an O_PATH descriptor. Raises SubPathError.

    `is_written` says that the node agent wrote the volume's content, `mode` is that of directories that are
    made.
    """
    components = split(path)
    current = os.open(volume, os.O_PATH | os.O_CLOEXEC)
    try:
        if is_written and components:
            components = [_content(current), *components]
        for component in components:
            below = _open_or_make(current, component, path, mode, has_openat2=has_openat2)
            os.close(current)
            current = below
    except BaseException:
        os.close(current)
        raise
    return current


def _content(volume: int) -> str:
    """The directory that `..data` names, which is right below the volume."""
    try:
        name = os.readlink(_DATA, dir_fd=volume)
    except OSError as error:
        raise SubPathError(f"the volume has no content: {error.strerror}") from error
    if "/" in name or not name.startswith(_UP) or name == _UP:
        raise SubPathError(f"{_DATA} leads out of the volume")
    return name


def _open_or_make(parent: int, name: str, path: str, mode: int, *, has_openat2: bool) -> int:
    try:
        try:
            return _open(parent, name, has_openat2=has_openat2)
        except FileNotFoundError:
            return _make(parent, name, mode, has_openat2=has_openat2)
    except SubPathError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SubPathError(
                f"{path!r}: {name!r} is a symbolic link, which a subPath must not follow"
            ) from error
        raise SubPathError(f"{path!r}: {name!r}: {error.strerror}") from error


def _make(parent: int, name: str, mode: int, *, has_openat2: bool) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        # Another container of the pod was faster.
        return _open(parent, name, has_openat2=has_openat2)
    made = _open(parent, name, has_openat2=has_openat2)
    if stat.S_ISDIR(os.fstat(made).st_mode):
        # By the descriptor: a name could be another file by now. The umask does not apply.
        os.chmod(f"/proc/self/fd/{made}", mode)  # noqa: PTH101
    return made


def _open(parent: int, name: str, *, has_openat2: bool) -> int:
    """Open one component; ELOOP if it is a symbolic link."""
    if has_openat2:
        try:
            return kernel.openat2(parent, name, os.O_PATH | os.O_CLOEXEC, _RESOLVE)
        except OSError as error:
            if error.errno not in _NO_OPENAT2:
                raise
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return found
