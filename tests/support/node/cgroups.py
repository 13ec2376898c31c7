"""The control groups of a cluster's pods: made for it, and removed when all its processes are gone."""

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "bireme-node-"
_REMOVE_SECONDS: Final = 10


def make() -> str:
    """Make a group of this process's in every hierarchy, and return its name."""
    name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    for hierarchy in hierarchies():
        (hierarchy / name).mkdir()
    return name


def remove(name: str) -> None:
    """Remove the group with all below it; the kernel needs a moment after the last process has ended."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while left := [path for path in _groups(name) if not _removed(path)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes are left in {left}")
        time.sleep(0.05)


def remove_abandoned() -> None:
    """Remove what runs that were killed hard have left; those of a process that lives stay."""
    for hierarchy in hierarchies():
        for group in hierarchy.glob(f"{PREFIX}*"):
            owner = group.name.removeprefix(PREFIX).partition("-")[0]
            if not Path("/proc", owner).exists():
                for path in _below(group):
                    _removed(path)


def hierarchies() -> list[Path]:
    """Where groups are made: the unified tree, or each controller's."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink()]


def _groups(name: str) -> list[Path]:
    return [path for hierarchy in hierarchies() for path in _below(hierarchy / name)]


def _below(group: Path) -> Iterator[Path]:
    """The groups of a tree, the innermost first."""
    if not group.is_dir():
        return
    for child in group.iterdir():
        if child.is_dir():
            yield from _below(child)
    yield group


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
