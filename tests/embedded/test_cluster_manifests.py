"""Manifests that name what only a cluster has: they run, and one line says what is different here."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from bireme.kube.errors import AlreadyExists
from bireme.kube.resources import NODES, PODS
from bireme.node.machine import isolation
from support.fixtures import unavailable
from support.here import PATIENCE_SECONDS, Here, Object, generic, replica, shell
from support.here_kubectl import kubectl

pytestmark = pytest.mark.xdist_group("here")


def notices(here: Here, pod: str) -> list[str]:
    conditions = here.pod(pod)["status"]["conditions"]
    told = {each["type"]: each for each in conditions}.get("bireme.dev/RunsAsWritten", {})
    return [str(line) for line in told.get("message", "").splitlines()]


def need_mounts() -> None:
    if isolation() == "none":
        raise unavailable("this machine lets nobody make mounts: allow user namespaces")


def test_a_pod_of_another_node_runs_here(here: Here) -> None:
    job = generic("node-name", replica("a", "echo ran", nodeName="sm02"))
    assert here.play(job)["phase"] == "Succeeded"
    pod = here.pod("node-name-a-0")
    here_name = pod["spec"]["nodeName"]
    assert notices(here, "node-name-a-0") == [
        f"nodeName sm02 is not this machine: the pod runs on {here_name}"
    ]
    here.delete(job)


def test_a_pod_that_names_this_node_is_not_worth_a_word(here: Here) -> None:
    node = here.do(here.client.list(NODES, type=dict)).items[0]["metadata"]["name"]
    job = generic("this-node", replica("a", "true", nodeName=node))
    assert here.play(job)["phase"] == "Succeeded"
    assert notices(here, "this-node-a-0") == []
    here.delete(job)


@pytest.fixture
def gone_node(here: Here) -> Iterator[str]:
    """A Node that a pod can be bound to; it is deleted then."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gone"}}
    with contextlib.suppress(AlreadyExists):
        here.do(here.client.create(NODES, None, body))
    yield "gone"
    here.do(here.client.delete(NODES, None, "gone"))


def test_a_pod_bound_to_a_node_that_has_gone_is_replaced_here(here: Here, gone_node: str) -> None:
    job = here.create(generic("orphan", replica("a", "echo ran", nodeName=gone_node)))
    first = here.until_pod("orphan-a-0", lambda pod: pod["spec"]["nodeName"] == gone_node)
    here.do(here.client.delete(NODES, None, gone_node))
    # The scheduler looks when pods change.
    patch = {"metadata": {"annotations": {"changed": "yes"}}}
    here.do(here.client.patch(PODS, "default", "orphan-a-0", patch))
    assert here.end_of(job)["phase"] == "Succeeded"
    assert here.pod("orphan-a-0")["metadata"]["uid"] != first["metadata"]["uid"]
    here.delete(job)


def test_priority_class_and_service_account_that_are_not_there_are_told(here: Here) -> None:
    job = generic("refs", replica("a", "true", priorityClassName="high", serviceAccountName="trainer"))
    assert here.play(job)["phase"] == "Succeeded"
    assert here.pod("refs-a-0")["spec"]["priority"] == 0
    assert notices(here, "refs-a-0") == [
        "PriorityClass high is not there: the pod has priority 0",
        "ServiceAccount trainer is not there: the pod runs without it",
    ]
    here.delete(job)


def test_kubectl_names_a_kind_that_is_not_served(here: Here) -> None:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {}}
    done = subprocess.run(
        kubectl(here, "apply", "-f", "-"),
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert 'no matches for kind "Job" in version "batch/v1"' in done.stderr


def test_a_claim_that_is_not_there_is_told_with_its_folder(here: Here) -> None:
    need_mounts()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "misspelt"}}]
    mounts = [{"name": "data", "mountPath": "/bireme-test/data"}]
    main = shell("main", "true", volumeMounts=mounts)
    job = generic("claim", replica("a", "", containers=[main], volumes=volumes))
    assert here.play(job)["phase"] == "Succeeded"
    folder = here.folder / "node/claims/default/misspelt"
    assert notices(here, "claim-a-0") == [
        f"PersistentVolumeClaim misspelt is not there: the folder {folder} stands in, and is kept"
    ]
    here.delete(job)


def test_host_aliases_resolve(here: Here) -> None:
    need_mounts()
    aliases = [{"ip": "10.1.2.3", "hostnames": ["database", "database.example"]}]
    script = "getent hosts database.example | cut -d' ' -f1; getent hosts aliases-b-0 | cut -d' ' -f1"
    job = generic(
        "aliases",
        replica("a", script, hostAliases=aliases),
        replica("b", "getent hosts database || echo none"),
    )
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("aliases-a-0").splitlines()[0] == "10.1.2.3"
    assert here.output("aliases-b-0") == "none\n"
    here.delete(job)


def test_selectors_users_and_sizes_are_told(here: Here) -> None:
    volumes = [{"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}]
    uid = os.getuid()
    worker = replica(
        "a",
        "true",
        nodeSelector={"gpu": "a100"},
        securityContext={"runAsUser": uid + 1},
        volumes=volumes,
    )
    job = generic("told", worker)
    assert here.play(job)["phase"] == "Succeeded"
    assert notices(here, "told-a-0") == [
        "nodeSelector gpu=a100: this machine does not have these labels, and runs the pod as the only node",
        "emptyDir cache: sizeLimit 1Gi is not enforced on disk here (with medium: Memory it is)",
        f"securityContext: runAsUser {uid + 1} not applied: containers run as you (uid {uid})",
    ]
    here.delete(job)


def test_where_nothing_can_be_mounted_shared_memory_is_the_machines(nameless: Here) -> None:
    volumes: list[Object] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]
    main = shell("main", "stat -f -c %T /dev/shm", volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])
    aliases = [{"ip": "10.1.2.3", "hostnames": ["database"]}]
    job = generic("plain", replica("a", "", containers=[main], volumes=volumes, hostAliases=aliases))
    assert nameless.play(job)["phase"] == "Succeeded"
    assert nameless.output("plain-a-0") == "tmpfs\n"
    assert notices(nameless, "plain-a-0") == [
        "emptyDir shm: no tmpfs can be mounted on this machine: its own /dev/shm is used",
        "hostAliases: a pod has no /etc/hosts of its own on this machine: the names do not resolve",
    ]
    nameless.delete(job)
