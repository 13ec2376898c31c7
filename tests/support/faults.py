"""Faults played on the processes of a running pod, embedded or on a node of this machine."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DAEMONS: Final = ("prted", "orted", "torchrun")
"""What runs the ranks in a worker."""
_SANDBOX: Final = "pause"
ROUNDS: Final = int(os.environ.get("BIREME_ROUNDS", "1"))
"""How often each fault is played; `make certain` sets 20."""
STEPS: Final = """
for step in range(40):
    world.allreduce(step)
    print("step", step, flush=True)
    time.sleep(0.1)
os.write(1, b"done %d\\n" % world.allreduce(1))
"""
"""A program of some seconds: each rank prints `done` and the number of ranks, or the run was incomplete."""


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
    pids = [pid for pid, name in processes_of(uid) if name in DAEMONS]
    assert pids, list(processes_of(uid))
    for pid in pids:
        _kill(pid)


def kill_rank(uid: str) -> None:
    """Kill one rank of the pod."""
    pids = [pid for pid, name in processes_of(uid) if name.startswith("python")]
    assert pids, list(processes_of(uid))
    _kill(max(pids))


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
