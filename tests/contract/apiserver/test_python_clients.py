"""Scripts on the official Python client and on lightkube run on our server, unchanged."""

from collections.abc import Iterator
from typing import Any

import kubernetes
import kubernetes.dynamic
import lightkube
import pytest
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import CascadeType, PatchType

from support.control_plane import ControlPlane
from support.embedded import EmbeddedServer

pytestmark = pytest.mark.xdist_group("control_plane")

Server = ControlPlane | EmbeddedServer
GROUP, VERSION, PLURAL = "batch.tensorstack.dev", "v1beta1", "genericjobs"
CONTAINERS = [{"name": "c", "image": "i"}]
JOB: dict[str, Any] = {
    "apiVersion": f"{GROUP}/{VERSION}", "kind": "GenericJob", "metadata": {"name": "galley"},
    "spec": {"replicaSpecs": [{"type": "worker", "template": {"spec": {"containers": CONTAINERS}}}]},
}  # fmt: skip
POD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "oar"},
    "spec": {"automountServiceAccountToken": False, "containers": CONTAINERS},
}  # fmt: skip
LightkubeJob: Any = create_namespaced_resource(GROUP, VERSION, "GenericJob", PLURAL)
official: Any = kubernetes
"""As Any: its annotations refuse the dicts that it takes, and promise objects where it returns dicts."""
Refused = kubernetes.client.ApiException


def settings(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"of": "test"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def api(server: Server) -> Iterator[Any]:
    """The official client."""
    with official.config.new_client_from_config(str(server.kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: Any) -> Any:
    return official.client.CoreV1Api(api)


@pytest.fixture
def light(server: Server, namespace: str) -> Iterator[lightkube.Client]:
    kubeconfig = lightkube.KubeConfig.from_file(server.kubeconfig)
    with lightkube.Client(config=kubeconfig, namespace=namespace) as made:
        yield made


def test_official_client_writes_and_reads(core: Any, namespace: str) -> None:
    assert namespace in [each.metadata.name for each in core.list_namespace().items]
    made = core.create_namespaced_config_map(namespace, settings("one", a="1"))
    assert made.metadata.uid
    patched = core.patch_namespaced_config_map("one", namespace, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}
    patched = core.patch_namespaced_config_map(
        "one", namespace, [{"op": "remove", "path": "/data/a"}], _content_type="application/json-patch+json"
    )
    assert patched.data == {"b": "2"}
    patched.data = {"c": "3"}
    assert core.replace_namespaced_config_map("one", namespace, patched).data == {"c": "3"}
    with pytest.raises(Refused) as refused:
        core.replace_namespaced_config_map("one", namespace, made)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert core.delete_namespaced_config_map("one", namespace)["status"] == "Success"
    with pytest.raises(Refused) as missing:
        core.read_namespaced_config_map("one", namespace)
    assert missing.value.status == 404


def test_official_client_lists_in_pages(core: Any, namespace: str) -> None:
    for number in range(3):
        core.create_namespaced_config_map(namespace, settings(f"page-{number}"))
    first = core.list_namespaced_config_map(namespace, label_selector="of=test", limit=2)
    rest = core.list_namespaced_config_map(
        namespace, label_selector="of=test", limit=2, _continue=first.metadata._continue
    )
    names = [each.metadata.name for page in (first, rest) for each in page.items]
    assert names == ["page-0", "page-1", "page-2"]
    assert not rest.metadata._continue


def test_official_client_watches(core: Any, namespace: str) -> None:
    start = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, settings("one", a="1"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("one", namespace)
    watching = official.watch.Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_config_map,
        namespace,
        label_selector="of=test",
        resource_version=start,
        timeout_seconds=90,
    ):
        seen.append((event["type"], event["object"].data["a"]))
        if event["type"] == "DELETED":
            watching.stop()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_official_client_runs_pods(core: Any, namespace: str) -> None:
    pod = core.create_namespaced_pod(namespace, POD)
    assert (pod.status.phase, pod.spec.restart_policy) == ("Pending", "Always")
    assert not core.read_namespaced_pod_log("oar", namespace)
    with pytest.raises(Refused) as no_container:
        core.read_namespaced_pod_log("oar", namespace, container="other")
    assert no_container.value.status == 400
    with pytest.raises(Refused) as missing:
        core.read_namespaced_pod_log("missing", namespace)
    assert missing.value.status == 404
    status = {"status": {"phase": "Running", "podIP": "192.0.2.7"}}
    assert core.patch_namespaced_pod_status("oar", namespace, status).status.pod_ip == "192.0.2.7"
    with pytest.raises(Refused) as invalid:
        core.patch_namespaced_pod("oar", namespace, {"spec": {"restartPolicy": "Never"}})
    assert invalid.value.status == 422
    core.delete_namespaced_pod("oar", namespace, grace_period_seconds=0)
    assert core.list_namespaced_pod(namespace).items == []


def test_official_client_runs_jobs(api: Any, namespace: str) -> None:
    custom = official.client.CustomObjectsApi(api)
    place = (GROUP, VERSION, namespace, PLURAL)
    assert custom.create_namespaced_custom_object(*place, JOB)["metadata"]["generation"] == 1
    listed = custom.list_namespaced_custom_object(*place)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["galley"]
    custom.patch_namespaced_custom_object(*place, "galley", {"spec": {"cleanUpPolicy": "All"}})
    custom.patch_namespaced_custom_object_status(*place, "galley", {"status": {"phase": "Running"}})
    job = custom.get_namespaced_custom_object(*place, "galley")
    assert (job["spec"]["cleanUpPolicy"], job["status"]["phase"]) == ("All", "Running")
    with pytest.raises(Refused) as invalid:
        custom.patch_namespaced_custom_object(*place, "galley", {"spec": {"cleanUpPolicy": "Never ever"}})
    assert invalid.value.status == 422
    assert custom.delete_namespaced_custom_object(*place, "galley")["status"] == "Success"


def test_official_dynamic_client_finds_its_way(api: Any, namespace: str) -> None:
    jobs = official.dynamic.DynamicClient(api).resources.get(
        api_version=f"{GROUP}/{VERSION}", kind="GenericJob"
    )
    applied = jobs.server_side_apply(body=JOB, namespace=namespace, field_manager="test")
    assert applied.metadata.managedFields[0].manager == "test"
    assert [each.metadata.name for each in jobs.get(namespace=namespace).items] == ["galley"]
    jobs.delete(name="galley", namespace=namespace)
    assert jobs.get(namespace=namespace).items == []


def test_lightkube_writes_and_reads(light: lightkube.Client) -> None:
    metadata = ObjectMeta(name="one", labels={"of": "test"})
    made = light.create(ConfigMap(metadata=metadata, data={"a": "1"}))
    assert made.metadata is not None
    assert light.get(ConfigMap, "one").data == {"a": "1"}
    assert light.patch(ConfigMap, "one", {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
    merged = light.patch(ConfigMap, "one", {"data": {"a": None}}, patch_type=PatchType.MERGE)
    assert merged.data == {"b": "2"}
    applied = light.apply(ConfigMap(metadata=metadata, data={"b": "3"}), field_manager="test", force=True)
    assert applied.data == {"b": "3"}
    listed = light.list(ConfigMap, labels={"of": "test"}, chunk_size=1)
    assert [each.metadata.name for each in listed if each.metadata] == ["one"]
    light.delete(ConfigMap, "one", cascade=CascadeType.FOREGROUND)
    with pytest.raises(ApiError) as missing:
        light.get(ConfigMap, "missing")
    assert missing.value.status.reason == "NotFound"


def test_lightkube_watches(light: lightkube.Client) -> None:
    version = light.create(
        ConfigMap(metadata=ObjectMeta(name="one"), data={"a": "1"})
    ).metadata.resourceVersion  # type: ignore[union-attr]
    light.patch(ConfigMap, "one", {"data": {"a": "2"}})
    light.delete(ConfigMap, "one")
    seen = []
    for word, each in light.watch(ConfigMap, fields={"metadata.name": "one"}, resource_version=version):
        seen.append((word, (each.data or {}).get("a")))
        if word == "DELETED":
            break
    assert seen == [("MODIFIED", "2"), ("DELETED", "2")]


def test_lightkube_runs_pods_and_jobs(light: lightkube.Client) -> None:
    spec = PodSpec(automountServiceAccountToken=False, containers=[Container(name="c", image="i")])
    pod = light.create(Pod(metadata=ObjectMeta(name="oar"), spec=spec))
    assert pod.status is not None
    assert pod.status.phase == "Pending"
    with pytest.raises(ApiError) as refused:
        list(light.log("oar", container="other"))
    assert refused.value.status.code == 400
    assert light.set(Pod, "oar", labels={"a": "b"}).metadata.labels == {"a": "b"}  # type: ignore[union-attr]
    light.delete(Pod, "oar", grace_period=0)
    job = light.create(LightkubeJob(**{key: JOB[key] for key in ("metadata", "spec")}))
    assert job.metadata is not None
    patched = light.patch(
        LightkubeJob.Status, "galley", {"status": {"phase": "Running"}}, patch_type=PatchType.MERGE
    )
    assert patched.status == {"phase": "Running"}
    light.delete(LightkubeJob, "galley")
    assert list(light.list(LightkubeJob)) == []
