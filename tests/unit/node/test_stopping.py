"""How a pod stops: deletion, deadline, hooks, and probes that failed."""

from datetime import timedelta
from typing import Any

import pytest

from bireme.node.orders import (
    CheckShim,
    KillContainer,
    RunHook,
    RunProbe,
    SignalContainer,
)
from bireme.node.stopping import PATIENCE
from unit.node.model import START, ModelNode, build_pod, container, sidecar

Object = dict[str, Any]
PROBE = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 2, "timeoutSeconds": 1, "exec": {}}
HOOK = {"exec": {"command": ["true"]}}


# ---- deletion and deadline


def test_a_deleted_pod_is_asked_to_end_and_killed_after_its_grace() -> None:
    node = ModelNode(build_pod(container("a"), container("b")), b=False)
    node.settle()
    made = node.delete(grace=5)
    assert node.alive == ["b"]
    assert made.wake_at == node.now + timedelta(seconds=5)
    assert node.given(KillContainer) == []
    made = node.pass_time(5)
    assert (node.alive, made.done, node.phase) == ([], True, "Failed")
    assert node.starts == [("a", 0), ("b", 0)]


def test_a_shim_that_does_not_kill_is_asked_whether_it_is_there_and_goes() -> None:
    node = ModelNode(build_pod())
    node.settle()
    node.is_deaf = True
    node.delete(grace=5)
    made = node.pass_time(5)
    assert (node.given(KillContainer), made.wake_at) == ([KillContainer("a", 0)], node.now + PATIENCE)
    made = node.pass_time(10)
    assert (node.given(CheckShim), node.alive, made.done) == ([CheckShim()], [], True)
    assert node.entry("a")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_grace_can_be_cut_short() -> None:
    node = ModelNode(build_pod(), a=False)
    node.settle()
    node.delete(grace=600)
    node.pass_time(10)
    node.delete(grace=1)
    assert node.settle().done


def test_term_is_always_given_a_moment() -> None:
    node = ModelNode(build_pod(), a=False)
    node.settle()
    assert not node.delete(grace=0).done
    assert node.pass_time(2).done


def test_a_pod_that_is_deleted_before_it_began_never_begins() -> None:
    node = ModelNode(build_pod())
    assert node.delete().done
    assert (node.starts, node.phase) == ([], "Failed")
    assert node.entry("a")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_a_pod_whose_containers_end_well_when_deleted_has_succeeded() -> None:
    node = ModelNode(build_pod(), a=False)
    node.settle()
    node.delete()
    assert node.finish("a", code=0).done
    assert node.phase == "Succeeded"


def test_a_pod_is_stopped_at_its_deadline() -> None:
    node = ModelNode(build_pod(activeDeadlineSeconds=60), a=False)
    assert node.settle().wake_at == START + timedelta(seconds=60)
    node.pass_time(60)
    assert (node.phase, node.alive, node.condition("Ready")["reason"]) == ("Running", ["a"], "PodFailed")
    assert node.pass_time(30).done
    status = node.pod["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert node.starts == [("a", 0)]


def test_a_deadline_that_is_set_later_counts_from_the_start() -> None:
    node = ModelNode(build_pod())
    node.pass_time(100)
    node.pod = node.pod | {"spec": node.pod["spec"] | {"activeDeadlineSeconds": 1}}
    assert node.settle().done
    assert node.pod["status"]["reason"] == "DeadlineExceeded"


def test_a_finished_pod_stays_finished() -> None:
    node = ModelNode(build_pod(restartPolicy="Never"))
    node.settle()
    node.finish("a")
    status = node.pod["status"]
    node.pass_time(3600)
    node.delete()
    assert (node.pod["status"], node.starts) == (status, [("a", 0)])


def test_what_runs_in_a_pod_that_somebody_else_failed_is_stopped() -> None:
    node = ModelNode(build_pod())
    node.settle()
    node.pod = node.pod | {"status": node.pod["status"] | {"phase": "Failed", "reason": "Evicted"}}
    assert node.settle().done
    assert (node.alive, node.phase, node.pod["status"]["reason"]) == ([], "Failed", "Evicted")
    assert node.entry("a")["state"]["terminated"]["exitCode"] == 143


# ---- hooks


def test_a_container_is_told_of_after_its_post_start_hook() -> None:
    node = ModelNode(build_pod(container("a", lifecycle={"postStart": HOOK}), container("b")))
    node.settle()
    assert (node.alive, node.phase) == (["a"], "Pending")
    assert node.entry("a")["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert node.given(RunHook) == [RunHook("a", 0, "postStart", HOOK)]
    node.finish_hook("a")
    assert (node.alive, node.phase) == (["a", "b"], "Running")


def test_a_container_whose_post_start_hook_fails_is_stopped() -> None:
    node = ModelNode(build_pod(container("a", lifecycle={"postStart": HOOK}), restartPolicy="Never"))
    node.settle()
    assert node.finish_hook("a", error="exit code 1").done
    assert (node.phase, node.entry("a")["state"]["terminated"]["exitCode"]) == ("Failed", 143)


def test_a_post_start_hook_that_is_done_is_not_run_again_after_a_crash() -> None:
    node = ModelNode(build_pod(container("a", lifecycle={"postStart": HOOK})))
    node.settle()
    node.crash()
    node.settle()
    node.finish_hook("a")
    node.crash()
    node.settle()
    assert len(node.given(RunHook)) == 2
    assert node.phase == "Running"


def test_a_pre_stop_hook_comes_before_term() -> None:
    node = ModelNode(build_pod(container("a", lifecycle={"preStop": HOOK})))
    node.settle()
    node.delete()
    assert (node.given(RunHook), node.given(SignalContainer)) == ([RunHook("a", 0, "preStop", HOOK)], [])
    node.pass_time(3)
    assert node.finish_hook("a").done
    assert node.given(SignalContainer) == [SignalContainer("a", 15, 0)]


def test_a_pre_stop_hook_has_no_longer_than_the_grace() -> None:
    node = ModelNode(build_pod(container("a", lifecycle={"preStop": HOOK})), a=False)
    node.settle()
    node.delete(grace=10)
    node.pass_time(10)
    assert node.given(SignalContainer) == [SignalContainer("a", 15, 0)]
    assert node.alive == ["a"]
    assert node.pass_time(2).done


def test_a_sidecar_waits_for_its_turn_no_longer_than_the_grace() -> None:
    node = ModelNode(build_pod(init=(sidecar("s"),)), a=False)
    node.settle()
    node.delete(grace=10)
    assert node.given(SignalContainer) == [SignalContainer("a", 15, 0)]
    assert node.pass_time(12).done
    assert node.given(KillContainer) == [KillContainer("a", 0)]


# ---- probes


def test_a_container_is_ready_once_its_probe_says_so() -> None:
    node = ModelNode(build_pod(container("a", readinessProbe=PROBE)))
    node.settle()
    assert (node.entry("a")["ready"], node.condition("Ready")["status"]) == (False, "False")
    node.finish_probe("a", "readinessProbe", succeeded=True)
    assert (node.entry("a")["ready"], node.condition("Ready")["status"]) == (True, "True")
    for ready in (True, False):
        node.pass_time(10)
        node.finish_probe("a", "readinessProbe", succeeded=False)
        assert node.entry("a")["ready"] is ready


def test_other_probes_wait_for_the_startup_probe() -> None:
    probes: Object = dict.fromkeys(("startupProbe", "readinessProbe", "livenessProbe"), PROBE)
    node = ModelNode(build_pod(container("a", **probes)))
    node.settle()
    assert node.given(RunProbe) == [RunProbe("a", 0, "startupProbe")]
    assert node.entry("a")["started"] is False
    node.finish_probe("a", "startupProbe", succeeded=True)
    assert node.entry("a")["started"] is True
    assert node.given(RunProbe)[1:] == [RunProbe("a", 0, "livenessProbe"), RunProbe("a", 0, "readinessProbe")]


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
def test_a_container_that_fails_its_probe_is_stopped_and_starts_again(probe: str) -> None:
    own = PROBE | {"terminationGracePeriodSeconds": 4}
    node = ModelNode(build_pod(container("a", **{probe: own})), a=False)
    node.settle()
    node.finish_probe("a", probe, succeeded=False)
    assert node.given(SignalContainer) == []
    node.pass_time(10)
    node.finish_probe("a", probe, succeeded=False)
    assert node.given(SignalContainer) == [SignalContainer("a", 15, 0)]
    node.pass_time(4)
    assert node.given(KillContainer) == [KillContainer("a", 0)]
    assert node.starts == [("a", 0), ("a", 1)]


def test_a_container_that_fails_its_probe_fails_a_pod_that_never_restarts() -> None:
    node = ModelNode(
        build_pod(container("a", livenessProbe=PROBE | {"failureThreshold": 1}), restartPolicy="Never")
    )
    node.settle()
    assert node.finish_probe("a", "livenessProbe", succeeded=False).done
    assert (node.phase, node.starts) == ("Failed", [("a", 0)])


def test_what_is_known_of_readiness_outlives_a_crash() -> None:
    node = ModelNode(build_pod(container("a", readinessProbe=PROBE, startupProbe=PROBE)))
    node.settle()
    node.finish_probe("a", "startupProbe", succeeded=True)
    node.finish_probe("a", "readinessProbe", succeeded=True)
    node.crash()
    node.settle()
    assert (node.entry("a")["started"], node.entry("a")["ready"]) == (True, True)


def test_a_pod_that_ends_is_probed_for_readiness_only() -> None:
    node = ModelNode(build_pod(container("a", readinessProbe=PROBE, livenessProbe=PROBE)), a=False)
    node.settle()
    node.finish_probe("a", "readinessProbe", succeeded=True)
    node.finish_probe("a", "livenessProbe", succeeded=True)
    node.delete()
    node.pass_time(10)
    assert node.given(RunProbe)[2:] == [RunProbe("a", 0, "readinessProbe")]
