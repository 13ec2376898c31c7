"""Processes of pods that no daemon looks after: found by what they were told of the data folder."""

import contextlib
import os
import signal
import time
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from bireme.node.remote_shell import PODS
from bireme.node.shims import MARKER
from bireme.run.presence import wait_gone

_MOST_ROUNDS = 10
"""What is killed may have had children meanwhile."""
_OUR_PYTHON: Final = [b"-I", b"-S", b"-c"]
_PODMANS: Final = (b"podman", b"conmon")
_PID_FILE: Final = b"--pidfile="
_PODS: Final = f"{PODS}=".encode()


def find(folder: Path) -> list[int]:
    """The processes of a data folder's pods and their shims; the daemon itself is none of them."""
    mark = f"{folder / 'node'}/".encode()
    pods = {f"{MARKER}={path.name}".encode() for path in (folder / "node/pods").glob("*")}
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and (_serves(pid, mark) or _is_of(pid, pods, mark))]


def end(folder: Path, seconds: float) -> int:
    """Wait for them so long, then kill what is left; return how many that were.

    Whoever holds the network of a job that is kept would wait for ever, and is ours: it does not count.
    """
    deadline = time.monotonic() + seconds
    for pid in find(folder):
        if not _holds_network(pid, folder):
            wait_gone(pid, max(0.0, deadline - time.monotonic()))
    killed = 0
    for _ in range(_MOST_ROUNDS):
        for pid in find(folder):
            is_ours = _holds_network(pid, folder)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += not is_ours
            wait_gone(pid, 1)
    return killed


def _holds_network(pid: int, folder: Path) -> bool:
    return any(_serves(pid, f"{folder / 'node'}/{name}".encode()) for name in ("networks/", "userns"))


def _serves(pid: int, mark: bytes) -> bool:
    """Whether it is a program of ours, or podman's for us, that was told the folder."""
    words = _read(pid, "cmdline")
    if words[1:4] == _OUR_PYTHON and b"bireme.node." in words[4]:
        return any(word.startswith(mark) for word in words[5:])
    is_podmans = words[0].rpartition(b"/")[2] in _PODMANS
    return is_podmans and any(word.removeprefix(_PID_FILE).startswith(mark) for word in words)


def _is_of(pid: int, pods: AbstractSet[bytes], mark: bytes) -> bool:
    """Whether its environment says that it is of one of these pods, or of another one in the folder."""
    return any(each in pods or each.startswith(_PODS + mark) for each in _read(pid, "environ"))


def _read(pid: int, name: str) -> list[bytes]:
    """The words of a file of a process; an empty one if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    return [b""]
