"""Pods: READY, STATUS and RESTARTS in all their states."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver.kinds import POD
from bireme.apiserver.printing.table import table
from support.printed_objects import PODS, Object

NOW = datetime(2019, 5, 6, 7, 13, 9, tzinfo=UTC)

SHOWN = {
    "as-created": ("0/1", "", "0"),
    "gated": ("0/1", "", "0"),
    "running": ("1/1", "Running", "0"),
    "running-unready": ("0/1", "Running", "0"),
    "half-ready": ("1/2", "Running", "0"),
    "creating": ("0/1", "ContainerCreating", "0"),
    "waiting-for-nothing": ("0/1", "Pending", "0"),
    "without-state": ("0/1", "Running", "0"),
    "crash-loop": ("0/1", "CrashLoopBackOff", "5 (5m ago)"),
    "crash-loop-twice": ("0/2", "CrashLoopBackOff", "5 (5m ago)"),
    "restarted-without-a-date": ("1/1", "Running", "3"),
    "succeeded": ("0/1", "Completed", "0"),
    "completed-and-running": ("1/2", "NotReady", "0"),
    "completed-and-ready": ("1/2", "Running", "0"),
    "completed-and-failed": ("0/2", "Error", "0"),
    "failed-and-completed": ("0/2", "Error", "0"),
    "out-of-memory": ("0/1", "OOMKilled", "0"),
    "exit-code": ("0/1", "ExitCode:42", "0"),
    "signal": ("0/1", "Signal:9", "0"),
    "evicted": ("0/1", "Evicted", "0"),
    "unknown": ("0/1", "NodeLost", "0"),
    "terminating": ("1/1", "Terminating", "0"),
    "terminating-ended": ("0/1", "Error", "0"),
    "terminating-lost": ("0/1", "Unknown", "0"),
    "init-waiting": ("0/1", "Init:0/2", "0"),
    "init-second": ("0/1", "Init:1/2", "1"),
    "init-crash-loop": ("0/1", "Init:CrashLoopBackOff", "4 (5m ago)"),
    "init-error": ("0/1", "Init:Error", "0"),
    "init-exit-code": ("0/1", "Init:ExitCode:5", "0"),
    "init-signal": ("0/1", "Init:Signal:15", "0"),
    "initialized-before": ("1/1", "Init:0/1", "1 (5m ago)"),
    "sidecar": ("2/2", "Running", "2 (5m ago)"),
    "sidecar-unready": ("1/2", "Running", "0"),
    "sidecar-not-started": ("0/2", "Init:0/2", "0"),
    "nominated": ("0/1", "Pending", "0"),
    "readiness-gates": ("0/1", "Running", "0"),
}


def stored(name: str) -> Object:
    """A pod of the table, as it would be kept."""
    pod = PODS[name]
    metadata = {"name": name, "creationTimestamp": "2019-05-06T07:08:09Z", **pod.metadata}
    if pod.deleted:
        metadata["deletionTimestamp"] = "2019-05-06T07:08:09Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "a", "image": "i"}], **pod.spec},
        "status": pod.status,
    }


def row(pod: Object) -> Any:
    return table(POD, [pod], NOW)["rows"][0]


def test_every_pod_of_the_table_has_its_cells() -> None:
    assert SHOWN.keys() == PODS.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_a_pod_shows_what_holds_it_up(name: str) -> None:
    assert tuple(row(stored(name))["cells"][1:4]) == SHOWN[name]


def test_a_gated_pod_says_so() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [gated]}}
    assert row(pod)["cells"][2] == "SchedulingGated"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("running", ["10.1.2.3", "printing-plain", "<none>", "<none>"]),
        ("nominated", ["<none>", "<none>", "printing-plain", "<none>"]),
        ("readiness-gates", ["<none>", "<none>", "<none>", "1/3"]),
    ],
)
def test_wide_columns_name_where_a_pod_is(name: str, shown: list[str]) -> None:
    assert row(stored(name))["cells"][4:] == ["5m", *shown]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"podIP": "10.0.0.1"}, "10.0.0.1"),
        ({"podIPs": [{"ip": "10.0.0.2"}]}, "10.0.0.2"),
        ({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}, "10.0.0.1"),
        ({"podIPs": []}, "<none>"),
    ],
    ids=str,
)
def test_a_pod_has_an_address_in_either_field(status: Object, shown: str) -> None:
    assert row({"metadata": {"name": "p"}, "status": status})["cells"][5] == shown


@pytest.mark.parametrize(("name", "reason"), [("succeeded", "Succeeded"), ("signal", "Failed")])
def test_a_row_says_that_its_pod_has_ended(name: str, reason: str) -> None:
    (condition,) = row(stored(name))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Completed", "True", reason)
    assert "conditions" not in row(stored("running"))
