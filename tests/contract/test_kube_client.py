"""The client's calls, against a real API server."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bireme.api.core import ConfigMap, Pod
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from bireme.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS
from bireme.kube.transport import HttpTransport
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

Test = Callable[[Client], Awaitable[None]]


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load_config(kubeconfig=str(kubeconfig), environ={})))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"kube-client-{uuid.uuid4().hex[:6]}"
    control_plane.kubectl("create", "namespace", name)
    control_plane.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=150s")
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def run(control_plane: ControlPlane) -> Callable[[Test], None]:
    """Run a test with the administrator's client."""

    def run(test: Test) -> None:
        async def main() -> None:
            async with connected(control_plane.kubeconfig) as client:
                await test(client)

        asyncio.run(main())

    return run


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example/main:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


def test_an_object_is_created_read_changed_and_deleted(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        created = await client.create(CONFIG_MAPS, namespace, config_map("life", a="1"))
        read = await client.get(CONFIG_MAPS, namespace, "life", type=ConfigMap)
        assert read.metadata.uid == created["metadata"]["uid"]
        created["data"]["a"] = "2"
        replaced = await client.replace(CONFIG_MAPS, namespace, "life", created)
        assert replaced["data"] == {"a": "2"}
        with pytest.raises(Conflict):
            await client.replace(CONFIG_MAPS, namespace, "life", created)
        assert await client.delete(CONFIG_MAPS, namespace, "life") is True
        assert await client.delete(CONFIG_MAPS, namespace, "life") is False
        with pytest.raises(NotFound, match='configmaps "life" not found'):
            await client.get(CONFIG_MAPS, namespace, "life")

    run(test)


def test_a_name_that_is_taken_and_one_that_is_invalid(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        await client.create(CONFIG_MAPS, namespace, config_map("taken"))
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, namespace, config_map("taken"))
        with pytest.raises(Invalid) as caught:
            await client.create(CONFIG_MAPS, namespace, config_map("No_Name"))
        assert caught.value.causes[0]["field"] == "metadata.name"

    run(test)


def test_a_dry_run_leaves_nothing(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(CONFIG_MAPS, namespace, config_map("dry"), dry_run=True, type=ConfigMap)
        assert made.metadata.uid
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, namespace, "dry")

    run(test)


def test_only_the_object_of_that_uid_is_deleted(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(CONFIG_MAPS, namespace, config_map("guarded"), type=ConfigMap)
        assert await client.delete(CONFIG_MAPS, namespace, "guarded", uid=str(uuid.uuid4())) is False
        assert (await client.get(CONFIG_MAPS, namespace, "guarded", type=ConfigMap)) == made
        assert await client.delete(CONFIG_MAPS, namespace, "guarded", uid=made.metadata.uid) is True

    run(test)


def test_all_four_kinds_of_patch(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        async def patch(body: object, kind: Any, **options: Any) -> dict[str, str]:
            changed = await client.patch(CONFIG_MAPS, namespace, "patched", body, kind=kind, **options)
            data: dict[str, str] = changed["data"]
            return data

        await client.create(CONFIG_MAPS, namespace, config_map("patched", a="1", b="2"))
        assert await patch({"data": {"a": None, "c": "3"}}, "merge") == {"b": "2", "c": "3"}
        assert await patch([{"op": "replace", "path": "/data", "value": {"d": "4"}}], "json") == {"d": "4"}
        assert await patch({"data": {"e": "5"}}, "strategic") == {"d": "4", "e": "5"}
        # `e` belongs to the manager of the patch before.
        other = Client(client._transport, field_manager="other")
        with pytest.raises(Conflict, match="conflict with"):
            await other.patch(CONFIG_MAPS, namespace, "patched", config_map("patched", e="6"), kind="apply")
        applied = await other.patch(
            CONFIG_MAPS, namespace, "patched", config_map("patched", e="6"), kind="apply", force=True
        )
        assert applied["data"] == {"d": "4", "e": "6"}

    run(test)


def test_apply_creates_what_is_not_there(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        body = config_map("applied", a="1")
        made = await client.patch(CONFIG_MAPS, namespace, "applied", body, kind="apply", type=ConfigMap)
        assert made.data == {"a": "1"}

    run(test)


def test_a_status_is_written_beside_the_spec(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(PODS, namespace, pod("status"))
        made["status"] = {"phase": "Running"}
        replaced = await client.replace(PODS, namespace, "status", made, subresource="status", type=Pod)
        assert replaced.status.phase == "Running"
        body = {"status": {"phase": "Succeeded"}, "spec": {"nodeName": "ignored here"}}
        patched = await client.patch(PODS, namespace, "status", body, subresource="status", type=Pod)
        assert patched.status.phase == "Succeeded"
        assert patched.spec.node_name == ""
        await client.delete(PODS, namespace, "status", grace_seconds=0)

    run(test)


def test_a_pod_is_bound_to_a_node_once(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        node = f"node-{namespace}"
        await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        made = await client.create(PODS, namespace, pod("bound"), type=Pod)
        with pytest.raises(Conflict):
            await client.bind(namespace, "bound", node, uid=str(uuid.uuid4()))
        await client.bind(namespace, "bound", node, uid=made.metadata.uid)
        assert (await client.get(PODS, namespace, "bound", type=Pod)).spec.node_name == node
        with pytest.raises(Conflict):
            await client.bind(namespace, "bound", node)
        await client.delete(PODS, namespace, "bound", grace_seconds=0)
        await client.delete(NODES, None, node)

    run(test)


def test_a_list_in_pages_is_whole(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        bodies = [config_map(f"page-{index:03}") for index in range(200)]
        for body in bodies:
            body["metadata"]["labels"] = {"list": "pages"}
        await asyncio.gather(*(client.create(CONFIG_MAPS, namespace, body) for body in bodies))
        listing = await client.list(
            CONFIG_MAPS, namespace, type=ConfigMap, label_selector="list=pages", page_size=20
        )
        names = [item.metadata.name for item in listing.items]
        assert names == [f"page-{index:03}" for index in range(200)]
        assert client.statistics()["list", "configmaps", "200"] >= 10
        assert int(listing.resource_version) >= max(
            int(item.metadata.resource_version) for item in listing.items
        )
        one = await client.list(CONFIG_MAPS, type=dict, field_selector="metadata.name=page-007")
        assert [(item["kind"], item["metadata"]["name"]) for item in one.items] == [("ConfigMap", "page-007")]

    run(test)


def test_a_watch_tells_what_happens_after_its_version(run: Callable[[Test], None], namespace: str) -> None:
    async def test(client: Client) -> None:
        made = await client.create(CONFIG_MAPS, namespace, config_map("watched", a="1"), type=ConfigMap)
        version = made.metadata.resource_version
        await client.patch(CONFIG_MAPS, namespace, "watched", {"data": {"a": "2"}})
        await client.delete(CONFIG_MAPS, namespace, "watched")
        selector = "metadata.name=watched"
        watch = client.watch(
            CONFIG_MAPS, namespace, resource_version=version, type=ConfigMap, field_selector=selector
        )
        async with contextlib.aclosing(watch), asyncio.timeout(90):
            seen = [await anext(watch), await anext(watch)]
        assert [(event.type, event.object.data) for event in seen] == [
            ("MODIFIED", {"a": "2"}),
            ("DELETED", {"a": "2"}),
        ]

    run(test)


def test_who_may_not_is_told_so(control_plane: ControlPlane, namespace: str) -> None:
    async def main() -> None:
        async with connected(control_plane.kubeconfig_for("nobody", ["strangers"])) as client:
            with pytest.raises(Forbidden, match='User "nobody" cannot list resource "pods"'):
                await client.list(PODS, namespace, type=Pod)
            with pytest.raises(Forbidden):
                await client.create(CONFIG_MAPS, namespace, config_map("mine"))
            watch = client.watch(PODS, namespace, resource_version="", type=Pod)
            with pytest.raises(Forbidden):
                await anext(watch)

    asyncio.run(main())


def test_nothing_is_created_where_all_is_being_deleted(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        name = f"kube-client-{uuid.uuid4().hex[:6]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(NAMESPACES, None, body)
        # The finalizer keeps the namespace as long as this object has one, too.
        kept = config_map("kept")
        kept["metadata"]["finalizers"] = ["bireme.dev/test"]
        await client.create(CONFIG_MAPS, name, kept)
        await client.delete(NAMESPACES, None, name)
        with pytest.raises(Forbidden) as caught:
            await client.create(CONFIG_MAPS, name, config_map("late"))
        assert caught.value.is_namespace_terminating
        await client.patch(CONFIG_MAPS, name, "kept", {"metadata": {"finalizers": None}})

    run(test)
