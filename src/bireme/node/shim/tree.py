"""Who descends from whom, by /proc."""

import os
import signal
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    parent: int
    start: int
    """In clock ticks since boot: a pid with another start is another process."""
    is_zombie: bool


def read_process(pid: int) -> Process | None:
    """A process as it is now; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs the shim its start
            text = file.read()
    except OSError:
        return None
    # The name stands in brackets, and may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"))


def all_processes() -> Iterator[Process]:
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit() and (process := read_process(int(entry))) is not None:
            yield process


def descendants(roots: Iterable[int], known: Iterable[Process] | None = None) -> list[Process]:
    """All that descend from these, without them; zombies too."""
    children: dict[int, list[Process]] = {}
    for process in all_processes() if known is None else known:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = list(roots)
    while waiting:
        below = children.get(waiting.pop(), ())
        found += below
        waiting += [process.pid for process in below]
    return found


def kill(processes: Iterable[Process], signum: int = signal.SIGKILL) -> int:
    """Signal those that are still the ones they were; return how many."""
    count = 0
    for process in processes:
        now = read_process(process.pid)
        if now is None or now.is_zombie or now.start != process.start:
            continue
        try:
            os.kill(process.pid, signum)
        except ProcessLookupError:
            continue
        count += 1
    return count
