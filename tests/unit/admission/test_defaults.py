"""Defaults."""

from typing import Any

from bireme.admission import default

TEMPLATE: dict[str, Any] = {
    "spec": {"containers": [{"name": "a", "image": "a", "ports": [{"containerPort": 1}]}]}
}


def test_replicas_and_restart_policy_of_a_generic_job() -> None:
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "spec": {"replicaSpecs": [{"type": "a", "template": TEMPLATE}]},
    }
    spec = default(job)["spec"]
    assert spec["replicaSpecs"][0]["replicas"] == 1
    assert spec["replicaSpecs"][0]["restartPolicy"] == {"policy": "OnFailure", "limit": 0}
    assert "cleanUpPolicy" not in spec


def test_nothing_is_filled_into_a_pod_template() -> None:
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "spec": {"worker": {"template": TEMPLATE}},
    }
    assert default(job)["spec"]["worker"]["template"] == TEMPLATE


def test_neither_spelling_of_a_run_mode_flag_is_filled_in() -> None:
    mode = {"debug": {"enable": True}, "pause": {}}
    job = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "spec": {"runMode": mode}}
    assert default(job)["spec"]["runMode"] == mode


def test_values_that_are_there_win_and_null_counts_as_missing() -> None:
    job = {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "spec": {"backoffLimit": 0, "slotsPerWorker": None, "runPolicy": {}},
    }
    spec = default(job)["spec"]
    assert (spec["backoffLimit"], spec["slotsPerWorker"], spec["runPolicy"]) == (0, 1, {})


def test_it_is_idempotent_and_leaves_its_argument_alone() -> None:
    job: dict[str, Any] = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "ColossalAIJob",
        "spec": {"worker": {}},
    }
    once = default(job)
    assert default(once) == once
    assert job["spec"] == {"worker": {}}


def test_malformed_objects_and_other_kinds_come_back_as_they_are() -> None:
    broken = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "spec": {"replicaSpecs": "x"},
    }
    assert default(broken)["spec"]["replicaSpecs"] == "x"
    other = {"apiVersion": "v1", "kind": "Pod", "spec": {}}
    assert default(other) == other
