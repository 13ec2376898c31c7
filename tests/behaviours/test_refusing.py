"""What is refused: specs that can't run, changes that may not be, and names that somebody else has."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from bireme.kube.errors import ApiError
from support.places.jobs import kubeflow, ours
from support.places.place import Object, Place, conditions, is_ours

Make = Callable[..., Object]
KINDS = pytest.mark.parametrize("make", [kubeflow, ours])


def refusal(place: Place, job: Object) -> str:
    """What is said of a job that can't run: on its way in, or, where nobody reviews it, in its status."""
    try:
        made = place.create(job)
    except ApiError as error:
        # An API server writes keys of maps in brackets.
        return re.sub(r"\[(Launcher|Worker)\]", r".\1", error.message)
    assert not place.reviews, f"it was taken: {made}"
    status = place.wait_phase(made, "Failed")
    assert conditions(status)["Failed"]["reason"] == "InvalidSpec"
    assert place.pods(made) == {}
    return str(conditions(status)["Failed"]["message"])


def changed(job: Object, path: str, value: Any) -> Object:
    """The job with one value changed, or left out where it is None."""
    *parts, last = path.split(".")
    target = job
    for part in parts:
        target = target[part]
    target[last] = value
    if value is None:
        del target[last]
    return job


ACCESS = ("Secret", "ServiceAccount", "Role", "RoleBinding")
LAUNCHER, WORKER = "spec.mpiReplicaSpecs.Launcher", "spec.mpiReplicaSpecs.Worker"


@pytest.mark.parametrize(
    ("make", "path", "value"),
    [
        (kubeflow, "metadata.name", "n" * 60),
        (kubeflow, "metadata.name", "1st"),
        (kubeflow, f"{WORKER}.replicas", 0),
        (kubeflow, f"{WORKER}.replicas", -1),
        (kubeflow, f"{LAUNCHER}.replicas", 2),
        (kubeflow, LAUNCHER, None),
        (kubeflow, WORKER, None),
        (kubeflow, f"{WORKER}.restartPolicy", "Perhaps"),
        (kubeflow, "spec.cleanPodPolicy", "Sometimes"),
        (kubeflow, "spec.backoffLimit", -1),
        (kubeflow, "spec.slotsPerWorker", 0),
        (kubeflow, f"{WORKER}.template.spec.containers", []),
        (ours, "metadata.name", "n" * 60),
        (ours, "spec.worker.replicas", 0),
        (ours, "spec.worker.replicas", -1),
        (ours, "spec.worker.cmd", None),
        (ours, "spec.worker.template", None),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value).removeprefix("spec.")[:40] or None,
)
def test_a_job_that_cannot_run_is_refused_by_the_name_of_the_field(
    place: Place, make: Make, path: str, value: Any
) -> None:
    job = make(place, "wrong")
    assert path in refusal(place, changed(job, path, value))


def test_a_name_is_too_long_when_that_of_its_last_worker_is(place: Place) -> None:
    """At 63 characters a pod's name is still a host name."""
    length, paused = 63 - len("-worker-9"), {"pause": {"enabled": True}}
    place.create(ours(place, "a" * length, workers=10, runMode=paused))
    told = refusal(place, ours(place, "b" * length, workers=11, runMode=paused))
    assert f"{'b' * length}-worker-10" in told


@KINDS
def test_the_spec_of_a_running_job_stays_as_it_is(place: Place, make: Make) -> None:
    if not place.reviews:
        pytest.skip("nobody reviews changes here")
    job = place.create(make(place, f"fixed-{make.__name__}"))
    place.wait_running(job)
    more = {"worker": {"replicas": 2}} if is_ours(job) else {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}
    with pytest.raises(ApiError, match="replicas"):
        place.patch(job, more)


RBAC = "rbac.authorization.k8s.io"
IDLE = {"name": "idle", "image": "none", "command": ["sleep", "1000"]}
FOREIGN: dict[str, Object] = {
    "Pod": {"spec": {"containers": [IDLE], "terminationGracePeriodSeconds": 0}},
    "Service": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    "ConfigMap": {"data": {"hostfile": "theirs"}},
    "Secret": {"data": {"id_ed25519": "dGhlaXJz"}},
    "ServiceAccount": {},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
    "RoleBinding": {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "theirs"}},
}


def foreign(kind: str, name: str) -> Object:
    """An object of somebody else's."""
    api_version = f"{RBAC}/v1" if kind.startswith("Role") else "v1"
    metadata = {"name": name, "labels": {"whose": "theirs"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **FOREIGN[kind]}


def own(obj: Object) -> dict[str, Any]:
    """All of an object that only its owner may change."""
    metadata = obj["metadata"]
    kept = {name: metadata.get(name) for name in ("uid", "labels", "ownerReferences", "deletionTimestamp")}
    return kept | {name: obj.get(name) for name in ("data", "rules", "roleRef", "subjects")}


def wait_conflict(place: Place, job: Object, taken: str) -> None:
    """Wait until a job says that somebody else has what it needs."""
    type_ = "Initialized" if is_ours(job) else "Created"

    def told(found: Object) -> bool:
        condition = conditions(found.get("status") or {}).get(type_, {})
        return condition.get("reason") == "NameConflict" and taken in condition["message"]

    place.wait(job, told)
    place.wait_event(job, "Warning", "NameConflict")


@pytest.mark.parametrize(
    ("make", "kind", "suffix"),
    [
        (kubeflow, "Pod", "launcher"),
        (kubeflow, "Pod", "worker-0"),
        (kubeflow, "ConfigMap", "config"),
        (kubeflow, "ServiceAccount", "launcher"),
        (kubeflow, "Role", "launcher"),
        (kubeflow, "RoleBinding", "launcher"),
        (ours, "Pod", "launcher"),
        (ours, "Pod", "worker-0"),
        (ours, "Service", "workers"),
        (ours, "ConfigMap", "config"),
        (ours, "Secret", "ssh"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or value,
)
def test_what_somebody_else_has_is_neither_taken_nor_changed(
    place: Place, make: Make, kind: str, suffix: str
) -> None:
    name = f"clash-{make.__name__}-{kind.lower()}-{suffix}"
    theirs = place.create(foreign(kind, f"{name}-{suffix}"))
    job = place.create(make(place, name))
    if kind in ACCESS and not place.brings_access:
        # Workers are reached without keys and rights here, so it is in nobody's way.
        place.wait_running(job)
    else:
        wait_conflict(place, job, f"{kind} {name}-{suffix}")
        assert place.status(job).get("phase", "Pending") == "Pending"
    assert own(place.get(theirs)) == own(theirs)
    place.delete(job)
    place.wait_owns_nothing(job)
    assert own(place.get(theirs)) == own(theirs)


def test_of_two_jobs_of_one_name_the_second_waits_and_the_first_goes_on(place: Place) -> None:
    first = place.create(ours(place, "twin"))
    place.wait_running(first)
    before = place.uids(first)
    second = place.create(kubeflow(place, "twin"))
    wait_conflict(place, second, "twin-")
    assert place.uids(first) == before
    place.end(first, "launcher")
    place.wait_phase(first, "Succeeded")
