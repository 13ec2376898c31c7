"""What an attendant does to volumes before podman mounts them.

It runs where podman runs: as root, or in podman's user namespace, where an ordinary user has the group IDs
that containers have. Containers of the same pod may write into the volumes meanwhile, so files are changed
by descriptor, never by path, and links are left alone. It imports the standard library only.
"""

import contextlib
import os
import stat
from typing import Any, Final

from bireme.node.shim import kernel, subpath

_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST: Final = 200
"""How many folders in each other are given to a group; each costs a descriptor."""


def open_volume(path: str, mode: int | None, group: int | None) -> None:
    """Set the mode of a volume's folder, and the group of all that is in it; None leaves them alone."""
    opened = os.open(path, _PATH)
    try:
        if group is not None:
            _share(opened, group, _DEEPEST)
        if mode is not None:
            os.chmod(f"/proc/self/fd/{opened}", mode)  # noqa: PTH101
    finally:
        os.close(opened)


def _share(opened: int, group: int, depth: int) -> None:
    """Give a file or a folder, and all that is in it, to a group. Links are left alone."""
    kind, own = os.fstat(opened).st_mode, f"/proc/self/fd/{opened}"
    if stat.S_ISLNK(kind):
        return
    os.chown(own, -1, group)
    if stat.S_ISREG(kind):
        os.chmod(own, stat.S_IMODE(kind) | 0o040)  # noqa: PTH101
    elif stat.S_ISDIR(kind) and depth:
        for name in os.listdir(own):  # noqa: PTH208
            # What is gone by now is another container's business.
            with contextlib.suppress(FileNotFoundError):
                below = os.open(name, _PATH, dir_fd=opened)
                try:
                    _share(below, group, depth - 1)
                finally:
                    os.close(below)


def bind_sub_paths(mounts: list[dict[str, Any]]) -> None:
    """Mount [{source, sub_path, is_written, place}] in a mount namespace of this process's own.

    podman opens what it mounts by name, and a container could change that name in between. `place` is a
    path that no container can reach. What is mounted there goes with the namespace.
    """
    if not mounts:
        return
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    for each in mounts:
        is_written, place = bool(each["is_written"]), each["place"]
        source = subpath.open_beneath(each["source"], each["sub_path"], is_written=is_written, mode=0o777)
        try:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
            if stat.S_ISDIR(os.fstat(source).st_mode):
                os.makedirs(place, exist_ok=True)  # noqa: PTH103
            else:
                os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            kernel.mount(f"/proc/self/fd/{source}", place, flags=kernel.MS_BIND | kernel.MS_REC)
        finally:
            os.close(source)
