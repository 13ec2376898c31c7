"""Another local user can't get into the victim's jobs: ports of MPI, shared memory, files in /tmp."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.node.shim.tree import all_processes
from security.conftest import assert_nothing_gained
from support.fixtures import unavailable
from support.here import eventually
from support.listeners import find_listeners
from support.mpi_rounds import PRELUDE, SUM, find
from support.two_users import MARK, VICTIM, Attacker, Victim

JOB = "world"
WAIT = """
import ctypes, mmap

pytestmark = pytest.mark.xdist_group("two_users")
shared = MPI.Win.Allocate_shared(4096, 1, comm=world.Split_type(MPI.COMM_TYPE_SHARED))
shared.tomemory()[0:20] = MARK.encode()
secret = MARK
open(FOLDER + "/rank" + str(world.rank), "w").close()
while True: time.sleep(0.1)
"""


@pytest.fixture(scope="module", params=["5.0", "4.1"])
def mpi(request: pytest.FixtureRequest, victim: Victim, attacker: Attacker) -> Iterator[str]:
    """An MPI job of two workers that runs; the attacker has planted links in /tmp before."""
    version: str = request.param
    library = find(version)
    if library is None or shutil.which("slirp4netns") is None:
        raise unavailable("apt-get install openmpi-bin slirp4netns")
    folder = victim.home / f"mpi-{version}"
    folder.mkdir()
    os.chown(folder, VICTIM, VICTIM)
    planted = _plant(attacker)
    code = PRELUDE + SUM + WAIT.replace("MARK", repr(MARK)).replace("FOLDER", repr(str(folder)))
    name = f"{JOB}-{version.replace('.', '')}"
    paths = victim.environment()["PYTHONPATH"]
    container = {
        "name": "mpi-worker",
        "image": "none",
        "env": [
            {"name": "MPI4PY_LIBMPI", "value": library.library},
            {"name": "PYTHONPATH", "value": paths},
            {"name": "PASSWORD", "value": MARK},
        ],
    }
    worker = {
        "replicas": 2,
        "extraMPIArgs": ["-N", "2"],
        "cmd": [victim.python, "-c", code],
        "template": {"spec": {"containers": [container]}},
    }
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "annotations": {"bireme.dev/path": library.path}},
        "spec": {"worker": worker},
    }
    (folder / "job.yaml").write_text(json.dumps(job))
    victim("apply", "-f", str(folder / "job.yaml"))
    try:
        victim("wait", name, "--for", "running", "--timeout", "60s")
        eventually(
            lambda: all((folder / f"rank{rank}").exists() for rank in range(4)) or _is_over(victim, name)
        )
        assert not _is_over(victim, name), victim("logs", name, code=None)
        yield name
    finally:
        victim("delete", name, "--now", "--yes")
        for each in planted:
            assert not each.is_symlink() or each.readlink() == attacker.home / "caught"
            each.unlink(missing_ok=True)
        assert not (attacker.home / "caught").exists(), "something was written through a planted link"


def _is_over(victim: Victim, name: str) -> bool:
    return "Running" not in victim("get", "jobs", name).stdout


def _plant(attacker: Attacker) -> list[Path]:
    """Links where Open MPI and our scripts would have files, if they had them in /tmp."""
    host = os.uname().nodename
    names = [
        f"ompi.{host}.{VICTIM}", f"openmpi-sessions-{VICTIM}@{host}_0", f"prte.{host}.{VICTIM}",
        f"prterun.{host}.{VICTIM}", f"pmix-sys.{host}", "bireme", "bireme-launch.1", "bireme-torch-launch.1",
    ]  # fmt: skip
    places = [Path("/tmp") / name for name in names]
    for place in places:
        if place.is_symlink():
            # An earlier run that was killed has left it.
            place.unlink()
        assert attacker("link", str(attacker.home / "caught"), str(place)).error in ("", "FileExistsError")
    return [place for place in places if place.is_symlink()]


def _processes() -> list[int]:
    found = []
    for process in all_processes():
        try:
            if Path(f"/proc/{process.pid}").stat().st_uid == VICTIM:
                found.append(process.pid)
        except OSError:
            continue
    return found


def test_no_port_of_a_job_can_be_connected_to(mpi: str, victim: Victim, attacker: Attacker) -> None:
    """The words with which Open MPI's daemons begin, too."""
    listeners = [each for each in find_listeners(_processes()) if each.pid != victim.daemon]
    assert len(listeners) >= 6, "mpirun, two daemons and four ranks listen"
    for each in listeners:
        for said in ("", "\0" * 64, "PMIX_3.0\0", "GET / HTTP/1.0\r\n\r\n"):
            outcome = attacker("talk", each.port, said)
            assert outcome.error == "ConnectionRefusedError", (each, outcome)


def test_a_strangers_daemon_does_not_join_a_job(mpi: str, victim: Victim, attacker: Attacker) -> None:
    """The command line of a daemon is for all to read, with the address to call."""
    lines = []
    for pid in _processes():
        words = attacker("read", f"/proc/{pid}/cmdline")
        if words.value and words.value.split("\0")[0].rpartition("/")[2] in ("prted", "orted"):
            lines.append([word for word in words.value.split("\0") if word])
    assert len(lines) == 2
    library = find("5.0" if mpi.endswith("50") else "4.1")
    assert library is not None
    environ = {"PATH": library.path, "TMPDIR": str(attacker.home)}
    code, said = attacker("run", lines[0], environ, 15.0).value
    assert code != 0, said
    assert MARK not in said
    assert victim("get", "jobs", mpi).stdout.count("Running") >= 1
    assert len(_ranks()) == 4


def _ranks() -> list[int]:
    found = []
    for pid in _processes():
        try:
            if b"secret = " in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return [pid for pid in found if b"mpirun" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize(
    "name", ["environ", "mem", "maps", "fd", "root", "cwd", "map_files", "ns/net", "ns/mnt"]
)
def test_a_rank_can_not_be_looked_into(mpi: str, victim: Victim, attacker: Attacker, name: str) -> None:
    for pid in _ranks():
        for do in ("read", "listing", "read_link"):
            assert attacker(do, f"/proc/{pid}/{name}").error, (do, name)


def test_shared_memory_of_a_job_is_closed(mpi: str, victim: Victim, attacker: Attacker) -> None:
    for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run/shm"):
        listing = attacker("listing", folder).value or []
        for name in listing:
            path = Path(folder) / name
            try:
                owner = path.lstat().st_uid
            except OSError:
                continue
            if owner == VICTIM and path != victim.home:
                for do in ("read", "write", "listing"):
                    assert attacker(do, str(path)).error, (do, path)
    for pid in _ranks():
        assert attacker("listing", f"/proc/{pid}/root/dev/shm").error


def test_the_words_that_all_may_read_have_no_secret(mpi: str, victim: Victim, attacker: Attacker) -> None:
    for pid in _processes():
        words = attacker("read", f"/proc/{pid}/environ")
        assert words.error
        words = attacker("read", f"/proc/{pid}/cmdline")
        assert victim.token not in str(words.value)
    assert_nothing_gained(attacker("listing", "/tmp"), victim)
