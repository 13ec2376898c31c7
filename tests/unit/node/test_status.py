"""The status of a pod, as a kubelet writes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bireme.apiserver.deletion import DeleteOptions
from bireme.apiserver.kinds import NAMESPACE, POD
from bireme.apiserver.store import Store
from bireme.apiserver.typed import BySchema
from bireme.node.containers import UNKNOWN_REASON
from bireme.node.life import Step
from bireme.node.seen import ContainerSeen, Problem, read_record
from unit.node.model import START, ModelNode, build_pod, container, sidecar

Object = dict[str, Any]
PROBE = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3, "exec": {"command": ["true"]}}


def says(node: ModelNode, kind: str) -> tuple[str, str, str]:
    condition = node.condition(kind)
    return condition["status"], condition.get("reason", ""), condition.get("message", "")


# ---- the whole


def test_a_running_pod_s_status() -> None:
    node = ModelNode(build_pod())
    node.settle()
    moment = "2026-01-01T00:00:00Z"
    true = {"status": "True", "lastProbeTime": None, "lastTransitionTime": moment, "observedGeneration": 1}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    assert node.pod["status"] == {
        "phase": "Running",
        "qosClass": "BestEffort",
        "observedGeneration": 1,
        "startTime": moment,
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.2",
        "podIPs": [{"ip": "10.0.0.2"}],
        "conditions": [{"type": kind, **true} for kind in kinds],
        "containerStatuses": [
            {
                "name": "a",
                "image": "image",
                "imageID": "",
                "containerID": "bireme://u-1/a/0",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
                "lastState": {},
            }
        ],
    }


def test_a_new_pod_waits_for_its_containers() -> None:
    node = ModelNode(build_pod())
    node.ask()
    assert node.entry("a")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "containerID" not in node.entry("a")
    assert says(node, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [a]")
    assert says(node, "PodReadyToStartContainers") == ("False", "", "")


def test_an_unchanged_status_is_the_same_later() -> None:
    node = ModelNode(build_pod(container("b"), container("a"), init=(container("i"), sidecar("s"))))
    node.settle()
    node.finish("i")
    status = node.pod["status"]
    node.pass_time(1000)
    assert node.pod["status"] == status
    assert [each["name"] for each in status["containerStatuses"]] == ["a", "b"]
    assert [each["name"] for each in status["initContainerStatuses"]] == ["i", "s"]


def test_what_others_wrote_into_the_status_stays() -> None:
    pod = build_pod(readinessGates=[{"conditionType": "example.com/ready"}])
    gate = {"type": "example.com/ready", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    pod["status"] |= {"conditions": [gate], "resourceClaimStatuses": [{"name": "x"}]}
    node = ModelNode(pod)
    node.settle()
    assert node.condition("example.com/ready") == gate
    assert node.pod["status"]["resourceClaimStatuses"] == [{"name": "x"}]
    message = 'the status of pod readiness gate "example.com/ready" is not "True", but False'
    assert says(node, "Ready") == ("False", "ReadinessGatesNotReady", message)
    assert says(node, "ContainersReady") == ("True", "", "")


def test_a_condition_of_the_pod_s_own_that_is_missing_is_told() -> None:
    node = ModelNode(build_pod(readinessGates=[{"conditionType": "x"}]))
    node.settle()
    message = 'corresponding condition of pod readiness gate "x" does not exist.'
    assert says(node, "Ready") == ("False", "ReadinessGatesNotReady", message)


# ---- conditions


def test_transition_times_move_only_with_the_status() -> None:
    node = ModelNode(build_pod(container("a"), container("b"), restartPolicy="Never"))
    node.settle()
    node.pass_time(60)
    node.finish("a")
    changed = "2026-01-01T00:01:00Z"
    assert says(node, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [a]")
    assert node.condition("Ready")["lastTransitionTime"] == changed
    assert node.condition("Initialized")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    node.pass_time(60)
    node.finish("b")
    assert says(node, "Ready") == ("False", "PodCompleted", "")
    assert node.condition("Ready")["lastTransitionTime"] == changed


def test_a_pod_is_initialized_once_its_init_containers_are_through() -> None:
    node = ModelNode(build_pod(init=(container("i"), sidecar("s", startupProbe=PROBE))))
    node.settle()
    message = "containers with incomplete status: [i s]"
    assert says(node, "Initialized") == ("False", "ContainersNotInitialized", message)
    node.finish("i")
    message = "containers with incomplete status: [s]"
    assert says(node, "Initialized") == ("False", "ContainersNotInitialized", message)
    node.finish_probe("s", "startupProbe", succeeded=True)
    assert says(node, "Initialized") == ("True", "", "")
    node.finish("s", code=1)
    assert says(node, "Initialized") == ("True", "", "")


@pytest.mark.parametrize(("code", "reason"), [(0, "PodCompleted"), (1, "PodFailed")])
def test_a_finished_pod_is_not_ready(code: int, reason: str) -> None:
    node = ModelNode(build_pod(restartPolicy="Never"))
    node.settle()
    node.finish("a", code=code)
    assert says(node, "Ready") == ("False", reason, "")
    assert says(node, "ContainersReady") == ("False", reason, "")
    assert says(node, "PodReadyToStartContainers") == ("False", "", "")


# ---- containers


def test_a_restarted_container_tells_how_it_ended_before() -> None:
    node = ModelNode(build_pod())
    node.settle()
    node.pass_time(5)
    node.finish("a", code=3, message="oh")
    entry = node.entry("a")
    assert entry["lastState"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "message": "oh",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:05Z",
        "containerID": "bireme://u-1/a/0",
    }
    assert (entry["restartCount"], entry["containerID"]) == (1, "bireme://u-1/a/1")


def test_an_init_container_that_has_done_its_work_is_ready() -> None:
    node = ModelNode(build_pod(init=(container("i"),)))
    node.settle()
    assert (node.entry("i")["ready"], node.entry("i")["started"]) == (False, True)
    node.finish("i")
    assert (node.entry("i")["ready"], node.entry("i")["started"]) == (True, False)


def test_a_container_that_is_restarted_keeps_its_end_until_its_hook_is_done() -> None:
    hook = {"postStart": {"exec": {"command": ["true"]}}}
    node = ModelNode(build_pod(container("a", lifecycle=hook)))
    node.settle()
    node.finish_hook("a")
    node.finish("a", code=1)
    entry = node.entry("a")
    assert (entry["state"]["terminated"]["exitCode"], entry["restartCount"]) == (1, 0)
    node.finish_hook("a")
    assert (list(node.entry("a")["state"]), node.entry("a")["restartCount"]) == (["running"], 1)


def test_what_never_ran_in_a_pod_that_ended_has_an_unknown_end() -> None:
    node = ModelNode(build_pod(container("a"), container("b")))
    node.problems = (Problem("CreateContainerConfigError", "no", "b"),)
    node.settle()
    node.delete()
    ended = node.entry("b")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, UNKNOWN_REASON)


def test_an_end_that_was_told_is_not_told_differently_later() -> None:
    node = ModelNode(build_pod(container("a"), container("b"), restartPolicy="Never"))
    node.settle()
    node.finish("a", code=1, message="first words")
    told = node.entry("a")
    node.records["a"] = ContainerSeen(0, node.now, node.now, 1)
    node.settle()
    assert node.entry("a") == told


def test_a_record_of_a_shim_is_read() -> None:
    record = {"attempt": 2, "started": 1767225600.0, "pid": 7, "start": 9}
    assert read_record(record) == ContainerSeen(2, START)
    ended = record | {"finished": 1767225601.5, "code": 137, "signal": 9, "oom": True, "error": "e"}
    moment = START + timedelta(seconds=1.5)
    assert read_record(ended, "m") == ContainerSeen(2, START, moment, 137, oom=True, error="e", message="m")


# ---- in a store


class StoredNode(ModelNode):
    """A node whose pod lives in an API server."""

    def __init__(self, store: Store, pod: Object) -> None:
        self.store = store
        body = {"metadata": {"name": "p"}, "spec": pod["spec"]}
        super().__init__(store.create(POD, body, START, namespace="default"))

    def ask(self) -> Step:
        made = super().ask()
        self.pod = self.store.get(POD, "p", namespace="default") | {"status": made.status}
        self.pod = self.store.replace(POD, "p", self.pod, self.now, namespace="default", subresource="status")
        assert self.pod["status"] == made.status, "the server keeps a status as it is written"
        return made

    def mark_deleted(self, grace: int) -> None:
        self.store.delete(POD, "p", self.now, DeleteOptions(grace_period_seconds=grace), namespace="default")
        self.pod = self.store.get(POD, "p", namespace="default")


@pytest.fixture
def store() -> Store:
    made = Store(intake=BySchema())
    made.create(NAMESPACE, {"metadata": {"name": "default"}}, START)
    return made


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_an_api_server_takes_every_status_and_keeps_it_as_it_is(store: Store, policy: str) -> None:
    first = (container("i"), sidecar("s", startupProbe=PROBE))
    node = StoredNode(
        store, build_pod(container("a", readinessProbe=PROBE), init=first, restartPolicy=policy)
    )
    node.settle()
    node.finish("i")
    node.finish_probe("s", "startupProbe", succeeded=True)
    node.finish_probe("a", "readinessProbe", succeeded=True)
    node.pass_time(5)
    node.finish("a", code=1, message="oh")
    node.pass_time(700)
    if policy != "Never":
        node.finish("a", code=2, oom=True)
        node.lose_shim()
        node.pass_time(700)
    if policy == "Always":
        node.delete()
        node.pass_time(100)
    assert node.phase == ("Failed" if policy != "OnFailure" else "Running")


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    node = ModelNode(build_pod())
    node.now = datetime(2026, 1, 1, 12, tzinfo=UTC).astimezone()
    node.settle()
    assert node.pod["status"]["startTime"] == "2026-01-01T12:00:00Z"
