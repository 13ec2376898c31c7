"""Limits by cgroups of both versions, over a tree that looks as the kernel's does."""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from bireme.node.cgroups import LEAF, Limits, Made, settle, was_oom_killed

OWN = "/system.slice/bireme.service"
BOTH = {"limits": {"memory": "64Mi", "cpu": "1500m"}}
STRANGER = 1
"""The number of a process that is not ours."""


class Tree(NamedTuple):
    root: Path
    own: Path
    """What /proc/self/cgroup says."""

    @property
    def folder(self) -> Path:
        """The cgroup that we are in at first."""
        return self.root / OWN.lstrip("/")

    def settle(self) -> None:
        """And do what the kernel does with what is written: move processes, and hand controllers down."""
        settle(self.root, self.own)
        if not (leaf := self.folder / LEAF).exists():
            return
        (self.folder / "cgroup.procs").write_text("")
        control = self.folder / "cgroup.subtree_control"
        control.write_text(control.read_text().replace("+", ""))
        self.own.write_text(f"0::{OWN}/{leaf.name}\n")

    def limits(self) -> Limits:
        return Limits(self.root, self.own)

    def make(self, name: str) -> Made:
        """Make cgroups, in which the kernel would have put the files of a limit before."""
        folder = self.folder / f"bireme-{name}"
        folder.mkdir()
        for file in ("memory.max", "memory.swap.max", "cpu.max"):
            (folder / file).write_text("max\n")
        return self.limits().make(name, BOTH)


def second_version(tmp_path: Path, *processes: int, controllers: str = "cpuset cpu io memory pids") -> Tree:
    """A cgroup that holds these processes, and this one."""
    tree = Tree(tmp_path / "cgroup", tmp_path / "own")
    tree.folder.mkdir(parents=True)
    tree.own.write_text(f"0::{OWN}\n")
    (tree.folder / "cgroup.controllers").write_text(f"{controllers}\n")
    (tree.folder / "cgroup.subtree_control").write_text("\n")
    numbers = "".join(f"{pid}\n" for pid in (os.getpid(), *processes))
    (tree.folder / "cgroup.procs").write_text(numbers)
    return tree


def test_a_daemon_that_is_alone_in_its_cgroup_moves_into_a_leaf(tmp_path: Path) -> None:
    tree = second_version(tmp_path)
    assert tree.limits().offered == ()
    tree.settle()
    assert (tree.folder / LEAF / "cgroup.procs").read_text() == str(os.getpid())
    assert tree.limits().offered == ("memory", "cpu")


def test_to_settle_twice_is_to_settle_once(tmp_path: Path) -> None:
    tree = second_version(tmp_path)
    tree.settle()
    tree.settle()
    assert not (tree.folder / LEAF / LEAF).exists()
    assert tree.limits().offered == ("memory", "cpu")


def test_a_daemon_that_was_started_in_the_leaf_stays_there(tmp_path: Path) -> None:
    """As by systemd's DelegateSubgroup=, which leaves it to the daemon what is handed down."""
    tree = second_version(tmp_path)
    (tree.folder / LEAF).mkdir()
    (tree.folder / "cgroup.procs").write_text("")
    tree.own.write_text(f"0::{OWN}/{LEAF}\n")
    tree.settle()
    assert list((tree.folder / LEAF).iterdir()) == []
    assert tree.limits().offered == ("memory", "cpu")


def test_a_container_without_limits_has_no_cgroup_and_lacks_none(tmp_path: Path) -> None:
    assert second_version(tmp_path).limits().make("uid-main-0", {"requests": {"cpu": "1"}}) == Made([])


def test_limits_of_memory_and_cpu_are_set(tmp_path: Path) -> None:
    tree = second_version(tmp_path)
    tree.settle()
    made = tree.make("uid-main-0")
    folder = tree.folder / "bireme-uid-main-0"
    assert made == Made([str(folder)])
    said = {file.name: file.read_text() for file in folder.iterdir()}
    assert said == {"memory.max": str(64 << 20), "memory.swap.max": "0", "cpu.max": "150000 100000"}


UNUSABLE = {
    "somebody else is in it": {"processes": (STRANGER,)},
    "it has no controllers": {"controllers": "pids"},
}


@pytest.mark.parametrize("how", UNUSABLE.values(), ids=UNUSABLE)
def test_where_nothing_can_be_limited_nobody_is_moved_and_the_limits_are_named(
    tmp_path: Path, how: dict[str, object]
) -> None:
    processes: tuple[int, ...] = how.get("processes", ())  # type: ignore[assignment]
    tree = second_version(tmp_path, *processes, controllers=str(how.get("controllers", "cpu memory")))
    tree.settle()
    assert not (tree.folder / LEAF).exists()
    assert tree.limits().offered == ()
    assert tree.limits().make("uid-main-0", BOTH) == Made([], ("memory", "cpu"))


def test_what_is_handed_down_alone_is_limited_alone(tmp_path: Path) -> None:
    tree = second_version(tmp_path, controllers="memory pids")
    tree.settle()
    assert tree.limits().offered == ("memory",)
    assert tree.make("uid-main-0").missing == ("cpu",)


def test_a_machine_without_cgroups_offers_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "cgroup", tmp_path / "none")
    settle(*tree)
    assert tree.limits().offered == ()


def first_version(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "cgroup", tmp_path / "own")
    tree.own.write_text(f"4:memory:/a\n2:cpu,cpuacct:{OWN}\n1:name=systemd:/x\n")
    for folder in ("memory/a", f"cpu{OWN}"):
        (tree.root / folder).mkdir(parents=True)
    return tree


def test_limits_are_set_in_each_tree_of_the_first_version(tmp_path: Path) -> None:
    tree = first_version(tmp_path)
    tree.settle()
    memory, cpu = (tree.root / folder / "bireme-uid-main-0" for folder in ("memory/a", f"cpu{OWN}"))
    assert tree.limits().make("uid-main-0", BOTH) == Made([str(memory), str(cpu)])
    assert (memory / "memory.limit_in_bytes").read_text() == str(64 << 20)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"


def test_cgroups_go_with_their_pod_and_those_of_others_stay(tmp_path: Path) -> None:
    tree = second_version(tmp_path)
    tree.settle()
    for name in ("one-main-0", "one-main-1", "one-side-0", "two-main-0"):
        (tree.folder / f"bireme-{name}").mkdir()
    tree.limits().remove("one-main-1")
    tree.limits().clear("one")
    assert {each.name for each in tree.folder.iterdir() if each.is_dir()} == {LEAF, "bireme-two-main-0"}


COUNTS = {
    "second version, killed": ("memory.events", "low 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n", True),
    "second version, only reclaimed": ("memory.events", "max 9\noom 0\noom_kill 0\n", False),
    "first version, killed": ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
    "first version, at ease": ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
    "of another controller": ("cpu.stat", "nr_periods 3\n", False),
}


@pytest.mark.parametrize(("file", "text", "killed"), COUNTS.values(), ids=COUNTS)
def test_the_kernels_count_tells_who_lacked_memory(
    tmp_path: Path, file: str, text: str, killed: bool
) -> None:
    (tmp_path / file).write_text(text)
    assert was_oom_killed([str(tmp_path)]) is killed


def test_a_cgroup_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert not was_oom_killed([str(tmp_path / "gone")])
