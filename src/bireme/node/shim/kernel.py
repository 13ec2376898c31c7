"""What the standard library does not offer of Linux."""

import ctypes
import os
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NAME: Final = 15
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
_NAMESPACES: Final = {CLONE_NEWUSER: "user", CLONE_NEWNS: "mnt", CLONE_NEWNET: "net"}
MS_RDONLY: Final = 1
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_MOVE: Final = 8192
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MS_SLAVE: Final = 1 << 19
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_IN_ROOT: Final = 0x10
_SYS_OPENAT2: Final = 437
"""The same number on all architectures."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def become_subreaper() -> None:
    """Orphans among our descendants become our children, whatever they do to get away."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def die_with_parent(signum: int) -> None:
    """In a new child: go when the parent goes."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0))


def detach() -> None:
    """Let the process that was started end, and go on as a child of nobody in particular."""
    if os.fork():
        os._exit(0)


def set_name(name: str) -> None:
    """What `ps` shows; at most 15 letters."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0))


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags))


def unshare_user() -> None:
    """A user namespace in which everybody stays who they are: uid and gid are mapped to themselves."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    for path, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{path}", "w") as file:  # noqa: PTH123 - pathlib costs the shim its start
            file.write(text)


def join_process(pid: int, flags: int) -> None:
    """Enter namespaces of another process: its user namespace first, which permits the others."""
    wanted = [(name, flag) for flag, name in _NAMESPACES.items() if flags & flag]
    opened = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), flag) for name, flag in wanted]
    try:
        for descriptor, flag in opened:
            _check(_libc.setns(descriptor, flag))
    finally:
        for descriptor, _ in opened:
            os.close(descriptor)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    _check(
        _libc.mount(
            source.encode(),
            target.encode(),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        ),
        target,
    )


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """Open a path relative to a directory, as openat2(2) with these RESOLVE_ flags."""
    how = _OpenHow(flags, 0, resolve)
    number = ctypes.c_long(_SYS_OPENAT2)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    opened: int = _libc.syscall(number, directory, os.fsencode(path), ctypes.byref(how), size)
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return opened


def _check(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
