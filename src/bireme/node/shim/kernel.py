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
MS_RDONLY: Final = 1
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_MOVE: Final = 8192
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MS_SLAVE: Final = 1 << 19


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


def join(path: str, flags: int) -> None:
    """Enter a namespace that another process is in."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        join_descriptor(descriptor, flags)
    finally:
        os.close(descriptor)


def join_descriptor(descriptor: int, flags: int) -> None:
    _check(_libc.setns(descriptor, flags))


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


def _check(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
