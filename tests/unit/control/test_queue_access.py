"""Which changes of what is in a queue need the permission to use it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from bireme.control.webhooks.queues import Question, QueueAccess
from bireme.control.webhooks.reviews import Request, User
from bireme.kube.client import Client
from support.jobs import generic, kubeflow, mpi
from unit.kube.scripted import ScriptedTransport

Object = dict[str, Any]
CONTROLLER = "system:serviceaccount:home:bireme-controller"
QUEUED = {"t9kScheduler": {"queue": "narrow"}}
PAUSED = {"pause": {"enabled": True}}
ACCESS = QueueAccess(Client(ScriptedTransport()), CONTROLLER, "home")


def question(old: Object | None, new: Object, user: str = "bob") -> Question | None:
    """What must be asked; None where the object is let in without a question."""
    found = ACCESS.question(Request("1", user_info=User(user), object=new, old_object=old))
    if isinstance(found, Question):
        return found
    assert found["response"]["allowed"]
    return None


def pod(**spec: Any) -> Object:
    container = {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    labels = {"scheduler.tensorstack.dev/queue": "narrow"}
    whole = {"schedulerName": "t9k-scheduler", "containers": [container], "nodeName": "n", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": whole}


def group(**spec: Any) -> Object:
    kind = {"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**kind, "spec": {"queue": "narrow", "minMember": 1, **spec}}


RUNS = generic(scheduler=QUEUED)
STOPPED = generic(scheduler=QUEUED, runMode=PAUSED)
CREW = mpi(scheduler=QUEUED, runPolicy={"cleanUpWorkers": False})
FLOW = kubeflow(runPolicy={"schedulingPolicy": {"queue": "narrow"}})
Change = Callable[[Object], object]
CHANGES: dict[str, tuple[Object, Change, bool]] = {
    "nothing": (RUNS, lambda _job: None, False),
    "a label": (RUNS, lambda job: job["metadata"].update(labels={"a": "b"}), False),
    "pause": (RUNS, lambda job: job["spec"].update(runMode=PAUSED), False),
    "pause by the older name": (
        RUNS,
        lambda job: job["spec"].update(runMode={"pause": {"enable": True}}),
        False,
    ),
    "resume": (STOPPED, lambda job: job["spec"]["runMode"]["pause"].update(enabled=False), True),
    "resume without a flag": (STOPPED, lambda job: job["spec"].pop("runMode"), True),
    "one flag for the other": (
        STOPPED,
        lambda job: job["spec"].update(runMode={"pause": {"enable": True}}),
        False,
    ),
    "commands after a pause": (
        STOPPED,
        lambda job: job["spec"]["runMode"]["pause"].update(resumeSpecs=[{"type": "worker"}]),
        True,
    ),
    "debug": (STOPPED, lambda job: job["spec"]["runMode"].update(debug={"enabled": True}), True),
    "clean-up policy": (RUNS, lambda job: job["spec"].update(cleanUpPolicy="All"), False),
    "clean-up of workers": (CREW, lambda job: job["spec"]["runPolicy"].update(cleanUpWorkers=True), False),
    "time to live": (
        FLOW,
        lambda job: job["spec"]["runPolicy"].update(ttlSecondsAfterFinished=1),
        False,
    ),
    "deadline": (FLOW, lambda job: job["spec"]["runPolicy"].update(activeDeadlineSeconds=9), True),
    "replicas": (STOPPED, lambda job: job["spec"]["replicaSpecs"][0].update(replicas=50), True),
    "template": (STOPPED, lambda job: job["spec"]["replicaSpecs"][0].update(template={}), True),
    "a field that is not known": (STOPPED, lambda job: job["spec"].update(later=1), True),
    "priority": (STOPPED, lambda job: job["spec"]["scheduler"]["t9kScheduler"].update(priority=9), True),
    "out of the queue": (STOPPED, lambda job: job["spec"].pop("scheduler"), False),
    "on its way out": (
        STOPPED,
        lambda job: (job["metadata"].update(deletionTimestamp="x"), job["spec"].update(later=1)),
        False,
    ),
    "members of a group": (group(), lambda obj: obj["spec"].update(minMember=2), True),
    "a pod's image": (pod(), lambda obj: obj["spec"]["containers"][0].update(image="y"), True),
    "a pod's deadline": (pod(), lambda obj: obj["spec"].update(activeDeadlineSeconds=1), False),
    "a pod's gates": (
        pod(schedulingGates=[{"name": "a"}]),
        lambda obj: obj["spec"].pop("schedulingGates"),
        True,
    ),
    "a pod's status": (pod(), lambda obj: obj.update(status={"phase": "Running"}), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_that_may_start_something_needs_permission(name: str) -> None:
    old, change, is_asked = CHANGES[name]
    new = copy.deepcopy(old)
    change(new)
    assert (question(old, new) is not None) is is_asked


def test_controller_needs_no_permission_for_children_of_jobs() -> None:
    new = pod()
    new["spec"]["containers"][0]["image"] = "y"
    owner = {"apiVersion": RUNS["apiVersion"], "kind": "GenericJob", "uid": "1", "controller": True}
    assert question(pod(), new, CONTROLLER) is not None
    new["metadata"]["ownerReferences"] = [owner]
    assert question(pod(), new, CONTROLLER) is None
    assert question(pod(), new, "bob") is not None


def test_growth_of_a_pod_that_runs_is_told() -> None:
    new = pod()
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3", "memory": "512Mi"}}
    asked = question(pod(), new)
    assert asked is not None
    assert asked.grown == {"cpu": 2000}
    assert asked.requests["cpu"] == 3000
    waiting = question(pod(nodeName=""), {**new, "spec": {**new["spec"], "nodeName": ""}})
    assert waiting is not None
    assert not waiting.grown
