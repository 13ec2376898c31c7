"""From creation to success, and what a user sees on the way."""

from collections.abc import Callable
from typing import Any

import pytest

from support.places.jobs import GATE, gated, kubeflow, ours
from support.places.place import Object, Place, conditions, is_ours, is_true

Make = Callable[..., Object]
KINDS = pytest.mark.parametrize("make", [kubeflow, ours])


def counts(status: Object, side: str) -> dict[str, int]:
    """How many replicas of a side are what: Kubeflow leaves zeros out."""
    found: dict[str, int] = {name: n for name, n in status["replicaStatuses"].get(side, {}).items() if n}
    return found


@KINDS
def test_a_job_runs_with_all_its_replicas_and_succeeds_with_its_launcher(place: Place, make: Make) -> None:
    job = place.create(make(place, f"ends-{make.__name__}", workers=2))
    status = place.wait_running(job)
    assert set(place.pods(job)) == {f"ends-{make.__name__}-{i}" for i in ("launcher", "worker-0", "worker-1")}
    assert status["startTime"]
    assert "completionTime" not in status
    place.end(job, "launcher")
    status = place.wait_phase(job, "Succeeded")
    assert status["completionTime"] >= status["startTime"]
    assert not is_true(status, "Running")
    for reason in ("Running", "Succeeded"):
        place.wait_event(job, "Normal", reason)


def test_replicas_are_counted_as_active_and_as_succeeded(place: Place) -> None:
    job = place.create(kubeflow(place, "counts", workers=2))
    status = place.wait_running(job)
    assert (counts(status, "Launcher"), counts(status, "Worker")) == ({"active": 1}, {"active": 2})
    place.end(job, "launcher")
    status = place.wait_phase(job, "Succeeded")
    assert (counts(status, "Launcher"), counts(status, "Worker")) == ({"succeeded": 1}, {"active": 2})


def test_the_phases_of_replicas_are_counted(place: Place) -> None:
    job = place.create(ours(place, "aggregate", workers=2))
    assert place.wait_running(job)["aggregate"]["running"] == 3
    place.end(job, "launcher")
    aggregate = place.wait_phase(job, "Succeeded")["aggregate"]
    assert (aggregate["running"], aggregate["succeeded"], aggregate["failed"]) == (2, 1, 0)


def test_a_job_is_not_running_before_its_last_worker_is(place: Place) -> None:
    job = place.create(gated(place, kubeflow(place, "gated")))

    def launcher_is_there(found: Object) -> bool:
        status = found.get("status") or {}
        return counts(status, "Launcher") == {"active": 1} if "replicaStatuses" in status else False

    status = place.wait(job, launcher_is_there)["status"]
    assert is_true(status, "Created")
    assert not is_true(status, "Running")
    place.until(lambda: _has_a_node(place, "gated-worker-0", job), lambda: place.pods(job))
    assert not is_true(place.status(job), "Running")
    place.end(job, "worker-0", container=GATE)
    place.wait_running(job)


def _has_a_node(place: Place, pod: str, job: Object) -> bool:
    return bool(place.pods(job).get(pod, {}).get("spec", {}).get("nodeName"))


@KINDS
def test_pods_carry_the_names_and_labels_that_tools_look_for(place: Place, make: Make) -> None:
    name = f"labels-{make.__name__}"
    job = place.create(make(place, name))
    place.wait_pods(job, "launcher", "worker-0")
    pods = place.pods(job)
    for role in ("launcher", "worker"):
        pod = pods[f"{name}-launcher" if role == "launcher" else f"{name}-worker-0"]
        wanted: dict[str, Any] = {"app.kubernetes.io/managed-by": "bireme", "bireme.dev/replica-type": role}
        if is_ours(job):
            wanted |= {"mpijob": name, "tensorstack.dev/owner-name": name}
        else:
            wanted |= {"group_name": "kubeflow.org", "mpi_job_name": name, "mpi_role_type": role}
        assert pod["metadata"]["labels"].items() >= wanted.items()
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job["metadata"]["uid"], True)


@KINDS
def test_what_has_ended_never_runs_again(place: Place, make: Make) -> None:
    job = place.create(make(place, f"final-{make.__name__}"))
    place.wait_running(job)
    place.end(job, "launcher")
    before = place.wait_phase(job, "Succeeded")
    pods = place.uids(job)
    for pod in place.pods(job).values():
        place.delete(pod | {"apiVersion": "v1", "kind": "Pod"})
    place.until(lambda: not set(place.uids(job).values()) & set(pods.values()), lambda: place.uids(job))
    probe = place.create(make(place, f"later-{make.__name__}"))
    place.wait_running(probe)
    assert place.pods(job) == {}
    after = place.status(job)
    assert after["completionTime"] == before["completionTime"]
    assert conditions(after).keys() == conditions(before).keys()
