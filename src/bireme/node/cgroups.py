"""Limits of memory and CPU, where this machine lets us set them; elsewhere they are advice.

Both versions of cgroups are known. In the second one a cgroup either holds processes or hands controllers
down; so the daemon moves into a leaf of its own cgroup, if nobody else is in that:

OWN                            hands memory and cpu down
OWN/bireme-daemon              the daemon and all that it starts, but for
OWN/bireme-UID-CONTAINER-0     the first attempt at a container
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bireme.api.quantity import QuantityError, parse_quantity

LEAF: Final = "bireme-daemon"
_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_CONTROLLERS: Final = ("memory", "cpu")
_CPUSET: Final = "cpuset"
_HANDED_DOWN: Final = (*_CONTROLLERS, _CPUSET)
_PERIOD: Final = 100_000
_NANOS: Final = 10**9


class Made(NamedTuple):
    """The folders of a container's cgroups, and the limits of it that nothing holds it to."""

    folders: list[str]
    missing: tuple[str, ...] = ()
    has_cpus: bool = True
    """Whether the container is held to the CPUs that it was given, if any."""


class Limits:
    """The cgroups below our own. Nothing is made before it is needed."""

    def __init__(self, root: Path = _ROOT, own: Path = _OWN) -> None:
        self._roots = _find_roots(root, own)

    @property
    def offered(self) -> tuple[str, ...]:
        """What can be limited: memory, cpu, both or neither."""
        return tuple(controller for controller in _CONTROLLERS if controller in self._roots)

    @property
    def can_pin(self) -> bool:
        """Whether a container can be held to some of the CPUs."""
        return _CPUSET in self._roots

    def make(self, name: str, resources: Mapping[str, Any], cpus: str = "") -> Made:
        """Make the cgroups that hold a container to its limits, and to a list of CPUs if one is given."""
        limits = resources.get("limits") or {}
        wanted = {
            "memory": _amount(limits.get("memory")) // _NANOS,
            "cpu": _amount(limits.get("cpu")) * _PERIOD // _NANOS,
        }
        made: dict[Path, None] = {}
        missing = []
        for controller, amount in wanted.items():
            try:
                if amount:
                    made[self._make(name, controller, amount)] = None
            except (OSError, LookupError):
                missing.append(controller)
        has_cpus = not cpus or self._pin(name, cpus, made)
        return Made([str(folder) for folder in made], tuple(missing), has_cpus)

    def _pin(self, name: str, cpus: str, folders: dict[Path, None]) -> bool:
        """Hold a cgroup to some CPUs. Add its folder, and return whether that is possible."""
        try:
            folder = self._roots[_CPUSET] / f"bireme-{name}"
            folder.mkdir(exist_ok=True)
            memory = folder / "cpuset.mems"
            if not memory.read_text().strip():
                # Version 1 of cgroups takes no process without memory nodes; version 2 inherits them.
                nodes = folder.parent / "cpuset.mems"
                memory.write_text(nodes.read_text() if nodes.exists() else "")
            (folder / "cpuset.cpus").write_text(cpus)
        except (OSError, LookupError):
            return False
        folders[folder] = None
        return True

    def _make(self, name: str, controller: str, amount: int) -> Path:
        folder = self._roots[controller] / f"bireme-{name}"
        folder.mkdir(exist_ok=True)
        _limit(folder, controller, amount)
        return folder

    def remove(self, name: str) -> None:
        """Twice is once; what still runs in it keeps it."""
        remove(root / f"bireme-{name}" for root in self._roots.values())

    def clear(self, uid: str) -> None:
        """Remove those of all containers of a pod."""
        for root in self._roots.values():
            remove(root.glob(f"bireme-{uid}-*"))


def remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def was_oom_killed(folders: Iterable[str]) -> bool:
    """Whether the kernel killed something in these cgroups for want of memory."""
    return any(_oom_kills(Path(folder)) > 0 for folder in folders)


def _oom_kills(folder: Path) -> int:
    for file in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            for line in (folder / file).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count)
    return 0


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


def settle(root: Path = _ROOT, own: Path = _OWN) -> None:
    """Move into a leaf, where that is what it takes to limit anything. Twice is once.

    To be called before other processes are started: those of strangers are left where they are.
    """
    with contextlib.suppress(OSError):
        path = next((path for controllers, path in _own(own) if not controllers), None)
        folder = None if path is None else _above_leaf(root, path)
        if folder is None or _handed_down(folder):
            return
        there = (folder / "cgroup.controllers").read_text().split()
        wanted = [controller for controller in _HANDED_DOWN if controller in there]
        residents = {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        if wanted and residents <= _ours():
            _move(folder, residents, wanted)


def _move(folder: Path, residents: Iterable[int], controllers: Iterable[str]) -> None:
    leaf = folder / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in residents:
        (leaf / "cgroup.procs").write_text(str(pid))
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in controllers))


def _ours() -> set[int]:
    """This process, and the command that has started it as a daemon, if one has."""
    own, parent = os.getpid(), os.getppid()
    with contextlib.suppress(OSError):
        if Path(f"/proc/{parent}/exe").samefile("/proc/self/exe"):
            return {own, parent}
    return {own}


def _own(file: Path) -> list[tuple[str, str]]:
    """The cgroups that this process is in: controllers, none for the second version, and path."""
    entries = (line.split(":", 2) for line in file.read_text().splitlines())
    return [(controllers, path) for _, controllers, path in entries]


def _find_roots(root: Path, own: Path) -> dict[str, Path]:
    """The folder below which cgroups can be made, for each controller that can."""
    found: dict[str, Path] = {}
    try:
        cgroups = _own(own)
    except OSError:
        return found
    for controllers, path in cgroups:
        if not controllers:
            found |= _second_version(root, path)
            continue
        for controller in controllers.split(","):
            folder = root / controllers / path.lstrip("/")
            folder = folder if folder.is_dir() else root / controller / path.lstrip("/")
            if controller in _HANDED_DOWN and os.access(folder, os.W_OK):
                found[controller] = folder
    return found


def _second_version(root: Path, path: str) -> dict[str, Path]:
    folder = _above_leaf(root, path)
    return dict.fromkeys(_handed_down(folder), folder) if os.access(folder, os.W_OK) else {}


def _above_leaf(root: Path, path: str) -> Path:
    """Our own cgroup, also where we are in its leaf already: a service manager can start us there."""
    folder = root / path.lstrip("/")
    return folder.parent if folder.name == LEAF else folder


def _handed_down(folder: Path) -> list[str]:
    """What cgroups below this one can limit."""
    try:
        there = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
    return [controller for controller in _HANDED_DOWN if controller in there]
