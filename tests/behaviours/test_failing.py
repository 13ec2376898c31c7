"""Launchers and workers that fail: retries, limits, deadlines, and who is named."""

from collections.abc import Callable

import pytest

from support.places.jobs import kubeflow, ours
from support.places.place import Object, Place, conditions, is_true

Make = Callable[..., Object]
KINDS = pytest.mark.parametrize("make", [kubeflow, ours])


def restarts(status: Object) -> int:
    """All retries that were charged."""
    return sum(task.get("restartCount", 0) for task in status["tasks"])


def fail_and_wait(place: Place, job: Object, replica: str, code: int) -> None:
    """Have a replica fail, and wait until another pod runs in its place."""
    name = f"{job['metadata']['name']}-{replica}"
    before = place.uids(job)[name]
    place.end(job, replica, code)
    place.until(lambda: place.uids(job).get(name, before) != before, lambda: place.find(job))
    place.wait_running(job)


@KINDS
def test_a_launcher_that_fails_fails_the_job_and_is_named(place: Place, make: Make) -> None:
    job = place.create(make(place, f"fails-{make.__name__}"))
    place.wait_running(job)
    place.end(job, "launcher", 3)
    status = place.wait_phase(job, "Failed")
    assert status["completionTime"]
    assert status["firstFailure"]["exitCode"] == 3
    assert "exit code 3" in conditions(status)["Failed"]["message"]
    assert not is_true(status, "Running")
    place.wait_event(job, "Warning", "Failed")


def test_a_launcher_is_tried_again_until_it_succeeds(place: Place) -> None:
    job = place.create(kubeflow(place, "retried", policy="OnFailure"))
    place.wait_running(job)
    worker = place.uids(job)["retried-worker-0"]
    fail_and_wait(place, job, "launcher", 1)
    place.wait_event(job, "Warning", "Restarting")
    assert place.uids(job)["retried-worker-0"] == worker
    place.end(job, "launcher")
    status = place.wait_phase(job, "Succeeded")
    assert restarts(status) == 1
    assert not is_true(status, "Restarting")
    assert status["replicaStatuses"]["Launcher"].get("failed", 0) == 0


@pytest.mark.parametrize("limit", [0, 1])
def test_no_more_is_tried_than_the_backoff_limit_allows(place: Place, limit: int) -> None:
    job = place.create(kubeflow(place, f"limit-{limit}", policy="OnFailure", backoffLimit=limit))
    place.wait_running(job)
    for _ in range(limit):
        fail_and_wait(place, job, "launcher", 1)
    place.end(job, "launcher", 1)
    status = place.wait_phase(job, "Failed")
    assert conditions(status)["Failed"]["reason"] == "BackoffLimitExceeded"
    assert restarts(status) == limit
    assert status["replicaStatuses"]["Launcher"]["failed"] == 1


def test_the_exit_code_decides_where_the_policy_says_so(place: Place) -> None:
    """From 128 on it is the machine's doing, and tried again; below, it is the program's."""
    job = place.create(kubeflow(place, "by-code", policy="ExitCode"))
    place.wait_running(job)
    fail_and_wait(place, job, "launcher", 130)
    place.end(job, "launcher", 1)
    status = place.wait_phase(job, "Failed")
    assert restarts(status) == 1
    assert status["firstFailure"]["exitCode"] == 1


def test_a_job_that_is_active_for_too_long_fails(place: Place) -> None:
    job = place.create(kubeflow(place, "late", policy="OnFailure", runPolicy={"activeDeadlineSeconds": 2}))
    status = place.wait_phase(job, "Failed")
    assert conditions(status)["Failed"]["reason"] == "DeadlineExceeded"
    place.wait_event(job, "Warning", "Failed")

    def launcher_has_stopped() -> bool:
        launcher = place.pods(job).get("late-launcher")
        return launcher is None or launcher["status"]["phase"] == "Failed"

    place.until(launcher_has_stopped, lambda: place.pods(job))


def test_a_worker_that_fails_for_good_fails_the_job_and_is_named(place: Place) -> None:
    job = place.create(kubeflow(place, "weak"))
    place.wait_running(job)
    place.end(job, "worker-0", 7)
    status = place.wait_phase(job, "Failed")
    assert (status["firstFailure"]["replica"], status["firstFailure"]["exitCode"]) == ("weak-worker-0", 7)
    assert status["replicaStatuses"]["Worker"]["failed"] == 1


def test_a_worker_that_fails_is_tried_again_alone_and_contradicts_its_launchers_success(place: Place) -> None:
    """The launcher's program has run with a worker that was lost, so its exit code 0 counts as a failure."""
    job = place.create(kubeflow(place, "mended", policy="OnFailure"))
    place.wait_running(job)
    launcher = place.uids(job)["mended-launcher"]
    fail_and_wait(place, job, "worker-0", 7)
    assert place.uids(job)["mended-launcher"] == launcher
    fail_and_wait(place, job, "launcher", 0)
    place.end(job, "launcher")
    assert restarts(place.wait_phase(job, "Succeeded")) == 2


def lose(place: Place, job: Object, how: str) -> None:
    name = f"{job['metadata']['name']}-worker-0"
    if how == "evicted":
        place.evict(name)
    else:
        place.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}})


@KINDS
@pytest.mark.parametrize("how", ["evicted", "deleted"])
def test_a_worker_that_is_taken_away_starts_the_job_again_and_costs_nothing(
    place: Place, make: Make, how: str
) -> None:
    job = place.create(make(place, f"{how}-{make.__name__}"))
    place.wait_running(job)
    before = place.uids(job)
    lose(place, job, how)

    def renewed() -> bool:
        after = place.uids(job)
        return after.keys() == before.keys() and not set(after.values()) & set(before.values())

    place.until(renewed, lambda: (before, place.uids(job), place.find(job)))
    status = place.wait_running(job)
    assert (status["disruptions"], restarts(status)) == (1, 0)
    assert "firstFailure" not in status
    place.end(job, "launcher")
    place.wait_phase(job, "Succeeded")
