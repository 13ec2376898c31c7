"""Ports that two pods both want: which, and whose they are.

Pods share this machine's network unless their job gives them addresses of their own.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bireme.node.shims import MARKER

_TAKEN: Final = ("ddress already in use", "EADDRINUSE")
_LISTENS: Final = "0A"
_MOST: Final = 3
_SOCKET: Final = "socket:["


def explain_taken(said: str, fellows: Mapping[str, str], *, isolated: bool) -> str:
    """Why a pod that said this could not listen: who of its fellows, by UID and name, does so already.

    Empty where it said nothing of the kind, or nobody is found.
    """
    if not any(words in said for words in _TAKEN):
        return ""
    held = list(_held_by(fellows))[:_MOST]
    if not held:
        return ""
    told = " and ".join(f"port {port} is taken by {name}" for port, name in held)
    fix = (
        "name the port in spec.service.ports, and each replica has an address of its own"
        if isolated
        else "let each replica have a port of its own, or allow user namespaces on this machine"
    )
    return f"bireme: {told}: they share this machine's network\nhint: {fix}"


def _held_by(fellows: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The ports on which pods listen, with their names."""
    listening = dict(_listening())
    found: dict[tuple[int, str], None] = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            name = _fellow(process, fellows) if process.name.isdigit() else ""
            for inode in _sockets(process) if name else ():
                if inode in listening:
                    found[listening[inode], name] = None
    return iter(sorted(found))


def _listening() -> Iterator[tuple[str, int]]:
    """The inodes of sockets that listen, with their ports."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    yield fields[9], int(fields[1].rpartition(":")[2], 16)


def _fellow(process: Path, fellows: Mapping[str, str]) -> str:
    for entry in (process / "environ").read_bytes().split(b"\0"):
        name, _, value = entry.decode(errors="replace").partition("=")
        if name == MARKER:
            return fellows.get(value, "")
    return ""


def _sockets(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)  # noqa: PTH115 - no path, but a name
            if target.startswith(_SOCKET):
                yield target[len(_SOCKET) : -1]
