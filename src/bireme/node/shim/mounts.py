"""A container's own view of the file system, in a mount namespace of its own.

A mount needs a place that is there. Where one is missing, the nearest folder above it is covered by an empty
one, into which all that it held is bound again; the missing part is made there. Nothing on the disk changes.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from bireme.node.shim import kernel

_ROOT: Final = "/"


def arrange(mounts: Sequence[dict[str, Any]], scratch: str) -> None:
    """Enter a new mount namespace, and mount [{source, target, read_only?}] or [{kind, target, options?}].

    `scratch` is an empty folder that serves as the root where something is missing right below it.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", _ROOT, flags=kernel.MS_REC | kernel.MS_PRIVATE)
    missing = [each["target"] for each in mounts if not os.path.exists(each["target"])]  # noqa: PTH110
    if any(_above(target) == _ROOT for target in missing):
        _cover_root(scratch)
    for each in mounts:
        _make_place(each)
        _mount(each)


def _mount(each: dict[str, Any]) -> None:
    target = each["target"]
    if kind := each.get("kind"):
        kernel.mount(kind, target, kind, 0, each.get("options", ""))
        return
    kernel.mount(each["source"], target, flags=kernel.MS_BIND | kernel.MS_REC)
    if each.get("read_only"):
        # What is locked by the outer namespace must stay so, or the kernel refuses.
        kept = _locked_flags(target)
        kernel.mount("none", target, flags=kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kept)


def _locked_flags(target: str) -> int:
    flags = os.statvfs(target).f_flag
    return flags & (
        os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
    )


def _make_place(each: dict[str, Any]) -> None:
    target = each["target"]
    if os.path.exists(target):  # noqa: PTH110
        return
    above = _above(target)
    if not os.access(above, os.W_OK) or above not in _covered:
        _cover(above)
    os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
    if each.get("kind") or os.path.isdir(each["source"]):  # noqa: PTH112
        os.mkdir(target)  # noqa: PTH102
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


_covered: set[str] = set()


def _above(path: str) -> str:
    """The nearest folder above a path that is there."""
    while not os.path.isdir(path := os.path.dirname(path)):  # noqa: PTH112, PTH120
        pass
    return path


def _cover(folder: str) -> None:
    """Lay an empty folder over one, with all that this held bound into it."""
    kept = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        kernel.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        _bind_entries(f"/proc/self/fd/{kept}", folder)
    finally:
        os.close(kept)
    _covered.add(folder)


def _cover_root(scratch: str) -> None:
    kernel.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    _bind_entries(_ROOT, scratch)
    os.chroot(scratch)
    os.chdir(_ROOT)
    _covered.add(_ROOT)


def _bind_entries(source: str, target: str) -> None:
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)  # noqa: PTH115, PTH211
            continue
        if entry.is_dir():
            os.mkdir(place)  # noqa: PTH102
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
        kernel.mount(entry.path, place, flags=kernel.MS_BIND | kernel.MS_REC)
