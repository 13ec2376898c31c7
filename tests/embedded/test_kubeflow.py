"""Kubeflow's MPIJob v1alpha2: mpirun through the exec agent, retries, clean-up, and time to live."""

from typing import Any

import pytest

from bireme.kube.errors import NotFound
from support.here import Here, Object, eventually, resource, shell

pytestmark = pytest.mark.xdist_group("here")

SUM = (
    "from mpi4py import MPI; w = MPI.COMM_WORLD; print('sum', w.allreduce(w.rank), MPI.Get_processor_name())"
)


def job(name: str, launcher: Object, *workers: Object, policy: str = "OnFailure", **spec: Any) -> Object:
    def side(replicas: int, *containers: Object, **more: Any) -> Object:
        return {"replicas": replicas, "template": {"spec": {"containers": list(containers)}}, **more}

    return {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            **spec,
            "mpiReplicaSpecs": {
                "Launcher": side(1, launcher, restartPolicy=policy),
                "Worker": side(2, *(workers or ({"name": "worker", "image": "none"},))),
            },
        },
    }


def said(status: Object, kind: str) -> Object:
    found: Object = next((each for each in status["conditions"] if each["type"] == kind), {})
    return found


def phase(status: Object) -> str:
    return next(kind for kind in ("Succeeded", "Failed") if said(status, kind).get("status") == "True")


def test_mpirun_reaches_the_main_container_of_every_worker(here: Here) -> None:
    """Nobody waits for the workers but the agent: mpirun starts at once."""
    program = f'test "$PLACE" = right && python3 -c "{SUM}"'
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "4", "sh", "-c", program]
    main = {"name": "main", "image": "none", "env": [{"name": "PLACE", "value": "right"}]}
    beside = shell("beside", "sleep inf", env=[{"name": "PLACE", "value": "wrong"}])
    launcher = {"name": "launcher", "image": "none", "command": mpirun}
    body = job(
        "sum", launcher, beside, main, slotsPerWorker=2, mainContainer="main", cleanPodPolicy="Running"
    )
    worker = body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["initContainers"] = [shell("late", "sleep 1")]
    status = here.play(body)
    assert phase(status) == "Succeeded", status
    lines = sorted(here.output("sum-launcher", "launcher").splitlines())
    assert lines == [f"sum 6 sum-worker-{index}" for index in (0, 0, 1, 1)]
    eventually(lambda: here.pods() == ["sum-launcher"])
    here.delete(body)


def test_mpirun_needs_no_host_names(nameless: Here) -> None:
    """What its daemons are told instead, ranks don't hear."""
    where = "os.environ['HOSTNAME'], [name for name in os.environ if 'SLURM' in name]"
    program = f"import os; {SUM.replace('MPI.Get_processor_name()', where)}"
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "4", "python3", "-c", program]
    body = job("bare", {"name": "launcher", "image": "none", "command": mpirun}, slotsPerWorker=2)
    status = nameless.play(body)
    assert phase(status) == "Succeeded", status
    lines = sorted(nameless.output("bare-launcher", "launcher").splitlines())
    assert lines == [f"sum 6 bare-worker-{index} []" for index in (0, 0, 1, 1)]
    nameless.delete(body)


TRIES = "echo x >>{0}; test $$(wc -l <{0}) -ge 3 || exit {1}"


@pytest.mark.parametrize(
    ("policy", "code", "limit", "end", "tries"),
    [
        ("OnFailure", 4, 6, "Succeeded", 3),
        ("OnFailure", 4, 1, "Failed", 2),
        ("Never", 4, None, "Failed", 1),
        ("Never", 4, 6, "Succeeded", 3),
        ("ExitCode", 4, 6, "Failed", 1),
        ("ExitCode", 130, 6, "Succeeded", 3),
    ],
    ids=["retried", "used up", "never", "never with a limit", "permanent", "passing"],
)
def test_a_launcher_is_tried_again_as_its_policy_says(
    here: Here, policy: str, code: int, limit: int | None, end: str, tries: int
) -> None:
    name = f"try-{policy.lower()}-{code}-{limit or 'none'}"
    launcher = shell("launcher", TRIES.format(name, code))
    limits = {} if limit is None else {"backoffLimit": limit}
    body = job(name, launcher, policy=policy, cleanPodPolicy="All", **limits)
    status = here.play(body)
    assert phase(status) == end, status
    assert len((here.work / name).read_text().split()) == tries
    here.delete(body)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [("None", ["launcher", "worker-0", "worker-1"]), ("Running", ["launcher"]), ("All", [])],
)
def test_what_is_cleaned_up_at_the_end(here: Here, policy: str, kept: list[str]) -> None:
    body = job(f"tidy-{policy.lower()}", shell("launcher", "true"), cleanPodPolicy=policy)
    status = here.play(body)
    assert status["completionTime"]
    clean_up_another(here)
    wanted = [f"tidy-{policy.lower()}-{replica}" for replica in kept]
    eventually(lambda: here.pods() == wanted, here.pods)
    here.delete(body)


def clean_up_another(here: Here) -> None:
    """Wait until a job that ended later has lost its pods: by then the one before has lost its own, too."""
    body = job("another", shell("launcher", "true"), cleanPodPolicy="All")
    here.play(body)
    eventually(lambda: not [pod for pod in here.pods() if pod.startswith("another-")], here.pods)
    here.delete(body)


def test_a_job_goes_when_its_time_to_live_is_over(here: Here) -> None:
    body = job("brief", shell("launcher", "true"), runPolicy={"ttlSecondsAfterFinished": 1})
    here.play(body)

    def is_gone() -> bool:
        try:
            here.do(here.client.get(resource(body), "default", "brief"))
        except NotFound:
            return here.pods() == []
        return False

    eventually(is_gone)


def test_a_job_that_takes_too_long_fails(here: Here) -> None:
    body = job("slow", shell("launcher", "sleep 100"), activeDeadlineSeconds=1, cleanPodPolicy="All")
    status = here.play(body)
    assert said(status, "Failed")["reason"] == "DeadlineExceeded"
    eventually(lambda: here.pods() == [], here.pods)
    here.delete(body)
