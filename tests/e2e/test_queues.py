"""Jobs with a queue, on a cluster: the installed scheduler starts them, and the webhooks say who may."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from bireme.api.kinds import QUEUE
from support.fixtures import unavailable
from support.installed import NAMESPACE
from support.manifests import Manifest, generic_job
from support.stage import Object, Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

GENERIC: Final = "genericjobs.batch.tensorstack.dev"
RBAC: Final = "rbac.authorization.k8s.io"
IDLE: Final = "exec sleep 600"


@pytest.fixture
def queues(stage: Stage, controller: str) -> Stage:
    """A namespace, where the scheduler of queues is installed."""
    if controller != "chart":
        raise unavailable("needs the chart's scheduler and webhooks")
    return stage


@contextmanager
def made(stage: Stage, *objects: Object) -> Iterator[None]:
    """Objects of the whole cluster, which would outlive the test's namespace."""
    for each in objects:
        stage.create(each)
    try:
        yield
    finally:
        for each in objects:
            stage.kubectl("delete", each["kind"].lower(), each["metadata"]["name"], "--ignore-not-found")


def queue(name: str, **spec: Any) -> Object:
    """A queue that is open to all, unless it says otherwise."""
    metadata = {"name": name}
    everybody: Object = {"namespaceSelector": {}}
    return {
        "apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": metadata, "spec": everybody | spec,
    }  # fmt: skip


def queued(stage: Stage, name: str, queue: str, script: str = IDLE, **spec: Any) -> Manifest:
    scripts = {"worker": script, "other": script}
    scheduler = {"t9kScheduler": {"queue": queue}}
    return generic_job(name, stage.image("busybox"), scripts, scheduler=scheduler, **spec)


def pause(stage: Stage, job: Manifest, *, enabled: bool) -> None:
    stage.patch(job, {"runMode": {"pause": {"enabled": enabled}}})


def test_a_queued_job_starts_whole_also_after_a_pause_and_its_group_goes_with_its_last_pod(
    queues: Stage,
) -> None:
    with made(queues, queue("e2e-plain")):
        resume = [{"type": name, "command": ["true"]} for name in ("worker", "other")]
        run_mode = {"pause": {"enabled": False, "resumeSpecs": resume}}
        job = queued(queues, "crew", "e2e-plain", runMode=run_mode)
        queues.create(job)
        queues.wait_phase(job, "Running")
        assert {pod["spec"]["schedulerName"] for pod in queues.items("pods")} == {"t9k-scheduler"}
        pause(queues, job, enabled=True)
        queues.wait_phase(job, "Paused")
        queues.until(lambda: queues.names("pods") == [], "no pod")
        pause(queues, job, enabled=False)
        queues.wait_phase(job, "Succeeded")
        queues.until(lambda: queues.names("podgroups.scheduler.tensorstack.dev") == [], "no group")


def test_a_group_that_is_lost_is_bound_again(queues: Stage) -> None:
    with made(queues, queue("e2e-lossy")):
        job = queued(queues, "loses", "e2e-lossy")
        queues.create(job)
        queues.wait_phase(job, "Running")
        lose(queues, "loses-worker-0", "loses-other-0")
        assert "firstFailure" not in queues.wait_phase(job, "Running")


def test_a_member_that_has_finished_and_is_gone_is_not_waited_for(queues: Stage) -> None:
    with made(queues, queue("e2e-finished")):
        job = queued(queues, "half", "e2e-finished")
        job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["command"] = ["true"]
        queues.create(job)
        queues.wait_pod("half-worker-0", "Succeeded")
        queues.wait_phase(job, "Running")
        queues.kubectl("delete", "pod", "half-worker-0")
        group = ("podgroups.scheduler.tensorstack.dev", "half")
        queues.wait(group, lambda found: found["spec"]["minMember"] == 1)
        lose(queues, "half-other-0")


def lose(stage: Stage, *pods: str) -> None:
    """Delete pods, and return when others run in their places."""
    old = {stage.get("pod", pod)["metadata"]["uid"] for pod in pods}
    stage.kubectl("delete", "pod", *pods)
    for pod in pods:
        stage.wait(("pod", pod), lambda found: found["metadata"]["uid"] not in old)
        stage.wait_pod(pod, "Running")


def test_a_pod_that_is_older_than_its_queue_allows_is_ended_and_the_job_says_so(queues: Stage) -> None:
    with made(queues, queue("e2e-brief", maxDuration="5s")):
        job = queued(queues, "late", "e2e-brief")
        queues.create(job)
        assert queues.wait_phase(job, "Failed")["firstFailure"]["reason"] == "MaxDurationExceeded"


def test_a_claim_that_waits_for_a_node_is_told_which(queues: Stage) -> None:
    """Nobody provides volumes here but the test, which does when it reads where."""
    node = queues.cluster.node
    if node is None:
        raise unavailable("needs a folder of the node")
    late = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "by-hand"},
        "provisioner": "bireme.test/by-hand", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    size = {"storage": "1Mi"}
    asks = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": size}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": asks}
    folder = node.folder / "volume"
    folder.mkdir()
    with made(queues, queue("e2e-volumes"), late):
        queues.create(claim)
        job = queued(queues, "keeps", "e2e-volumes", "echo kept >/data/file")
        for each in job["spec"]["replicaSpecs"]:
            pod = each["template"]["spec"]
            pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        queues.create(job)
        told = "volume.kubernetes.io/selected-node"
        found = queues.wait(
            ("persistentvolumeclaim", "data"), lambda now: told in (now["metadata"].get("annotations") or {})
        )
        assert found["metadata"]["annotations"][told]
        spec = {
            "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": queues.namespace, "name": "data", "uid": found["metadata"]["uid"]},
        }  # fmt: skip
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "e2e-data"}}
        with made(queues, {**volume, "spec": spec}):
            queues.wait_phase(job, "Succeeded")
            assert (folder / "file").read_text() == "kept\n"
            queues.delete(job)
            queues.kubectl("delete", "persistentvolumeclaim", "data")


def test_a_queue_may_be_used_by_whoever_has_the_verb_use_of_it(queues: Stage) -> None:
    narrow = queue("e2e-narrow", namespaceSelector={"matchLabels": {"no": "such"}})
    may = {
        "apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "e2e-use"},
        "rules": [
            {
                "apiGroups": [QUEUE.group], "resources": ["queues"], "resourceNames": ["e2e-narrow"],
                "verbs": ["use"],
            }
        ],
    }  # fmt: skip
    has = {
        "apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "e2e-use"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "e2e-use"},
        "subjects": [{"kind": "User", "name": "ann"}],
    }  # fmt: skip
    queues.kubectl("create", "rolebinding", "ann", "--clusterrole=edit", "--user=ann")
    job = queued(queues, "hers", "e2e-narrow", "true")

    def create() -> tuple[int, str]:
        result = queues.try_kubectl("--as=ann", "create", "-f", "-", stdin=json.dumps(job))
        return result.code, result.stderr

    with made(queues, narrow):
        code, said = create()
        assert code != 0
        assert "e2e-narrow" in said
        with made(queues, may, has):
            queues.until(lambda: create()[0] == 0, "ann may")
            queues.wait_phase(job, "Succeeded")


def test_a_pod_whose_binding_is_refused_is_looked_at_and_bound_later(queues: Stage) -> None:
    bindings = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"],
    }  # fmt: skip
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "e2e-not-yet"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": queues.namespace}},
                "resourceRules": [bindings],
            },
            "validations": [{"expression": "false", "message": "not yet"}],
        },
    }  # fmt: skip
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "e2e-not-yet"},
        "spec": {"policyName": "e2e-not-yet", "validationActions": ["Deny"]},
    }  # fmt: skip
    logs = ["-n", NAMESPACE, "logs", "deployment/bireme-scheduler", "--all-pods", "--tail=-1"]
    job = queued(queues, "patient", "e2e-refusing", "true")
    nowhere = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
    probe = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "nobody"}, "target": nowhere}
    path = f"/api/v1/namespaces/{queues.namespace}/pods/nobody/binding"

    def is_refused() -> bool:
        """The API server takes a new policy up after a while."""
        said = queues.try_kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(probe))
        return "not yet" in said.stderr

    with made(queues, queue("e2e-refusing")):
        with made(queues, policy, binding):
            queues.until(is_refused, "the policy to hold")
            queues.create(job)
            queues.until(
                lambda: "patient-worker-0 is not bound" in queues.cluster.kubectl.run(logs).stdout, "refused"
            )
        queues.wait_phase(job, "Succeeded")
