"""The phase that goes with the states of a pod's containers."""

from typing import Any

import pytest

from bireme.node.phase import derive_phase
from unit.node.model import build_pod, container, sidecar

Object = dict[str, Any]
RUNS: Object = {"state": {"running": {}}, "started": True}
UNSTARTED: Object = {"state": {"running": {}}, "started": False}
WAITS: Object = {"state": {"waiting": {}}}


def ended(code: int) -> Object:
    return {"state": {"terminated": {"exitCode": code}}}


def again(code: int) -> Object:
    """Waiting to be started again."""
    return {"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": code}}}


POD = build_pod(container("a"), container("b"), init=(container("i"), sidecar("s")))


@pytest.mark.parametrize(
    ("policy", "entries", "initialized", "phase"),
    [
        ("Always", [WAITS, WAITS, WAITS, WAITS], False, "Pending"),
        ("Always", [RUNS, WAITS, WAITS, WAITS], False, "Pending"),
        ("Never", [ended(1), WAITS, WAITS, WAITS], False, "Failed"),
        ("OnFailure", [ended(1), WAITS, WAITS, WAITS], False, "Pending"),
        ("OnFailure", [again(1), WAITS, WAITS, WAITS], False, "Pending"),
        ("Never", [again(1), WAITS, WAITS, WAITS], False, "Failed"),
        ("Always", [ended(0), UNSTARTED, RUNS, RUNS], False, "Pending"),
        ("Always", [ended(0), UNSTARTED, RUNS, RUNS], True, "Running"),
        ("Always", [RUNS, RUNS, RUNS, RUNS], True, "Pending"),
        ("Always", [ended(0), WAITS, RUNS, RUNS], True, "Pending"),
        ("Always", [ended(0), again(1), RUNS, RUNS], True, "Running"),
        ("Always", [ended(0), RUNS, RUNS, WAITS], True, "Pending"),
        ("Always", [ended(0), RUNS, ended(0), ended(0)], True, "Running"),
        ("Always", [ended(0), ended(0), ended(0), again(1)], True, "Running"),
        ("OnFailure", [ended(0), ended(0), ended(0), ended(1)], True, "Running"),
        ("OnFailure", [ended(0), ended(1), ended(0), ended(0)], True, "Succeeded"),
        ("Never", [ended(0), ended(1), ended(0), ended(0)], True, "Succeeded"),
        ("Never", [ended(0), ended(0), ended(0), ended(3)], True, "Failed"),
    ],
)
def test_the_phase_follows_from_the_containers(
    policy: str, entries: list[Object], initialized: bool, phase: str
) -> None:
    pod = POD | {"spec": POD["spec"] | {"restartPolicy": policy}}
    named = dict(zip(("i", "s", "a", "b"), entries, strict=True))
    assert derive_phase(pod, named, initialized=initialized, final=False) == phase


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_nothing_starts_again_in_a_pod_that_ends(code: int, phase: str) -> None:
    pod = build_pod(container("a"))
    assert derive_phase(pod, {"a": ended(code)}, initialized=True, final=False) == "Running"
    assert derive_phase(pod, {"a": ended(code)}, initialized=True, final=True) == phase
