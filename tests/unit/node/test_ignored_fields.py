"""What is said of fields of a pod that this machine does not honour."""

from pathlib import Path
from typing import Any

import pytest

from bireme.node.ignored_fields import (
    Here,
    Missing,
    describe_missing,
    describe_placement,
    describe_user,
    describe_volumes,
)

HERE = Here("vm", 1000, 1000, labels={"zone": "a"})


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}], **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"zone": "a"}},
        {"nodeSelector": {"zone": "b"}, "schedulerName": "t9k-scheduler"},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    ],
    ids=["label is there", "queued", "preferred"],
)
def test_placement_that_holds_is_not_worth_a_word(spec: dict[str, Any]) -> None:
    assert list(describe_placement(pod(**spec), HERE)) == []


def test_required_node_affinity_is_told() -> None:
    required: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    told = list(describe_placement(pod(affinity={"nodeAffinity": required}), HERE))
    assert told == ["nodeAffinity is not looked at: this machine is the only node"]


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ({"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}, ""),
        ({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}, ""),
        ({"runAsUser": 0, "fsGroup": 5}, "runAsUser 0, fsGroup 5"),
        ({"readOnlyRootFilesystem": True, "privileged": True}, "readOnlyRootFilesystem, privileged"),
    ],
    ids=["own user", "fewer rights", "other user", "rights"],
)
def test_security_context_that_is_not_applied_is_told(context: dict[str, Any], told: str) -> None:
    made = list(describe_user(pod(securityContext=context), HERE))
    assert made == (
        [f"securityContext: {told} not applied: containers run as you (uid 1000)"] if told else []
    )


def test_security_context_of_our_own_containers_is_not_told() -> None:
    ours = [{"name": "bireme-passwd", "securityContext": {"runAsUser": 0}}]
    assert list(describe_user(pod(initContainers=ours), HERE)) == []


def test_empty_dirs_are_told_by_size_and_medium() -> None:
    volumes = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "c", "emptyDir": {"medium": "HugePages"}},
    ]
    assert list(describe_volumes(pod(volumes=volumes), HERE)) == [
        "emptyDir c: medium HugePages is a folder on disk here"
    ]


def test_nothing_is_told_of_objects_that_are_there() -> None:
    assert list(describe_missing(Missing())) == []
    assert len(list(describe_missing(Missing({"a": Path("/a"), "b": Path("/b")}, "high", "me")))) == 4
