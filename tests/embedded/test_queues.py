"""Queues on this machine: gangs that start whole, and what `queue`, `why` and `simulate` say about them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.resources import NODES, resource_of
from bireme.node.machine import go_architecture, look
from support.commands import Bireme, daemon
from support.here import Here, eventually, generic, replica, resource

Object = dict[str, Any]
CPUS = 4


def queue(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def gang(name: str, in_queue: str, pods: int, cpu: str = "1", script: str = "sleep 1000") -> Object:
    """Pods that start together, each of which asks for so many CPUs."""
    workers = replica("worker", script, pods, terminationGracePeriodSeconds=1)
    workers["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return generic(name, workers, scheduler={"t9kScheduler": {"queue": in_queue}})


def is_running(job: Object) -> bool:
    return (job.get("status") or {}).get("phase") == "Running"


def running_of(job: Object) -> Object:
    """The condition Running, with an empty reason where it is not there yet."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Running"), {"reason": ""})


def started(here: Here, job: str) -> int:
    return sum(bool(here.pod(name)["spec"].get("nodeName")) for name in here.pods() if name.startswith(job))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Here]:
    """An embedded mode with as many CPUs as the tests count on."""
    here = Here(tmp_path, msgspec.structs.replace(look(), cpu=str(CPUS), memory="4Gi"))
    here.start()
    yield here
    for job in here.do(here.client.list(resource_of(GENERIC_JOB), "default", type=dict)).items:
        here.delete(generic(job["metadata"]["name"]))
    here.stop()


def test_two_gangs_that_each_need_more_than_half_both_come_to_their_end(machine: Here) -> None:
    script = "while [ ! -e go ]; do sleep 0.1; done"
    jobs = [gang(name, "default", 3, script=script) for name in ("one", "two")]
    for job in jobs:
        machine.create(job)
    eventually(lambda: sorted(started(machine, name) for name in ("one", "two")) == [0, 3])
    first, second = jobs if started(machine, "one") else reversed(jobs)
    machine.until(first, is_running)
    assert started(machine, second["metadata"]["name"]) == 0
    (machine.work / "go").touch()
    for job in (first, second):
        assert machine.end_of(job)["phase"] == "Succeeded"


def test_a_queue_of_higher_priority_takes_and_gives_back(machine: Here) -> None:
    high = queue("high", priority=10)
    machine.do(machine.client.create(resource(high), None, high))
    script = "while [ ! -e go ]; do sleep 0.1; done"
    victim, winner = gang("victim", "default", 3), gang("winner", "high", 3, script=script)
    machine.create(victim)
    machine.until(victim, is_running)
    machine.create(winner)
    eventually(lambda: len(machine.events("Preempted")) == 3, lambda: machine.events("Preempted"))
    assert machine.until(victim, lambda job: not is_running(job))["status"]["phase"] == "Pending"
    (machine.work / "go").touch()
    assert machine.end_of(winner)["phase"] == "Succeeded"
    machine.until(victim, is_running)
    status = machine.do(machine.client.get(resource(victim), "default", "victim"))["status"]
    assert not any(each.get("restarts") for each in status["tasks"][0]["replicas"])
    assert machine.events("Preempting") == {("PodGroup/winner", "3 pods make way")}
    told = {message for _, message in machine.events("Preempted")}
    why = "makes way for default/winner of queue high, which has a higher priority"
    assert told == {f"victim-worker-{index} was preempted ({why}) and is replaced" for index in range(3)}


def test_waiting_job_has_the_reason_of_its_queue_in_its_status(machine: Here) -> None:
    holder, waits = gang("holder", "default", 3), gang("waits", "default", 2)
    machine.create(holder)
    machine.until(holder, is_running)
    machine.create(waits)
    machine.until(waits, lambda job: running_of(job)["reason"] == "WaitingForResources")
    status = machine.do(machine.client.get(resource(waits), "default", "waits"))["status"]
    assert status["phase"] == "Pending"
    assert running_of({"status": status})["message"] == "its 2 pods ask for 2 of cpu (1 free)"
    assert machine.events("WaitingForResources") == {
        ("GenericJob/waits", "its 2 pods ask for 2 of cpu (1 free)")
    }


def test_node_selector_of_a_kubelets_labels_is_met_by_this_machine(machine: Here) -> None:
    job = gang("here", "default", 1, script="true")
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["nodeSelector"] = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": go_architecture(),
    }
    assert machine.play(job)["phase"] == "Succeeded"
    (node,) = machine.do(machine.client.list(NODES, type=dict)).items
    info = node["status"]["nodeInfo"]
    assert info["operatingSystem"] == node["metadata"]["labels"]["kubernetes.io/os"] == "linux"
    assert info["kernelVersion"]
    assert info["kubeletVersion"].startswith("v1.")


def test_a_pod_that_is_older_than_its_queue_allows_has_failed_for_good(machine: Here) -> None:
    short = queue("short", maxDuration="2s")
    machine.do(machine.client.create(resource(short), None, short))
    job = gang("old", "short", 1, script="echo begun; sleep 1000")
    job["spec"]["replicaSpecs"][0]["restartPolicy"] = {"policy": "OnFailure", "limit": 5}
    status = machine.play(job)
    assert status["phase"] == "Failed"
    assert not any(each.get("restarts") for each in status["tasks"][0]["replicas"])
    # The pod is stopped, and kept with its output.
    eventually(lambda: machine.pod("old-worker-0")["status"]["phase"] == "Failed")
    assert machine.pod("old-worker-0")["status"]["reason"] == "DeadlineExceeded"
    assert machine.output("old-worker-0") == "begun\n"


def test_kubeflow_job_that_names_a_queue_starts_as_a_gang(machine: Here) -> None:
    holder = gang("holder", "default", 3)
    machine.create(holder)
    machine.until(holder, is_running)
    asks = {"requests": {"cpu": "1"}}
    launcher = {"name": "main", "image": "x", "command": ["true"], "resources": asks}
    worker = {"name": "main", "image": "x", "resources": asks}
    job = {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": "queued"},
        "spec": {
            "cleanPodPolicy": "All",
            "runPolicy": {"schedulingPolicy": {"queue": "default"}},
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [launcher]}}},
                "Worker": {"replicas": 1, "template": {"spec": {"containers": [worker]}}},
            },
        },
    }
    machine.create(job)
    machine.until(job, lambda job: running_of(job)["reason"] == "WaitingForResources")
    assert started(machine, "queued") == 0
    machine.delete(holder)
    machine.until(job, lambda job: any(each["type"] == "Succeeded" for each in job["status"]["conditions"]))
    machine.delete(job)


# ---- the commands


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """A machine of which a gang holds most."""
    with daemon(tmp_path_factory.mktemp("queues"), "--cpu", str(CPUS), "--memory", "4Gi") as bireme:
        queues = [
            queue("shut", closed=True),
            queue("small", quota={"requests": {"cpu": "1"}}),
            queue("narrow", quota={"requests": {"cpu": "3"}}),
            queue("urgent", priority=50),
        ]
        apply(bireme, *queues, gang("holder", "narrow", 3))
        bireme("wait", "holder", "--for", "running", "--timeout", "3m")
        yield bireme


def apply(bireme: Bireme, *objects: Object) -> None:
    bireme("apply", "-y", "-f", "-", input=yaml.safe_dump_all(objects))


WAITING = {
    "Misconfigured": (gang("lost", "nowhere", 2), "create queue nowhere, or name another one"),
    "QueueClosed": (gang("outside", "shut", 2), "open queue shut (spec.closed: false)"),
    "ExceedsQuotaEver": (gang("greedy", "small", 2), "raise the quota of queue small to 2 cpu"),
    "WaitingForQuota": (gang("patient", "narrow", 1), "raise the quota of queue narrow to 4 cpu"),
    "DoesNotFitAnyNode": (gang("huge", "default", 1, "5"), "`bireme down`, then `bireme up --cpu 5`"),
    "WaitingForResources": (gang("next", "default", 2), "wait for the end of default/holder-worker-"),
}


@pytest.mark.parametrize("reason", WAITING)
def test_why_tells_the_reason_first_and_then_what_would_help(busy: Bireme, reason: str) -> None:
    job, remedy = WAITING[reason]
    name = job["metadata"]["name"]
    apply(busy, job)
    eventually(lambda: f"{name}-worker-0" in busy("get", "pods", "-o", "name").stdout)
    told = busy("why", name).stdout.splitlines()
    assert told[0] == reason
    helps = told[told.index("  what would help:") :]
    assert any(remedy in line for line in helps), helps
    in_queue = job["spec"]["scheduler"]["t9kScheduler"]["queue"]
    if reason != "Misconfigured":
        rows = busy("queue", in_queue).stdout.splitlines()
        assert rows[0].split() == ["POSITION", "GROUP", "PRIORITY", "REASON", "MESSAGE"]
        assert [row.split()[3] for row in rows[1:] if row.split()[1] == f"default/{name}"] == [reason]
    busy("delete", f"gj/{name}", "--now")


def test_a_job_that_no_quota_could_hold_is_taken_with_a_warning(busy: Bireme) -> None:
    told = busy("apply", "-y", "-f", "-", input=yaml.safe_dump(gang("glutton", "small", 2)))
    assert told.stdout == "genericjob.batch.tensorstack.dev/glutton created\n"
    warning = "asks for more than the whole quota of queue small, and waits: 2 of cpu (quota 1)"
    assert f"warning: GenericJob glutton {warning}" in told.stderr
    busy("delete", "gj/glutton", "--now")
    told = busy("apply", "-y", "-f", "-", input=yaml.safe_dump(gang("modest", "small", 1)))
    assert "warning" not in told.stderr
    busy("delete", "gj/modest", "--now")


def test_queue_shows_all_queues_and_what_they_hold(busy: Bireme) -> None:
    rows = [row.split() for row in busy("queue").stdout.splitlines()]
    assert rows[0] == [
        "NAME",
        "PRIORITY",
        "OPEN",
        "PREEMPTIBLE",
        "SHARE",
        "GROUPS",
        "WAITING",
        "HELD",
        "QUOTA",
    ]
    assert [row[0] for row in rows[1:]] == ["urgent", "default", "narrow", "shut", "small"]
    assert rows[3] == ["narrow", "0", "yes", "yes", "100%", "1", "0", "cpu=3", "cpu=3"]
    assert rows[4][2] == "no"


def test_a_job_that_runs_waits_for_nothing(busy: Bireme) -> None:
    assert busy("why", "holder").stdout == "NotWaiting\n"
    assert busy("queue", "urgent").stdout == "nothing waits in queue urgent\n"


SIMULATED = {
    "starts": (gang("tiny", "default", 1), 0, ["starts now", "  tiny-worker-0: "]),
    "evicts": (gang("takes", "urgent", 2), 0, ["starts after evicting", "  holder-worker-"]),
    "waits": (gang("waits", "default", 2), 1, ["WaitingForResources", "  "]),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_simulate_says_what_would_be_and_makes_nothing(busy: Bireme, case: str) -> None:
    job, code, lines = SIMULATED[case]
    before = busy("get", "pods", "-o", "name").stdout
    told = busy("simulate", "-f", "-", input=yaml.safe_dump(job), code=code).stdout.splitlines()
    assert [line.startswith(start) for line, start in zip(told, lines, strict=False)] == [True, True], told
    assert busy("get", "pods", "-o", "name").stdout == before
    assert busy("get", f"gj/{job['metadata']['name']}", code=None).returncode != 0


UNQUEUED = generic("unqueued", replica("worker", "true"))
FAILURES = {
    "no such queue": (["queue", "nothing"], "", "there is no queue nothing", "`bireme queue` lists them"),
    "no such job": (["why", "nothing"], "", "nothing", ""),
    "no queue in the manifest": (
        ["simulate", "-f", "-"],
        yaml.safe_dump(UNQUEUED),
        "no queued jobs, where there must be one",
        "set spec.scheduler.t9kScheduler.queue",
    ),
    "two jobs": (
        ["simulate", "-f", "-"],
        yaml.safe_dump_all([gang("a", "default", 1), gang("b", "default", 1)]),
        "2 queued jobs, where there must be one",
        "",
    ),
    "there already": (
        ["simulate", "-f", "-"],
        yaml.safe_dump(gang("holder", "narrow", 3)),
        "holder is there already",
        "`bireme why` says what it waits for",
    ),
    "no such file": (["simulate", "-f", "nothing.yaml"], "", "nothing.yaml", ""),
    "not a job": (["simulate", "-f", "-"], "kind: [", "", ""),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_cannot_be_answered_is_said_with_what_to_do(busy: Bireme, case: str) -> None:
    command, text, message, hint = FAILURES[case]
    result = busy(*command, input=text, code=None)
    assert result.returncode != 0
    assert result.stdout == ""
    assert "error: " in result.stderr
    assert message in result.stderr
    assert hint in result.stderr


def test_a_job_outside_of_any_queue_has_nothing_to_wait_for(busy: Bireme) -> None:
    apply(busy, UNQUEUED)
    result = busy("why", "unqueued", code=None)
    assert result.returncode != 0
    assert "error: unqueued is not in a queue" in result.stderr
    busy("delete", "gj/unqueued", "--now")


def test_why_explains_pod_groups_and_pods_that_somebody_made(busy: Bireme) -> None:
    labels = {"scheduler.tensorstack.dev/group-name": "byhand"}
    group = {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "byhand"},
        "spec": {"minMember": 2, "queue": "default"},
    }
    member = plain_pod("member", labels)
    alone = plain_pod("alone", {"scheduler.tensorstack.dev/queue": "shut"})
    other = plain_pod("other", {}, scheduler="default-scheduler")
    apply(busy, group, member, alone, other)
    for word in ("podgroup/byhand", "pod/member", "pg/byhand"):
        told = busy("why", word).stdout.splitlines()
        assert told[0] == "InsufficientMembers", word
        assert "    create 1 more pod" in told
    assert busy("why", "pod/alone").stdout.splitlines()[0] == "QueueClosed"
    assert "pod other is not in a queue" in busy("why", "pod/other", code=1).stderr
    assert "there is no job or pod nobody" in busy("why", "nobody", code=1).stderr
    for name in ("member", "alone", "other"):
        busy("delete", f"pod/{name}", "--now")


def plain_pod(name: str, labels: dict[str, str], scheduler: str = "t9k-scheduler") -> Object:
    container = {"name": "main", "image": "x", "command": ["sleep", "1000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 1},
    }
