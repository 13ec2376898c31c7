"""Pause, which is what others call suspend: at creation, while running, and what may change meanwhile."""

from typing import Any

from support.places.jobs import ours
from support.places.place import Object, Place, conditions, is_true

PAUSED: dict[str, Any] = {"runMode": {"pause": {"enabled": True}}}
RESUMED: dict[str, Any] = {"runMode": {"pause": {"enabled": False}}}


def wait_stopped(place: Place, job: Object) -> Object:
    def stopped(found: Object) -> bool:
        told = conditions(found.get("status") or {}).get("Paused", {})
        return (told.get("status"), told.get("reason")) == ("True", "Stopped")

    status: Object = place.wait(job, stopped)["status"]
    return status


def test_a_job_that_is_made_paused_has_no_pods_and_starts_when_told(place: Place) -> None:
    job = place.create(ours(place, "asleep", **PAUSED))
    status = wait_stopped(place, job)
    assert status["phase"] == "Paused"
    assert "startTime" not in status
    assert place.pods(job) == {}
    place.patch(job, RESUMED)
    status = place.wait_running(job)
    assert status["startTime"]
    assert not is_true(status, "Paused")
    modes = {pod["metadata"]["annotations"]["bireme.dev/mode"] for pod in place.pods(job).values()}
    assert modes == {"run"}
    place.end(job, "launcher")
    place.wait_phase(job, "Succeeded")


def test_a_running_job_that_is_paused_loses_its_pods_and_runs_again_when_told(place: Place) -> None:
    job = place.create(ours(place, "breaks", workers=2))
    started = place.wait_running(job)["startTime"]
    before = place.uids(job)
    kept = {(kind, name) for kind, name in place.owned(job) if kind != "Pod"}
    place.patch(job, PAUSED)
    status = wait_stopped(place, job)
    assert status["phase"] == "Paused"
    assert not is_true(status, "Running")
    assert not is_true(status, "Failed")
    assert place.owned(job) == kept
    place.wait_event(job, "Normal", "Paused")
    place.patch(job, RESUMED)
    status = place.wait_running(job)
    assert status["startTime"] == started
    assert place.uids(job).keys() == before.keys()
    assert not set(place.uids(job).values()) & set(before.values())
    place.wait_event(job, "Normal", "Resuming")
    place.end(job, "launcher")
    place.wait_phase(job, "Succeeded")


def test_a_paused_job_may_be_given_more_workers(place: Place) -> None:
    job = place.create(ours(place, "grows", **PAUSED))
    wait_stopped(place, job)
    place.patch(job, {"worker": {"replicas": 3}})
    place.patch(job, RESUMED)
    place.wait_running(job)
    place.wait_pods(job, "launcher", "worker-0", "worker-1", "worker-2")


def test_a_paused_job_that_is_deleted_leaves_nothing(place: Place) -> None:
    job = place.create(ours(place, "dropped"))
    place.wait_running(job)
    place.patch(job, PAUSED)
    wait_stopped(place, job)
    place.delete(job)
    place.wait_gone(job)
