"""Limits of memory and CPU, where this machine lets us set them.

Both versions of cgroups are known. Without the right to make one, limits are advice; `is_offered` tells.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bireme.api.quantity import QuantityError, parse_quantity

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD: Final = 100_000
_NANOS: Final = 10**9


class Limits:
    """The cgroups below our own. Nothing is made before it is needed."""

    def __init__(self, root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> None:
        self._roots = _find_roots(root, own)

    @property
    def is_offered(self) -> bool:
        return "memory" in self._roots

    def make(self, name: str, resources: Mapping[str, Any]) -> list[str]:
        """The folders of a container's cgroups; none where there is nothing to hold it to."""
        limits = resources.get("limits") or {}
        wanted = {
            "memory": _amount(limits.get("memory")) // _NANOS,
            "cpu": _amount(limits.get("cpu")) * _PERIOD // _NANOS,
        }
        made: dict[Path, None] = {}
        for controller, amount in wanted.items():
            root = self._roots.get(controller)
            if amount and root is not None:
                with contextlib.suppress(OSError):
                    folder = root / f"bireme-{name}"
                    folder.mkdir(exist_ok=True)
                    _limit(folder, controller, amount)
                    made[folder] = None
        return [str(folder) for folder in made]

    def was_oom_killed(self, name: str) -> bool:
        """Whether the kernel killed something in a container for want of memory."""
        root = self._roots.get("memory")
        if root is None:
            return False
        for file in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (root / f"bireme-{name}" / file).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill" and int(count) > 0:
                        return True
        return False

    def remove(self, name: str) -> None:
        """Twice is once; what still runs in it keeps it."""
        for root in set(self._roots.values()):
            with contextlib.suppress(OSError):
                (root / f"bireme-{name}").rmdir()


def _amount(quantity: object) -> int:
    """In billionths."""
    try:
        return int(parse_quantity(str(quantity)).nanos) if quantity is not None else 0
    except QuantityError:
        return 0


def _limit(folder: Path, controller: str, amount: int) -> None:
    """By the files of whichever version this is."""
    if controller == "memory":
        v2, v1 = (folder / "memory.max", str(amount)), (folder / "memory.limit_in_bytes", str(amount))
        swap = folder / "memory.swap.max"
    else:
        v2 = (folder / "cpu.max", f"{max(1000, amount)} {_PERIOD}")
        v1 = (folder / "cpu.cfs_quota_us", str(max(1000, amount)))
        swap = None
    file, text = v2 if v2[0].exists() else v1
    file.write_text(text)
    if swap is not None and swap.exists():
        with contextlib.suppress(OSError):
            swap.write_text("0")


def _find_roots(root: Path, own: Path) -> dict[str, Path]:
    """The folder below which cgroups can be made, for each controller that can."""
    found: dict[str, Path] = {}
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found |= _second_version(root, path)
            continue
        for controller in controllers.split(","):
            folder = root / controllers / path.lstrip("/")
            folder = folder if folder.is_dir() else root / controller / path.lstrip("/")
            if controller in ("memory", "cpu") and os.access(folder, os.W_OK):
                found[controller] = folder
    return found


def _second_version(root: Path, path: str) -> dict[str, Path]:
    folder = root / path.lstrip("/")
    with contextlib.suppress(OSError):
        offered = (folder / "cgroup.subtree_control").read_text().split()
        if os.access(folder, os.W_OK):
            return {controller: folder for controller in ("memory", "cpu") if controller in offered}
    return {}
