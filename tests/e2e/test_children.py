"""What is made for a job, as the job changes, and where its name is taken."""

from typing import Any, Final

import pytest

from support.manifests import WAIT, generic_job, kubeflow_job, mpi_job
from support.stage import Object, Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

GENERIC: Final = "genericjobs.batch.tensorstack.dev"
MPI: Final = "mpijobs.batch.tensorstack.dev"
KUBEFLOW: Final = "mpijobs.kubeflow.org"
IDLE: Final = "exec sleep 600"
RBAC: Final = "rbac.authorization.k8s.io"
PORTS: Final = {"service": {"ports": [{"name": "x", "port": 1}]}}


def pause(stage: Stage, job: Object, *, enabled: bool) -> None:
    stage.patch(job, {"runMode": {"pause": {"enabled": enabled}}})


def is_stopped(found: Object) -> bool:
    return "Stopped" in reasons(found)


def reasons(found: Object) -> set[Any]:
    return {each.get("reason") for each in (found.get("status") or {}).get("conditions") or ()}


def test_services_and_hostfiles_follow_a_job_that_changes_while_it_is_paused(stage: Stage) -> None:
    shrinks = generic_job("shrinks", stage.image("busybox"), {"worker": IDLE}, **PORTS)
    shrinks["spec"]["replicaSpecs"][0]["replicas"] = 2
    grows = mpi_job("grows", stage.image("mpi4"), WAIT, workers=1)
    for job in (shrinks, grows):
        stage.create(job)
    for job, kind in ((shrinks, GENERIC), (grows, MPI)):
        stage.wait_phase(job, "Running")
        pause(stage, job, enabled=True)
        stage.wait((kind, job["metadata"]["name"]), is_stopped)
    assert stage.names("services") == ["grows-workers", "shrinks-worker-0", "shrinks-worker-1"]
    stage.patch(shrinks, {"replicaSpecs": [{**shrinks["spec"]["replicaSpecs"][0], "replicas": 1}]})
    stage.patch(grows, {"worker": {"replicas": 2}})
    for job in (shrinks, grows):
        pause(stage, job, enabled=False)
        stage.wait_phase(job, "Running")
    stage.until(lambda: stage.names("services") == ["grows-workers", "shrinks-worker-0"], "one Service less")
    assert "grows-worker-1 slots=1" in str(stage.get("configmap", "grows-config")["data"])
    # Said again, it is counted up.
    pause(stage, shrinks, enabled=True)
    stage.wait((GENERIC, "shrinks"), is_stopped)
    events = [each for each in stage.items("events") if each["reason"] == "Paused"]
    assert sorted(each["count"] for each in events if each["involvedObject"]["name"] == "shrinks") == [2]


def test_containers_beside_the_main_one_are_stopped_with_it(stage: Stage) -> None:
    image = stage.image("busybox")
    job = generic_job("aside", image, {"worker": "true"})
    aside = {"name": "aside", "image": image, "command": ["sleep", "600"]}
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"].append(aside)
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    stage.until(
        lambda: stage.get("pod", "aside-worker-0")["status"]["phase"] != "Running", "the pod has stopped"
    )


def test_a_kubeflow_job_goes_when_its_time_after_the_end_is_over(stage: Stage) -> None:
    job = kubeflow_job("brief", stage.image("mpi4"), workers=1, runPolicy={"ttlSecondsAfterFinished": 0})
    stage.create(job)
    stage.until(lambda: stage.names(KUBEFLOW) == [], "the job has gone")


def taken(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def test_what_somebody_else_has_made_is_neither_used_nor_replaced(stage: Stage) -> None:
    image = stage.image("busybox")
    container = {"name": "main", "image": image, "command": ["sleep", "600"]}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "any"}
    group = {"scheduler": {"t9kScheduler": {"queue": "default"}}}
    theirs = {
        "pod": taken("Pod", "pod-worker-0", spec={"containers": [container]}),
        "service": taken("Service", "service-worker-0", spec={"ports": [{"port": 80}]}),
        "config": taken("ConfigMap", "config-config"),
        "secret": taken("Secret", "secret-ssh"),
        "group": taken("PodGroup", "group", "scheduler.tensorstack.dev/v1beta1", spec={"minMember": 1}),
        "account": taken("ServiceAccount", "account-launcher"),
        "role": taken("Role", "role-launcher", f"{RBAC}/v1"),
        "binding": taken("RoleBinding", "binding-launcher", f"{RBAC}/v1", roleRef=role),
    }
    ours = {
        "pod": generic_job("pod", image, {"worker": IDLE}),
        "service": generic_job("service", image, {"worker": IDLE}, **PORTS),
        "config": mpi_job("config", image),
        "secret": mpi_job("secret", image),
        "group": generic_job("group", image, {"worker": IDLE}, **group),
        "account": kubeflow_job("account", image),
        "role": kubeflow_job("role", image),
        "binding": kubeflow_job("binding", image),
    }
    stage.create(
        {**taken("Queue", "default", "scheduler.tensorstack.dev/v1beta1"), "spec": {"namespaceSelector": {}}}
    )
    try:
        for name, job in ours.items():
            stage.create(theirs[name])
            stage.create(job)
        for job in ours.values():
            kind = {"GenericJob": GENERIC, "MPIJob": MPI}[job["kind"]]
            kind = KUBEFLOW if job["apiVersion"].startswith("kubeflow") else kind
            stage.wait((kind, job["metadata"]["name"]), lambda found: "NameConflict" in reasons(found))
    finally:
        stage.kubectl("delete", "queue", "default")
