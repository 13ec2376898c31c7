"""What may change after creation, and when."""

import copy
from typing import Any

import pytest

from bireme.admission import default, validate

Manifest = dict[str, Any]
CONTAINERS = [{"name": "main", "image": "registry.example/a:1", "command": ["a"]}]
STOPPED = {"conditions": [{"type": "Paused", "status": "True", "reason": "Stopped"}]}
STOPPING = {"conditions": [{"type": "Paused", "status": "True", "reason": "Stopping"}]}


def manifest(kind: str, spec: Manifest, group_version: str = "batch.tensorstack.dev/v1beta1") -> Manifest:
    return {"apiVersion": group_version, "kind": kind, "metadata": {"name": "job"}, "spec": spec}


GENERIC = manifest(
    "GenericJob",
    {"replicaSpecs": [{"type": "worker", "replicas": 2, "template": {"spec": {"containers": CONTAINERS}}}]},
)
MPI = manifest("MPIJob", {"worker": {"cmd": ["a"], "template": {"spec": {"containers": CONTAINERS}}}})
COLOSSAL = manifest(
    "ColossalAIJob",
    {
        "launcher": {"image": "a"},
        "worker": {"command": ["a"], "template": {"spec": {"containers": CONTAINERS}}},
    },
)
KUBEFLOW = manifest(
    "MPIJob",
    {
        "mpiReplicaSpecs": {
            "Launcher": {"template": {"spec": {"containers": CONTAINERS}}},
            "Worker": {"template": {"spec": {"containers": CONTAINERS}}},
        }
    },
    "kubeflow.org/v1alpha2",
)


def changed(job: Manifest, path: str, value: Any) -> Manifest:
    result = copy.deepcopy(job)
    *parents, last = path.split(".")
    node: Any = result
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[int(last) if isinstance(node, list) else last] = value
    return result


def refused(old: Manifest, new: Manifest) -> list[str]:
    problems = validate(default(new), default(old))
    return [str(problem) for problem in problems if problem.severity == "error"]


ALWAYS = [
    (GENERIC, "spec.runMode.debug.enabled", True),
    (GENERIC, "spec.runMode.pause.enabled", True),
    (GENERIC, "spec.runMode.pause.enable", True),
    (GENERIC, "spec.runMode.debug.replicaSpecs", [{"type": "worker", "command": ["sleep", "9"]}]),
    (GENERIC, "spec.cleanUpPolicy", "All"),
    (GENERIC, "metadata.labels", {"a": "b"}),
    (MPI, "spec.runPolicy.cleanUpWorkers", "unfinished"),
    (COLOSSAL, "spec.runPolicy.cleanUpWorkers", True),
    (KUBEFLOW, "spec.cleanPodPolicy", "All"),
    (KUBEFLOW, "spec.runPolicy.ttlSecondsAfterFinished", 60),
]
WHILE_STOPPED = [
    (GENERIC, "spec.replicaSpecs.0.replicas", 3),
    (GENERIC, "spec.replicaSpecs.0.template.spec.containers.0.command", ["b"]),
    (MPI, "spec.worker.replicas", 3),
    (MPI, "spec.worker.cmd", ["b"]),
    (MPI, "spec.worker.extraMPIArgs", ["-v"]),
    (COLOSSAL, "spec.worker.procPerWorker", 8),
    (COLOSSAL, "spec.worker.template.spec.containers.0.image", "registry.example/b:1"),
]
NEVER = [
    (GENERIC, "spec.successRules", [{"worker": [0]}], "spec.successRules"),
    (GENERIC, "spec.service", {"ports": [{"port": 80}]}, "spec.service.ports"),
    (GENERIC, "spec.replicaSpecs.0.restartPolicy", {"limit": 3}, "spec.replicaSpecs[0].restartPolicy.limit"),
    (GENERIC, "spec.replicaSpecs.0.type", "other", "spec.replicaSpecs[0].type"),
    (
        MPI,
        "spec.runMode.pause.resumeSpecs",
        [{"type": "launcher", "command": ["b"]}],
        "spec.runMode.pause.resumeSpecs",
    ),
    (MPI, "spec.mca", {"btl": "tcp"}, "spec.mca.btl"),
    (MPI, "spec.ssh", {"sshdPath": "/sbin/sshd"}, "spec.ssh.sshdPath"),
    (COLOSSAL, "spec.launcher.image", "b", "spec.launcher.image"),
    (COLOSSAL, "spec.launcher.env", [{"name": "A", "value": "b"}], "spec.launcher.env"),
    (KUBEFLOW, "spec.slotsPerWorker", 2, "spec.slotsPerWorker"),
]


@pytest.mark.parametrize(("job", "path", "value"), ALWAYS)
def test_modes_and_clean_up_may_always_change(job: Manifest, path: str, value: Any) -> None:
    assert refused(job, changed(job, path, value)) == []


@pytest.mark.parametrize(("job", "path", "value"), WHILE_STOPPED)
def test_templates_commands_and_counts_change_only_while_stopped(
    job: Manifest, path: str, value: Any
) -> None:
    for status in (None, STOPPING):
        (message,) = refused({**job, "status": status}, changed(job, path, value))
        assert "can't change after creation" in message
    paused = changed(job, "spec.runMode.pause.enabled", True)
    assert refused({**paused, "status": STOPPED}, changed(paused, path, value)) == []


@pytest.mark.parametrize(("job", "path", "value", "where"), NEVER)
def test_everything_else_is_refused_with_its_path(job: Manifest, path: str, value: Any, where: str) -> None:
    for status in (None, STOPPED):
        messages = refused({**job, "status": status}, changed(job, path, value))
        assert messages == [f"{where}: can't change after creation"]


def test_a_job_can_not_be_moved_into_a_queue() -> None:
    new = changed(GENERIC, "spec.scheduler.t9kScheduler", {"queue": "a", "priority": 3})
    where = ["spec.scheduler.t9kScheduler.queue", "spec.scheduler.t9kScheduler.priority"]
    assert refused(GENERIC, new) == [f"{path}: can't change after creation" for path in where]


def test_a_job_that_is_about_to_go_on_may_no_longer_be_changed() -> None:
    going_on = {**changed(MPI, "spec.runMode.pause.enabled", False), "status": STOPPED}
    assert refused(going_on, changed(going_on, "spec.worker.replicas", 3)) != []


def test_a_hint_says_how_to_change_a_template() -> None:
    problems = validate(default(changed(MPI, "spec.worker.replicas", 5)), default(MPI))
    assert "pause the job first" in str(problems[0].hint)


def test_queues_may_change_altogether() -> None:
    queue = manifest("Queue", {"priority": 1}, "scheduler.tensorstack.dev/v1beta1")
    assert refused(queue, changed(queue, "spec.priority", 9)) == []


def test_filling_in_a_default_is_no_change() -> None:
    assert refused(MPI, default(MPI)) == []
