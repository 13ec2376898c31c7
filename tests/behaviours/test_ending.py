"""What is left of a job: after its end, after its time to live, and after its deletion."""

from collections.abc import Callable

import pytest

from support.places.jobs import kubeflow, ours
from support.places.place import Object, Place

Make = Callable[..., Object]
KINDS = pytest.mark.parametrize("make", [kubeflow, ours])


@pytest.mark.parametrize("code", [0, 1], ids=["succeeded", "failed"])
@pytest.mark.parametrize(
    ("policy", "kept"),
    [("None", ["launcher", "worker-0"]), ("Running", ["launcher"]), ("All", [])],
    ids=["None", "Running", "All"],
)
def test_the_clean_up_policy_says_which_pods_stay(
    place: Place, policy: str, kept: list[str], code: int
) -> None:
    name = f"tidy-{policy.lower()}-{code}"
    job = place.create(kubeflow(place, name, cleanPodPolicy=policy))
    place.wait_running(job)
    place.end(job, "launcher", code)
    place.wait_phase(job, "Failed" if code else "Succeeded")
    place.wait_pods(job, *kept)
    if "worker-0" in kept:
        assert place.pods(job)[f"{name}-worker-0"]["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("policy", "kept"), [("none", ["launcher", "worker-0"]), ("all", ["launcher"])], ids=["none", "all"]
)
def test_workers_are_cleaned_up_and_the_launcher_keeps_its_output(
    place: Place, policy: str, kept: list[str]
) -> None:
    job = place.create(ours(place, f"swept-{policy}", clean_up=policy))
    place.wait_running(job)
    place.end(job, "launcher")
    place.wait_phase(job, "Succeeded")
    place.wait_pods(job, *kept)


def test_a_job_goes_with_all_that_was_made_for_it_when_its_time_to_live_is_over(place: Place) -> None:
    policy = {"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "None"}
    job = place.create(kubeflow(place, "brief", runPolicy=policy))
    place.wait_running(job)
    assert place.owned(job) >= {("Pod", "brief-launcher"), ("ConfigMap", "brief-config")}
    place.end(job, "launcher")
    place.wait_gone(job)


@KINDS
def test_a_running_job_that_is_deleted_leaves_nothing(place: Place, make: Make) -> None:
    job = place.create(make(place, f"gone-{make.__name__}", workers=2))
    place.wait_running(job)
    place.delete(job)
    place.wait_gone(job)


@KINDS
def test_a_job_that_is_deleted_while_it_is_made_leaves_nothing(place: Place, make: Make) -> None:
    """Nothing is waited for: how far it had got is another matter each time."""
    jobs = [place.create(make(place, f"hasty-{make.__name__}-{number}", workers=2)) for number in range(3)]
    for job in jobs:
        place.delete(job)
    for job in jobs:
        place.wait_gone(job)
    probe = place.create(make(place, f"after-{make.__name__}"))
    place.wait_running(probe)
    assert not any(place.pods(job) or place.owned(job) for job in jobs)
