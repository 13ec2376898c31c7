"""What is left once a main container has ended, a job was deleted, or a crew has failed."""

import json
import os
import signal
from pathlib import Path

import pytest

from bireme.testing.leftovers import processes_with
from support.fixtures import unavailable
from support.here import BIN, Here, Object, eventually, generic, replica, shell
from support.mpi_rounds import SUM, build_job, find

pytestmark = pytest.mark.xdist_group("here")


def assert_none_runs(mark: str) -> None:
    eventually(lambda: not processes_with(mark), lambda: processes_with(mark))


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")], ids=["success", "failure"])
def test_the_end_of_a_main_container_is_that_of_the_others_too(here: Here, code: int, phase: str) -> None:
    name = f"pair-{code}"
    mark = f"beside-{here.work}/{name}"
    main = shell("main", f"until test -e {name}; do sleep 0.1; done; exit {code}")
    beside = shell("beside", f"touch {name}; sleep inf", env=[{"name": "MARK", "value": mark}])
    job = generic(name, replica("a", "", containers=[main, beside]))
    status = here.play(job)
    assert status["phase"] == phase
    assert (status.get("firstFailure") or {}).get("exitCode", 0) == code
    assert_none_runs(mark)
    here.delete(job)


def test_every_pod_has_a_folder_for_what_passes_and_it_goes_with_the_pod(here: Here) -> None:
    job = generic("brief", replica("a", 'echo "$TMPDIR"; mktemp', 2))
    assert here.play(job)["phase"] == "Succeeded"
    folders = []
    for rank in (0, 1):
        folder, made = map(Path, here.output(f"brief-a-{rank}").split())
        assert made.is_file()
        assert made.parent == folder
        folders.append(folder)
    assert folders[0] != folders[1]
    here.delete(job)
    eventually(lambda: not any(folder.exists() for folder in folders))


def runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def strike(here: Here, pod: str, *, shim: bool = False) -> None:
    """Kill the first process of a pod's main container, or its shim."""
    uid = here.pod(pod)["metadata"]["uid"]
    state = json.loads((here.folder / f"node/pods/{uid}/state.json").read_text())
    victim = state["shim"] if shim else next(iter(state["containers"].values()))
    os.kill(victim["pid"], signal.SIGKILL)


@pytest.mark.parametrize("place", ["here", "nameless"])
def test_what_has_left_its_session_goes_with_a_shim_that_is_killed(
    request: pytest.FixtureRequest, place: str
) -> None:
    here: Here = request.getfixturevalue(place)
    mark = f"astray-{here.work}"
    main = shell("main", "setsid sleep 1000 & echo up; wait", env=[{"name": "MARK", "value": mark}])
    job = generic("astray", replica("a", "", containers=[main]))
    created = here.create(job)
    here.until_pod("astray-a-0", runs)
    eventually(lambda: here.output("astray-a-0") == "up\n")
    assert any(each.startswith("sleep 1000") for each in processes_with(mark))
    strike(here, "astray-a-0", shim=True)
    assert here.end_of(created)["phase"] == "Failed"
    assert_none_runs(mark)
    here.delete(job)


# ---- workers that stay


def has_met(here: Here, name: str) -> bool:
    return "sum" in here.output(f"{name}-launcher", "mpi-launcher")


CREWS = {
    "a rank fails, 5.0": ("5.0", "rank"),
    "the launcher is killed, 5.0": ("5.0", "launcher"),
    "the launcher is killed, 4.1": ("4.1", "launcher"),
}


@pytest.mark.parametrize(("version", "victim"), CREWS.values(), ids=CREWS)
def test_workers_that_stay_after_a_failure_run_no_rank(here: Here, version: str, victim: str) -> None:
    if find(version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    name = f"stay-{victim}-{version[0]}"
    mark = f"rank-of-{here.work}/{name}"
    fails = "if world.rank == 1: os._exit(3)\n" if victim == "rank" else ""
    job = build_job(name, f"# {mark}\n{SUM}{fails}time.sleep(1000)\n", (version, 2, 1))
    job["spec"]["runPolicy"] = {"cleanUpWorkers": "none"}
    created = here.create(job)
    if victim == "launcher":
        here.until_pod(f"{name}-launcher", runs)
        eventually(lambda: has_met(here, name))
        assert sum(each.startswith(f"{BIN}/python3") for each in processes_with(mark)) == 2
        strike(here, f"{name}-launcher")
    assert here.end_of(created)["phase"] == "Failed"
    assert has_met(here, name)
    assert_none_runs(mark)
    assert [here.pod(f"{name}-worker-{rank}")["status"]["phase"] for rank in (0, 1)] == ["Running"] * 2
    here.delete(job)
