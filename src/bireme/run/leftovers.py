"""Processes of pods that no daemon looks after: found by the data folder that they all know."""

import contextlib
import os
import signal
import time
from pathlib import Path

from bireme.run.presence import wait_gone

_MOST_ROUNDS = 10
"""What is killed may have had children meanwhile."""


def find(folder: Path) -> list[int]:
    """The processes of a data folder's pods and their shims; the daemon itself is none of them."""
    mark = f"{folder / 'node'}/".encode()
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _knows(pid, mark)]


def end(folder: Path, seconds: float) -> int:
    """Wait for them so long, then kill what is left; return how many that were."""
    deadline = time.monotonic() + seconds
    for pid in find(folder):
        wait_gone(pid, max(0.0, deadline - time.monotonic()))
    killed = 0
    for _ in range(_MOST_ROUNDS):
        for pid in find(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
            wait_gone(pid, 1)
    return killed


def _knows(pid: int, mark: bytes) -> bool:
    """Whether a process has the folder in its command line or its environment; not if it has ended."""
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/{name}").read_bytes():
                return True
    return False
