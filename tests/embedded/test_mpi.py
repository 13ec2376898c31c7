"""MPI jobs with the real mpirun, 4.1 and 5.0: right results, and the right one is blamed."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from bireme.node.cgroups import Limits
from bireme.node.machine import isolation
from support.dying_ranks import EXIT, KILL, amid, apart
from support.faults import processes_of
from support.fixtures import unavailable
from support.here import Here, Object, eventually, generic, replica, shared_memory
from support.mpi_rounds import STRANGER, SUM, Case, build_job, find, play_as, python_of

pytestmark = pytest.mark.xdist_group("here")

VERSIONS = ("5.0", "4.1")
WAIT = "time.sleep(100)\n"
READY = SUM + WAIT
# Whoever runs them, with namespaces of their own or without.
SLICE: dict[tuple[str, str], list[Case]] = {
    ("root", "own"): [("5.0", 2, 2), ("4.1", 3, 1)],
    ("root", "none"): [("4.1", 2, 2), ("5.0", 2, 2)],
    ("stranger", "own"): [("5.0", 1, 4)],
    ("stranger", "none"): [("4.1", 2, 1), ("5.0", 3, 1)],
}


def versions_here() -> list[str]:
    missing = [version for version in VERSIONS if find(version) is None]
    if missing:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    return list(VERSIONS)


def check(who: str, place: str, cases: list[Case], home: Path) -> None:
    """Every rank knows the sum over all, and as many of them are on each worker as it has slots."""
    versions_here()
    user = STRANGER if who == "stranger" else os.getuid()
    results = play_as(user, home, place, cases)
    for number, (case, result) in enumerate(zip(cases, results, strict=True)):
        _, workers, slots = case
        ranks = workers * slots
        assert result["phase"] == "Succeeded", (case, result)
        lines = [line.split() for line in result["lines"]]
        assert [line[1:3] for line in lines] == [[str(sum(range(ranks))), str(ranks)]] * ranks, (case, result)
        names = sorted(f"sum-{number}-worker-{index}" for index in range(workers) for _ in range(slots))
        assert sorted(line[3] for line in lines) == names, (case, result)
        if place == "own":
            assert all(line[3] == line[4] for line in lines), (case, result)
    assert [path for path in shared_memory() if owner_of(path) == STRANGER] == []


def owner_of(file: Path) -> int | None:
    """None if it is gone by now: others use this memory, too."""
    try:
        return file.stat().st_uid
    except FileNotFoundError:
        return None


def needs(who: str, place: str) -> None:
    if who == "stranger" and os.getuid() != 0:
        raise unavailable("only root can be somebody else: run the tests as root")
    if place == "own" and isolation() == "none":
        raise unavailable("this machine lets nobody make mounts: allow user namespaces")
    if who == "stranger" and python_of(STRANGER) is None:
        raise unavailable("another user can't run this Python, and the system's is of another version")


@pytest.mark.parametrize(("who", "place"), SLICE, ids=[f"{who} {place}" for who, place in SLICE])
def test_all_ranks_compute_together(home: Path, who: str, place: str) -> None:
    needs(who, place)
    check(who, place, SLICE[who, place], home)


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("workers", range(1, 9))
@pytest.mark.parametrize(("who", "place"), SLICE, ids=[f"{who} {place}" for who, place in SLICE])
def test_any_number_of_workers_and_slots(
    home: Path, who: str, place: str, workers: int, version: str
) -> None:
    needs(who, place)
    check(who, place, [(version, workers, slots) for slots in range(1, 5)], home)


# ---- failures


def blame(here: Here, job: Object) -> Object:
    """Run a job that fails; return its first failure."""
    status = here.play(job)
    here.delete(job)
    assert status["phase"] == "Failed"
    first: Object = status["firstFailure"]
    return first


BAD: dict[str, tuple[str, Object]] = {
    "exit 3": (
        SUM + apart(EXIT, WAIT),
        {"replica": "bad-worker-1", "rank": 3, "exitCode": 3, "reason": "Error"},
    ),
    "exit 3 amid a collective": (
        amid(EXIT),
        {"replica": "bad-worker-1", "rank": 3, "exitCode": 3, "reason": "Error"},
    ),
    "killed amid a collective": (
        amid(KILL),
        {"replica": "bad-worker-1", "rank": 3, "signal": 9},
    ),
    "abort": (
        f"if world.rank == 2: world.Abort(7)\n{WAIT}",
        {"replica": "bad-worker-1", "rank": 2, "exitCode": 7},
    ),
    "crash": (
        f"if world.rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\n{WAIT}",
        {"replica": "bad-worker-0", "rank": 1, "signal": 11},
    ),
}


def assert_named(here: Here, version: str, code: str, cause: Object) -> None:
    """Once seen of Open MPI 5: another rank than the one that failed. Excused if mpirun said so itself.

    It is excused as well where it said nothing: it hung, as it does at times, and was ended.
    """
    named: Object = {}
    for _ in range(3 if version == "5.0" else 1):
        first = blame(here, build_job("bad", code, (version, 2, 2)))
        named = {key: first.get(key) for key in cause}
        if named == cause:
            return
        if "a fault of Open MPI 5" in first["message"]:
            continue
        by_mpirun = re.search(r"Process name: *\[.*, *([0-9]+)\]", first["message"])
        assert by_mpirun is not None, first
        assert int(by_mpirun[1]) == first["rank"], first
    assert named == cause


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("code", "cause"), BAD.values(), ids=BAD)
def test_the_rank_that_failed_is_named(here: Here, version: str, code: str, cause: Object) -> None:
    versions_here()
    assert_named(here, version, code, cause)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rank_that_failed_is_named_without_host_names(nameless: Here, version: str) -> None:
    versions_here()
    assert_named(nameless, version, *BAD["exit 3"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_that_is_killed_leaves_no_shared_memory_where_all_share_it(
    nameless: Here, version: str
) -> None:
    versions_here()
    code = f"{SUM}if world.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n{WAIT}"
    assert blame(nameless, build_job("cut", code, (version, 1, 2)))["signal"] == signal.SIGKILL
    nameless.assert_no_memory_left()


def test_an_open_mpi_that_can_not_do_without_host_names_says_what_would_help(nameless: Here) -> None:
    """Its daemon ends like this one."""
    daemon = "exec bireme-agent old-main-0 'exit 213;' prted --prtemca ess env --prtemca ess_base_vpid 1"
    first = blame(nameless, generic("old", replica("main", daemon)))
    assert first["exitCode"] == 213
    assert "allow user namespaces, or use Open MPI 4.1, or one worker" in first["message"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_that_takes_too_much_memory_is_named(here: Here, version: str) -> None:
    """The kernel kills it, not the worker's first process."""
    versions_here()
    if "memory" not in Limits().offered:
        raise unavailable("this machine lets nobody limit memory: run as root, or delegate cgroups")
    code = f"world.Barrier()\nif world.rank == 1: hoard = bytearray(os.urandom(1 << 20)) * 600\n{WAIT}"
    limits = {"limits": {"memory": "300Mi"}}
    first = blame(here, build_job("fat", code, (version, 2, 1), resources=limits))
    assert (first["replica"], first["rank"], first["signal"]) == ("fat-worker-1", 1, 9)
    assert (first["exitCode"], first["reason"]) == (137, "OOMKilled")


def kill(here: Here, pod: str, *, what: str, by: signal.Signals = signal.SIGKILL) -> None:
    """Signal a pod's shim, or the first process of its main container."""
    uid = here.pod(pod)["metadata"]["uid"]
    state = json.loads((here.folder / f"node/pods/{uid}/state.json").read_text())
    pids = {"shim": state["shim"]["pid"], "main": next(iter(state["containers"].values()))["pid"]}
    os.kill(pids[what], by)


def struck(here: Here, victim: str, what: str, version: str = "5.0") -> Object:
    """Run a job, and kill something once its ranks have met; return its first failure."""
    job = build_job("hit", READY, (version, 2, 1))
    created = here.create(job)
    here.until_pod("hit-launcher", lambda pod: (pod.get("status") or {}).get("phase") == "Running")
    eventually(lambda: "sum" in here.output("hit-launcher", "mpi-launcher"))
    kill(here, f"hit-{victim}", what=what)
    status = here.end_of(created)
    here.delete(job)
    assert status["phase"] == "Failed"
    first: Object = status["firstFailure"]
    return first


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("victim", ["worker-1", "launcher"])
def test_a_pod_that_is_killed_is_named(here: Here, victim: str, version: str) -> None:
    versions_here()
    first = struck(here, victim, "main", version)
    assert (first["replica"], first["signal"], first["exitCode"]) == (f"hit-{victim}", 9, 137)


def test_a_worker_whose_shim_is_killed_fails_the_job(here: Here) -> None:
    first = struck(here, "worker-0", "shim")
    assert first["replica"] == "hit-worker-0"


@pytest.mark.parametrize("place", ["here", "nameless"])
def test_an_mpirun_that_outlives_its_ranks_is_ended(request: pytest.FixtureRequest, place: str) -> None:
    """It does not hear that they end. They say no goodbye: they would wait for its answer."""
    versions_here()
    at: Here = request.getfixturevalue(place)
    go = at.work / "go"
    code = f"{SUM}world.Barrier()\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)\nos._exit(0)\n"
    job = build_job("deaf", code, ("5.0", 2, 1))
    hasty = {"BIREME_GUARD_SECONDS": "1", "BIREME_GUARD_PAUSE": "1"}
    env = job["spec"]["worker"]["template"]["spec"]["containers"][0]["env"]
    env += [{"name": name, "value": value} for name, value in hasty.items()]
    created = at.create(job)
    eventually(lambda: at.pods() != [] and at.output("deaf-launcher", "mpi-launcher").count("sum") == 2)
    uid = at.pod("deaf-launcher")["metadata"]["uid"]
    (mpirun,) = [pid for pid, program in processes_of(uid) if program == "prterun"]
    os.kill(mpirun, signal.SIGSTOP)
    go.touch()
    eventually(lambda: "a fault of Open MPI 5: it is ended" in at.output("deaf-launcher", "mpi-launcher"))
    os.kill(mpirun, signal.SIGCONT)
    status = at.end_of(created)
    at.delete(job)
    assert (status["phase"], status["firstFailure"]["replica"]) == ("Failed", "deaf-launcher")
    assert "a fault of Open MPI 5" in status["firstFailure"]["message"]


def test_a_sidecar_and_an_init_container_are_not_taken_for_the_worker(here: Here) -> None:
    """Ranks see the variables of the main container, though others of the pod have started before."""
    word: list[Any] = [{"name": "WORD", "value": "wrong"}]
    code = "print('word', os.environ['WORD'], flush=True)\n"
    job = build_job("many", code, ("5.0", 1, 2))
    spec = job["spec"]["worker"]["template"]["spec"]
    spec["containers"][0]["env"] = [{"name": "WORD", "value": "right"}]
    other = {"image": "none", "env": word}
    spec["initContainers"] = [{"name": "first", "command": ["true"], **other}]
    spec["containers"].insert(0, {"name": "beside", "command": ["sleep", "inf"], **other})
    status = here.play(job)
    output = here.output("many-launcher", "mpi-launcher")
    here.delete(job)
    assert status["phase"] == "Succeeded", output
    assert output.count("word right") == 2
