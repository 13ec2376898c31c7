"""The life of a pod on a node, step by step."""

from datetime import timedelta
from typing import Any

import pytest

from bireme.node.life import step
from bireme.node.orders import (
    EndPod,
    KillContainer,
    SignalContainer,
    StartContainer,
)
from bireme.node.seen import Problem, Seen
from unit.node.model import START, ModelNode, build_pod, container, sidecar

Object = dict[str, Any]
PROBE = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 2, "timeoutSeconds": 1, "exec": {}}
HOOK = {"exec": {"command": ["true"]}}


# ---- starting


def test_main_containers_start_together() -> None:
    node = ModelNode(build_pod(container("a"), container("b")))
    assert step(node.pod, Seen(), START).orders == (StartContainer("a", 0), StartContainer("b", 0))
    assert node.settle().orders == ()
    assert (node.phase, sorted(node.alive)) == ("Running", ["a", "b"])


def test_init_containers_run_one_after_the_other() -> None:
    node = ModelNode(build_pod(init=(container("i"), container("j"))))
    node.settle()
    assert (node.alive, node.phase) == (["i"], "Pending")
    node.finish("i")
    assert (node.alive, node.phase) == (["j"], "Pending")
    node.finish("j")
    assert (node.alive, node.phase) == (["a"], "Running")


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    node = ModelNode(build_pod(init=(container("i"), container("j")), restartPolicy="Never"))
    node.settle()
    assert node.finish("i", code=3).done
    assert (node.phase, node.starts) == ("Failed", [("i", 0)])
    assert node.entry("a")["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_a_failed_init_container_is_tried_again() -> None:
    node = ModelNode(build_pod(init=(container("i"),), restartPolicy="OnFailure"))
    node.settle()
    node.finish("i", code=3)
    assert (node.starts, node.phase) == ([("i", 0), ("i", 1)], "Pending")
    node.finish("i")
    assert (node.alive, node.phase) == (["a"], "Running")


def test_a_sidecar_holds_back_what_follows_until_it_has_started() -> None:
    node = ModelNode(build_pod(init=(sidecar("s", startupProbe=PROBE), container("i"))))
    node.settle()
    assert node.alive == ["s"]
    node.finish_probe("s", "startupProbe", succeeded=True)
    assert node.alive == ["s", "i"]
    node.finish("i")
    assert (node.alive, node.phase) == (["s", "a"], "Running")


def test_a_sidecar_starts_again_while_the_pod_goes_on() -> None:
    node = ModelNode(build_pod(init=(sidecar("s"), container("i")), restartPolicy="Never"))
    node.settle()
    node.finish("s", code=1)
    assert node.alive == ["s", "i"]
    node.finish("i")
    node.finish("s", code=0)
    assert (node.alive, node.phase) == (["a"], "Running")
    node.pass_time(11)
    assert node.starts == [("s", 0), ("i", 0), ("s", 1), ("a", 0), ("s", 2)]


def test_a_problem_keeps_a_container_waiting_until_it_is_gone() -> None:
    node = ModelNode(build_pod(container("a"), container("b")))
    node.problems = (Problem("CreateContainerConfigError", 'configmap "c" not found', "b"),)
    made = node.settle()
    assert node.alive == ["a"]
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "c" not found'}
    assert (node.entry("b")["state"], node.phase) == ({"waiting": waiting}, "Pending")
    assert made.wake_at is not None
    node.problems = ()
    assert node.ask().orders == (StartContainer("b", 0),)
    assert node.entry("b")["state"] == {"waiting": waiting}
    node.settle()
    assert (sorted(node.alive), node.phase) == (["a", "b"], "Running")


def test_a_problem_of_the_pod_holds_back_all_containers() -> None:
    node = ModelNode(build_pod(container("a"), container("b")))
    node.problems = (Problem("ContainerCreating", "the volume is not there"),)
    node.settle()
    assert node.starts == []


def test_a_pod_that_can_t_run_here_fails_at_once() -> None:
    node = ModelNode(build_pod())
    node.problems = (Problem("MountNotPossible", "/data can't be mounted", fatal=True),)
    assert node.settle().done
    status = node.pod["status"]
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "MountNotPossible",
        "/data can't be mounted",
    )
    assert "containerStatuses" not in status
    node.problems = ()
    assert node.settle().done
    assert (node.starts, node.pod["status"]) == ([], status)


def test_a_container_that_can_t_run_here_says_why_after_others_have_run() -> None:
    node = ModelNode(build_pod(container("main"), init=(container("first"),)))
    node.settle()
    node.end("first", 0)
    node.problems = (Problem("CreateContainerConfigError", "subPath: a link", "main", fatal=True),)
    node.settle()
    ended = node.pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["message"]) == ("CreateContainerConfigError", "subPath: a link")


# ---- ends, and beginning again


@pytest.mark.parametrize(
    ("policy", "code", "phase", "again"),
    [
        ("Always", 0, "Running", True),
        ("Always", 1, "Running", True),
        ("OnFailure", 0, "Succeeded", False),
        ("OnFailure", 1, "Running", True),
        ("Never", 0, "Succeeded", False),
        ("Never", 1, "Failed", False),
    ],
)
def test_the_restart_policy_decides(policy: str, code: int, phase: str, again: bool) -> None:
    node = ModelNode(build_pod(restartPolicy=policy))
    node.settle()
    made = node.finish("a", code=code)
    assert (node.phase, bool(node.alive), made.done) == (phase, again, not again)
    assert node.given(EndPod) == ([] if again else [EndPod()])


@pytest.mark.parametrize(
    ("rule", "code", "again"),
    [
        ({"operator": "In", "values": [42]}, 42, True),
        ({"operator": "In", "values": [42]}, 1, False),
        ({"operator": "NotIn", "values": [42]}, 1, True),
        ({"operator": "NotIn", "values": [42]}, 42, False),
    ],
)
def test_a_container_s_own_rules_go_before_the_pod_s_policy(rule: Object, code: int, again: bool) -> None:
    rules = [{"action": "Restart", "exitCodes": rule}]
    own = container("a", restartPolicy="Never", restartPolicyRules=rules)
    node = ModelNode(build_pod(own, restartPolicy="Never"))
    node.settle()
    node.finish("a", code=code)
    assert bool(node.alive) is again


def test_a_pod_waits_for_all_its_containers() -> None:
    node = ModelNode(build_pod(container("a"), container("b"), restartPolicy="Never"))
    node.settle()
    assert not node.finish("a", code=1).done
    assert node.phase == "Running"
    assert node.finish("b").done
    assert node.phase == "Failed"


def test_a_crash_loop_backs_off() -> None:
    node = ModelNode(build_pod())
    node.settle()
    waits = []
    for _ in range(9):
        node.pass_time(3)
        made = node.finish("a", code=1)
        waits.append(round((made.wake_at - node.now).total_seconds()) if made.wake_at else 0)
        node.pass_time(waits[-1])
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert node.entry("a")["restartCount"] == 9


def test_a_container_in_back_off_waits_with_its_last_end() -> None:
    node = ModelNode(build_pod())
    node.settle()
    node.finish("a", code=1)
    node.finish("a", code=2)
    entry = node.entry("a")
    message = "back-off 10s restarting failed container=a pod=p_default(u-1)"
    assert entry["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert entry["lastState"]["terminated"]["exitCode"] == 2
    assert (entry["restartCount"], node.phase) == (1, "Running")
    node.now += timedelta(seconds=10)
    assert node.ask().orders == (StartContainer("a", 2, 2),)
    assert node.entry("a") == entry
    node.settle()
    assert list(node.entry("a")["state"]) == ["running"]


def test_a_long_run_is_forgiven() -> None:
    node = ModelNode(build_pod())
    node.settle()
    for seconds in (1, 1, 601):
        node.pass_time(seconds)
        node.finish("a", code=1)
        node.pass_time(10)
    assert node.starts == [("a", 0), ("a", 1), ("a", 2), ("a", 3)]
    started = node.records["a"].started
    node.pass_time(1)
    made = node.finish("a", code=1)
    assert made.wake_at == node.now + timedelta(seconds=10)
    assert started < node.now


def test_sidecars_are_stopped_last_of_all_and_in_reverse() -> None:
    node = ModelNode(build_pod(init=(sidecar("s"), sidecar("t")), restartPolicy="Never"))
    node.settle()
    assert node.finish("a").done
    assert node.given(SignalContainer) == [SignalContainer("t", 15, 0), SignalContainer("s", 15, 0)]
    assert node.phase == "Succeeded"


def test_a_pod_is_not_finished_while_a_sidecar_still_runs() -> None:
    node = ModelNode(build_pod(init=(sidecar("s"),), restartPolicy="Never"), s=False)
    node.settle()
    node.finish("a", code=1)
    assert (node.phase, node.alive) == ("Running", ["s"])
    assert node.pass_time(30).done
    assert (node.phase, node.given(KillContainer)) == ("Failed", [KillContainer("s", 0)])


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"code": 0}, "Completed", ""),
        ({"code": 7}, "Error", ""),
        ({"code": 137, "oom": True}, "OOMKilled", ""),
        ({"code": 139}, "Error", ""),
        ({"code": 127, "error": "can't run x: No such file"}, "StartError", "can't run x: No such file"),
        ({"code": 1, "message": "é" * 3000}, "Error", "é" * 2048),
        ({"code": 1, "message": "a" + "é" * 3000}, "Error", "a" + "é" * 2047),
    ],
    ids=[
        "success",
        "failure",
        "out of memory",
        "signal",
        "no such program",
        "long message",
        "cut in a letter",
    ],
)
def test_how_a_container_ended_is_told(fields: Object, reason: str, message: str) -> None:
    node = ModelNode(build_pod(restartPolicy="Never"))
    node.settle()
    node.finish("a", **fields)
    ended = node.entry("a")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended.get("message", "")) == (fields["code"], reason, message)
    assert "signal" not in ended


def test_the_messages_of_many_containers_share_the_space() -> None:
    node = ModelNode(build_pod(*(container(f"c{i}") for i in range(6)), restartPolicy="Never"))
    node.settle()
    node.finish("c0", message="x" * 5000)
    assert len(node.entry("c0")["state"]["terminated"]["message"]) == 2048


# ---- a shim that is lost


def test_what_ran_under_a_lost_shim_ended_nobody_knows_how() -> None:
    node = ModelNode(build_pod(container("a"), container("b"), restartPolicy="Never"))
    node.settle()
    node.finish("a")
    assert node.lose_shim().done
    ended = node.entry("b")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert node.entry("a")["state"]["terminated"]["reason"] == "Completed"
    assert node.phase == "Failed"


def test_a_pod_that_ran_when_the_machine_was_restarted_is_lost_with_its_node() -> None:
    node = ModelNode(build_pod(container("a"), container("b"), restartPolicy="Never"))
    node.settle()
    node.finish("a")
    assert node.lose_shim(rebooted=True).done
    status = node.pod["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "NodeShutdown")
    assert "restarted" in status["message"]


def test_a_pod_that_had_ended_when_the_machine_was_restarted_has_its_own_end() -> None:
    node = ModelNode(build_pod(restartPolicy="Never"))
    node.settle()
    node.finish("a", code=3)
    node.lose_shim(rebooted=True)
    assert node.phase == "Failed"
    assert "reason" not in node.pod["status"]


def test_a_container_that_starts_again_does_so_after_a_restart_of_the_machine() -> None:
    node = ModelNode(build_pod())
    node.settle()
    node.lose_shim(rebooted=True)
    assert node.starts == [("a", 0), ("a", 1)]
    assert node.phase == "Running"


def test_what_an_old_record_tells_of_an_end_that_is_known_does_not_count() -> None:
    node = ModelNode(build_pod(restartPolicy="Never"))
    node.settle()
    node.lose_shim()
    status = node.pod["status"]
    node.shim = "alive"
    node.ask()
    assert node.pod["status"] == status


def test_containers_of_a_lost_shim_start_again_under_another_as_a_new_attempt() -> None:
    node = ModelNode(build_pod(init=(container("i"),)))
    node.settle()
    node.finish("i")
    node.lose_shim()
    assert node.starts == [("i", 0), ("a", 0), ("a", 1)]
    entry = node.entry("a")
    assert entry["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (entry["restartCount"], list(entry["state"])) == (1, ["running"])
