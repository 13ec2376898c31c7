"""What tests must not leave behind."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bireme.node.shim.tree import Process, all_processes, descendants, kill

_MOST_ROUNDS: Final = 100
_PAUSE_SECONDS: Final = 0.02


def processes_with(text: str) -> list[str]:
    """The commands of processes, other than this one, that have a text in their arguments or environment."""
    return [said[:200].replace(b"\0", b" ").decode(errors="replace") for _, said in _found(text)]


def mounts_with(text: str) -> list[str]:
    """Where something is mounted whose source or place has a text in it."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if text in line]


def cgroups_with(text: str) -> list[str]:
    """The cgroups that have a text in their name."""
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if text in folder.rpartition("/")[2]]


def kill_with(text: str) -> None:
    """Kill those that `processes_with` finds and all that came from them, until there are none."""
    for _ in range(_MOST_ROUNDS):
        found = [process for process, _ in _found(text)]
        doomed = [*found, *descendants(process.pid for process in found)]
        if not kill(process for process in doomed if process.pid != os.getpid()):
            return
        time.sleep(_PAUSE_SECONDS)


def _found(text: str) -> Iterator[tuple[Process, bytes]]:
    for process in all_processes():
        with contextlib.suppress(OSError):
            if process.pid == os.getpid() or process.is_zombie:
                continue
            said = b"".join(
                Path(f"/proc/{process.pid}/{file}").read_bytes() for file in ("cmdline", "environ")
            )
            if text.encode() in said:
                yield process, said
