"""The cluster of one node is a guest: the machine does not notice it, and nothing of it stays."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.fixtures import unavailable
from support.node import cgroups, recipes
from support.node.cluster import OneNodeCluster, missing

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

FOLDERS: Final = (
    "/etc/cni", "/etc/kubernetes", "/opt/containerd", "/run/cni", "/run/containerd", "/run/netns",
    "/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet",
    "/var/log/containers", "/var/log/pods",
)  # fmt: skip
SETTINGS: Final = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
)  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNodeCluster]:
    reason = missing() or (None if recipes.are_made() else "no images: run `make e2e`")
    if reason:
        raise unavailable(reason)
    new = OneNodeCluster(recipes.archive("pause"), tmp_path)
    yield new
    new.stop()


def machine() -> dict[str, object]:
    """What a node would change on the machine that it runs on."""
    return {
        "links": _said("ip", "-o", "link"),
        "routes": _said("ip", "route"),
        "rules": _said("nft", "list", "ruleset"),
        "folders": {name: _listing(Path(name)) for name in FOLDERS},
        "settings": {name: _setting(name) for name in SETTINGS},
    }


def _said(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def _listing(folder: Path) -> list[str] | None:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else None


def _setting(name: str) -> str | None:
    path = Path("/proc/sys", name)
    return path.read_text() if path.exists() else None


def own_groups() -> list[Path]:
    return [path for tree in cgroups.hierarchies() for path in tree.glob(f"{cgroups.PREFIX}*")]


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder, this process's own aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and path.parent.name != str(os.getpid()):
            found.append(words)
    return found


def test_the_machine_is_the_same_while_it_runs_and_afterwards(node: OneNodeCluster, tmp_path: Path) -> None:
    cgroups.remove_abandoned()
    groups, before = own_groups(), machine()
    node.start()
    assert machine() == before
    assert len(own_groups()) > len(groups)
    node.stop()
    assert machine() == before
    assert own_groups() == groups
    assert (processes_of(tmp_path), list(tmp_path.iterdir())) == ([], [])
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_it_dies_with_whoever_started_it(node: OneNodeCluster, tmp_path: Path) -> None:
    node.start()
    assert processes_of(tmp_path)
    node.kill()
    deadline = time.monotonic() + 30
    while left := processes_of(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
