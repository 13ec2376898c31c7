"""Faults played on the processes of a running pod, embedded or on a node of this machine."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

DAEMONS: Final = ("prted", "orted", "torchrun")
"""What runs the ranks in a worker."""
_SANDBOX: Final = "pause"
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
ROUNDS: Final = int(os.environ.get("BIREME_ROUNDS", "1"))
"""How often each fault is played; `make certain` sets 20."""
STEPS: Final = """
for step in range(40):
    world.allreduce(step)
    os.write(1, b"step %d\\n" % step)
    time.sleep(0.25)
os.write(1, b"done %d\\n" % world.allreduce(1))
"""
"""A program of ten seconds: each rank prints `done` and the number of ranks, or the run was incomplete.

The fault must come before its end, also where a test sees the first steps some seconds late. Steps are few
because ranks that wait for one another spin, and tests run many jobs at once.
"""


def has_begun(output: str) -> bool:
    """Whether a program that prints its steps has done some."""
    return re.search(r"^step (?:[4-9]|\d\d)$", output, re.MULTILINE) is not None


def batches(at_once: int) -> list[range]:
    """Return the numbers of all rounds, so many in each batch."""
    return [range(start, min(start + at_once, ROUNDS)) for start in range(0, ROUNDS, at_once)]


def play_at_once(play: Callable[[int], None], batch: range) -> None:
    """Play every round of a batch in a thread of its own; raise the failures of all of them."""
    with ThreadPoolExecutor(len(batch)) as pool:
        futures = [pool.submit(play, number) for number in batch]
    failures = [failure for future in futures if isinstance(failure := future.exception(), Exception)]
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(batch)} rounds", failures)


def processes_of(uid: str) -> Iterator[tuple[int, str]]:
    """The processes of a pod by its UID, with their names; the shim and the sandbox are left out."""
    marker = f"BIREME_POD_UID={uid}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = uid in (folder / "cgroup").read_text() or marker in (folder / "environ").read_bytes()
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if inside and name not in (_SANDBOX, "bireme-shim"):
            yield int(folder.name), name


def kill_daemon(uid: str) -> None:
    for pid in _await_processes(uid, lambda name: name in DAEMONS):
        _kill(pid)


def kill_rank(uid: str) -> None:
    """Kill one rank of the pod."""
    _kill(max(_await_processes(uid, lambda name: name.startswith("python"))))


def kill_worker(uid: str) -> None:
    """Kill the first process of a worker's main container."""
    pids = [pid for pid, _ in processes_of(uid) if _is_first(pid) or _idles(pid)]
    assert pids, list(processes_of(uid))
    for pid in sorted(pids):
        _kill(pid)


def cut_off(uid: str) -> None:
    """Take the network from a pod that has one of its own: packets are dropped without a word."""
    pid = next(pid for pid, _ in processes_of(uid))
    subprocess.run(["nsenter", "-t", str(pid), "--net", "ip", "link", "set", "eth0", "down"], check=True)


def _await_processes(uid: str, is_wanted: Callable[[str], bool]) -> list[int]:
    """Return the processes of a pod with such names; ranks of another pod may begin some seconds earlier."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (pids := [pid for pid, name in processes_of(uid) if is_wanted(name)]):
        assert time.monotonic() < deadline, list(processes_of(uid))
        time.sleep(_POLL_SECONDS)
    return pids


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it went with another that was killed before


def _idles(pid: int) -> bool:
    """Whether a process is what workers of the embedded mode wait with."""
    try:
        return b"infinity" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _is_first(pid: int) -> bool:
    """Whether a process is the first of a PID namespace."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False  # it has ended meanwhile
    for line in lines:
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return len(numbers) > 1 and numbers[-1] == "1"
    return False
