"""Programs of MPI and ColossalAI jobs listen on loopback, or in a network that nobody else is in."""

import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.node.shim.tree import all_processes
from bireme.testing.leftovers import processes_with
from support.fixtures import unavailable
from support.here import Here, Object, eventually, generic, replica
from support.listeners import Listener, find_listeners, network_of
from support.mpi_rounds import build_job, find

pytestmark = pytest.mark.xdist_group("here")

CASES = [(version, workers) for version in ("5.0", "4.1") for workers in (1, 2)]
READY = """
world.barrier()
open(FILE + str(world.rank), "w").close()
while os.path.exists(FILE + "hold"): time.sleep(0.1)
"""


@pytest.fixture(autouse=True)
def _uplink() -> None:
    if shutil.which("slirp4netns") is None:
        raise unavailable("no slirp4netns: apt-get install slirp4netns")


def processes_of(here: Here, job: Object) -> Iterator[int]:
    """The processes of a job's pods, which have its pods' UIDs in their environment."""
    uids = [
        here.pod(name)["metadata"]["uid"].encode()
        for name in here.pods()
        if name.startswith(job["metadata"]["name"])
    ]
    for process in all_processes():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if any(uid in environment for uid in uids):
            yield process.pid


def held(here: Here, job: Object, folder: Path, ranks: int) -> list[Listener]:
    """Start a job whose ranks wait for a file to go; return what it listens on."""
    (folder / "hold").touch()
    made = here.create(job)
    eventually(lambda: all((folder / str(rank)).exists() for rank in range(ranks)), lambda: here.pods())
    return find_listeners(processes_of(here, made))


@pytest.mark.parametrize(("version", "workers"), CASES)
def test_mpi_listens_where_nobody_else_is(here: Here, tmp_path: Path, version: str, workers: int) -> None:
    if find(version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    code = READY.replace("FILE", repr(f"{tmp_path}/"))
    job = build_job(f"listen-{workers}", code, (version, workers, 2))
    listeners = held(here, job, tmp_path, workers * 2)
    programs = {each.program for each in listeners}
    assert programs >= ({"prterun", "prted"} if version == "5.0" else {"mpirun", "orted"})
    assert [each for each in listeners if each.is_open_to_others] == []
    assert {each.namespace for each in listeners}.isdisjoint({network_of("self")})
    (tmp_path / "hold").unlink()
    assert here.end_of(job)["phase"] == "Succeeded"


def test_mpi_is_in_the_machines_network_if_the_job_says_so(here: Here, tmp_path: Path) -> None:
    job = build_job("open", READY.replace("FILE", repr(f"{tmp_path}/")), ("5.0", 2, 1))
    job["spec"]["worker"]["template"]["spec"]["hostNetwork"] = True
    listeners = held(here, job, tmp_path, 2)
    assert {each.namespace for each in listeners} == {network_of("self")}
    (tmp_path / "hold").unlink()
    assert here.end_of(job)["phase"] == "Succeeded"


STORE = """#!/usr/bin/env python3
import os, pathlib, socket, sys, time
folder = pathlib.Path(FOLDER)
rank = next(word.partition("=")[2] for word in sys.argv if word.startswith("--node_rank="))
port = next(word.partition("=")[2] for word in sys.argv if word.startswith("--master_port="))
if rank == "0":
    # As torchrun's store does.
    store = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
else:
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(port)))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
(folder / rank).touch()
while (folder / "hold").exists():
    time.sleep(0.1)
"""


def test_the_store_of_torchrun_listens_where_nobody_else_is(here: Here, tmp_path: Path) -> None:
    """A program stands in for torchrun: it listens on all addresses, as that does."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text(STORE.replace("FOLDER", repr(str(tmp_path))))
    (programs / "torchrun").chmod(0o755)
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "ColossalAIJob",
        "metadata": {"name": "store", "annotations": {"bireme.dev/path": f"{programs}:/usr/bin:/bin"}},
        "spec": {
            "launcher": {"image": "none"},
            "worker": {
                "replicas": 2,
                "procPerWorker": 1,
                "command": ["train.py"],
                "template": {"spec": {"containers": [{"name": "worker", "image": "none"}]}},
            },
        },
    }
    listeners = held(here, job, tmp_path, 2)
    assert [each.address for each in listeners] == ["::"]
    assert [each for each in listeners if each.is_open_to_others] == []
    (tmp_path / "hold").unlink()
    assert here.end_of(job)["phase"] == "Succeeded"


OUT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as client:
    sys.exit(client.recv(9) != b"hello")
"""


def test_ranks_reach_the_outside(here: Here, tmp_path: Path) -> None:
    """A program of this machine that listens on one of its addresses stands for the outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    with socket.create_server((address, 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"hello")

        threading.Thread(target=serve, daemon=True).start()
        job = build_job("out", "", ("5.0", 1, 1))
        job["spec"]["worker"]["cmd"] = [sys.executable, "-c", OUT, address, str(server.getsockname()[1])]
        assert here.play(job)["phase"] == "Succeeded"


def test_a_network_ends_with_the_last_pod_though_the_job_is_kept(here: Here, tmp_path: Path) -> None:
    job = build_job("gone", "", ("5.0", 1, 1))
    assert here.play(job)["phase"] == "Succeeded"
    networks = str(here.folder / "node/networks")
    eventually(lambda: not processes_with(networks), lambda: processes_with(networks))


def test_other_jobs_stay_in_the_machines_network(here: Here) -> None:
    job = generic("plain", replica("a", "readlink /proc/self/ns/net"))
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("plain-a-0").strip() == network_of("self")
