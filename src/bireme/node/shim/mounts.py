"""A container's own view of the file system, in a mount namespace of its own.

A mount needs a place that is there. Where one is missing, the nearest folder above it is covered by an empty
one, into which all that it held is bound again; the missing part is made there. Nothing on the disk changes.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from bireme.node.shim import kernel, subpath

_ROOT: Final = "/"
_DEVICES: Final = "/dev"
_TERMINALS: Final = "ptmx"
_MACHINE: Final = ".machine"


def arrange(mounts: Sequence[dict[str, Any]], scratch: str) -> None:
    """Enter a new mount namespace, and mount [{source, target, read_only?, sub_path?, is_written?}].

    `source` is a volume or a file, `sub_path` the part of it that is mounted (`subpath.open_beneath`).

    `scratch` is an empty folder: the root where something is missing right below it, and a place in passing.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", _ROOT, flags=kernel.MS_REC | kernel.MS_PRIVATE)
    missing = [each["target"] for each in mounts if not os.path.exists(each["target"])]  # noqa: PTH110
    if any(_above(target) == _ROOT for target in missing):
        _cover_root(scratch)
    # A mount hides what is below it.
    for each in sorted(mounts, key=lambda each: str(each["target"]).count("/")):
        source = _open_source(each)
        try:
            _make_place(each["target"], scratch, is_folder=os.path.isdir(source))  # noqa: PTH112
            _mount(source, each)
        finally:
            os.close(int(source.rpartition("/")[2]))
        _mounted.append(each["target"])


def add_device_file(path: str, scratch: str) -> None:
    """Make an empty file among the devices, for something to be mounted on, in this mount namespace only."""
    if not os.path.exists(path):  # noqa: PTH110
        _cover_devices(scratch)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _open_source(each: dict[str, Any]) -> str:
    """Return a path that names what is mounted, and nothing else even if names in the volume change."""
    is_written = bool(each.get("is_written"))
    opened = subpath.open_beneath(each["source"], each.get("sub_path", ""), is_written=is_written)
    return f"/proc/self/fd/{opened}"


def _mount(source: str, each: dict[str, Any]) -> None:
    target = each["target"]
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)
    if each.get("read_only"):
        # What is locked by the outer namespace must stay so, or the kernel refuses.
        kept = _locked_flags(target)
        kernel.mount("none", target, flags=kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kept)


def _locked_flags(target: str) -> int:
    flags = os.statvfs(target).f_flag
    return flags & (
        os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
    )


def _make_place(target: str, scratch: str, *, is_folder: bool) -> None:
    if os.path.exists(target):  # noqa: PTH110
        return
    above = _above(target)
    if not (above in _covered or _is_mounted(above)) or not os.access(above, os.W_OK):
        _cover(above, scratch)
    os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
    if is_folder:
        os.mkdir(target)  # noqa: PTH102
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


_covered: set[str] = set()
_mounted: list[str] = []


def _is_mounted(folder: str) -> bool:
    """Whether it is in a volume: as with container runtimes, what is missing there is made in the volume."""
    return any(folder == target or folder.startswith(f"{target}/") for target in _mounted)


def _above(path: str) -> str:
    """The nearest folder above a path that is there."""
    while not os.path.isdir(path := os.path.dirname(path)):  # noqa: PTH112, PTH120
        pass
    return path


def _cover(folder: str, scratch: str) -> None:
    """Lay an empty folder over one, with all that this held bound into it."""
    if folder == _DEVICES:
        _cover_devices(scratch)
        return
    kept = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        kernel.mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        _bind_entries(f"/proc/self/fd/{kept}", folder)
    finally:
        os.close(kept)
    _covered.add(folder)


def _cover_devices(scratch: str) -> None:
    """As any folder; but where terminals come from the kernel wants to find `pts` beside it, in one mount.

    The machine's consoles are left out: nothing in a pod wants them, and they are most of what there is.
    """
    whole = f"{_DEVICES}/{_MACHINE}"
    kernel.mount(_DEVICES, scratch, flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.mount("tmpfs", _DEVICES, "tmpfs", 0, "mode=755")
    os.mkdir(whole)  # noqa: PTH102
    kernel.mount(scratch, whole, flags=kernel.MS_MOVE)
    _bind_entries(whole, _DEVICES, but=_is_console)
    if not os.path.lexists(f"{_DEVICES}/{_TERMINALS}"):
        os.symlink(f"{_MACHINE}/{_TERMINALS}", f"{_DEVICES}/{_TERMINALS}")  # noqa: PTH211
    _covered.add(_DEVICES)


def _is_console(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name == _TERMINALS:
        return not entry.is_symlink()
    return name.startswith("vcs") or (name.startswith("tty") and name[3:].isdigit())


def _cover_root(scratch: str) -> None:
    kernel.mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    _bind_entries(_ROOT, scratch)
    os.chroot(scratch)
    os.chdir(_ROOT)
    _covered.add(_ROOT)


def _bind_entries(
    source: str, target: str, but: Callable[[os.DirEntry[str]], bool] = lambda _: False
) -> None:
    for entry in os.scandir(source):
        if but(entry):
            continue
        place = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)  # noqa: PTH115, PTH211
            continue
        if entry.is_dir():
            os.mkdir(place)  # noqa: PTH102
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
        kernel.mount(entry.path, place, flags=kernel.MS_BIND | kernel.MS_REC)
