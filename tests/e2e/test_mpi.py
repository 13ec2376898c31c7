"""MPI jobs in real containers, with sshd, ssh and the mpirun of both versions."""

from typing import Any

import pytest

from support.dying_ranks import EXIT, amid, apart
from support.manifests import PRELUDE, SUM, WAIT, mpi_job, sums
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

NOBODY = 65534
UNKNOWN = 123456
RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
DEATHS = {"apart": apart(EXIT, WAIT), "amid a collective": amid(EXIT)}


@pytest.mark.smoke
def test_eight_ranks_on_four_pods_compute_together(stage: Stage) -> None:
    job = mpi_job("sum", stage.image("mpi4"), workers=4, slots=2, clean_up="none")
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    found = sums(stage.logs("sum-launcher"))
    assert [(total, size) for total, size, _, _ in found] == [(28, 8)] * 8
    assert sorted(host for _, _, host, _ in found) == sorted(f"sum-worker-{i // 2}" for i in range(8))
    addresses = {pod["status"]["podIP"] for pod in stage.items("pods")}
    assert len(addresses) == 5


@pytest.mark.parametrize(
    ("image", "uid", "security"),
    [
        ("mpi4", 0, {"readOnlyRootFilesystem": True}),
        ("mpi4", NOBODY, {}),
        ("mpi4", UNKNOWN, RESTRICTED),
        ("mpi5", 0, {}),
        ("mpi5", NOBODY, {}),
        ("mpi5", UNKNOWN, RESTRICTED),
    ],
    ids=["4-root-read-only", "4-nobody", "4-unknown", "5-root", "5-nobody", "5-unknown"],
)
def test_ranks_run_as_any_user(stage: Stage, image: str, uid: int, security: dict[str, Any]) -> None:
    pod = {"securityContext": {"runAsUser": uid, "runAsGroup": uid, "fsGroup": 2000}}
    job = mpi_job("sum", stage.image(image), slots=2, container={"securityContext": security}, pod=pod)
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    found = sums(stage.logs("sum-launcher"))
    assert [(total, size, user) for total, size, _, user in found] == [(6, 4, uid)] * 4
    assert {host for _, _, host, _ in found} == {"sum-worker-0", "sum-worker-1"}


def test_ranks_have_the_containers_environment_and_directory(stage: Stage) -> None:
    code = "print(world.rank, os.getcwd(), repr(os.environ['ODD']), os.environ['POD'], flush=True)\n"
    odd = "it's $HOME; two\nlines"
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    container = {
        "workingDir": "/usr/lib",
        "env": [{"name": "ODD", "value": odd}, {"name": "POD", "valueFrom": field}],
    }
    job = mpi_job("env", stage.image("mpi4"), code, container=container)
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    lines = sorted(line for line in stage.logs("env-launcher").splitlines() if line[0] in "01")
    assert lines == [f"{rank} /usr/lib {odd!r} env-worker-{rank}" for rank in (0, 1)]


@pytest.mark.parametrize("image", ["mpi4", "mpi5"])
@pytest.mark.parametrize("code", DEATHS.values(), ids=DEATHS)
def test_the_rank_that_died_is_named(stage: Stage, image: str, code: str) -> None:
    job = mpi_job("bad", stage.image(image), SUM + code, slots=2)
    stage.create(job)
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert (cause["replica"], cause["rank"], cause["exitCode"]) == ("bad-worker-1", 3, 3)


def test_a_program_that_is_not_there_is_named(stage: Stage) -> None:
    job = mpi_job("typo", stage.image("mpi4"))
    job["spec"]["worker"]["cmd"] = ["pyhton3", "-c", PRELUDE]
    stage.create(job)
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert "pyhton3" in cause["message"]


def test_mpirun_can_be_tried_by_hand_in_debug_mode(stage: Stage) -> None:
    job = mpi_job("hand", stage.image("mpi4"), runMode={"debug": {"enabled": True}})
    stage.create(job)
    stage.wait_phase(job, "Running")
    by_hand = ("sh", "/etc/bireme/launch", "mpirun", "--hostfile", "/etc/bireme/hostfile", "hostname")
    assert sorted(stage.execute("hand-launcher", *by_hand).split()) == ["hand-worker-0", "hand-worker-1"]
    stage.patch(job, {"runMode": {"debug": {"enabled": False}}})
    stage.wait_phase(job, "Succeeded")
    assert len(sums(stage.logs("hand-launcher"))) == 2


def test_a_resumed_job_runs_its_resume_command_on_the_same_names(stage: Stage) -> None:
    resume = {"type": "launcher", "command": ["sh", "-c", "echo went on"]}
    run_mode = {"pause": {"enabled": False, "resumeSpecs": [resume]}}
    job = mpi_job("pause", stage.image("mpi4"), SUM + WAIT, runMode=run_mode)
    stage.create(job)
    stage.wait_phase(job, "Running")
    stage.patch(job, {"runMode": {"pause": {"enabled": True}}})
    stage.wait_phase(job, "Paused")
    stage.until(lambda: stage.names("pods") == [], "no pods")
    stage.patch(job, {"runMode": {"pause": {"enabled": False}}})
    stage.wait_phase(job, "Succeeded")
    assert stage.logs("pause-launcher").splitlines()[-1] == "went on"


@pytest.mark.parametrize(
    ("policy", "left"),
    [(True, ["end-launcher"]), ("unfinished", ["end-launcher"]), (False, ["end-launcher", "end-worker-0"])],
)
def test_the_clean_up_policy_says_whether_workers_stay(stage: Stage, policy: object, left: list[str]) -> None:
    job = mpi_job("end", stage.image("mpi4"), workers=1, clean_up=policy)
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    stage.until(lambda: sorted(stage.names("pods")) == left, f"pods {left}")
