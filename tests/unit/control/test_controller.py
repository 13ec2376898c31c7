"""The controller on a store in the same process: no network, the same scenes as against a real server."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver.garbage import collect
from bireme.apiserver.kinds import NAMESPACE
from bireme.apiserver.local import LocalTransport
from bireme.apiserver.store import Store
from bireme.control.controller import Controller
from bireme.control.unwatched import TRUSTED_SECONDS
from bireme.kube.client import Client
from bireme.kube.clock import Clock, SystemClock
from bireme.kube.errors import NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from support.cluster_world import World, controller_at_work, until

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1", "command": ["x"]}]}}
BATCH = "batch.tensorstack.dev/v1beta1"
Scene = Callable[[World, Store, Controller], Awaitable[None]]


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def job(kind: str, spec: dict[str, Any], api_version: str = BATCH) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "job"}, "spec": spec}


GENERIC = job("GenericJob", {"replicaSpecs": [{"type": "worker", "replicas": 2, "template": TEMPLATE}]})
MPI = job("MPIJob", {"worker": {"replicas": 2, "cmd": ["./x"], "template": TEMPLATE}})
COLOSSAL = job("ColossalAIJob", {"worker": {"replicas": 2, "command": ["x.py"], "template": TEMPLATE}})
KUBEFLOW = job(
    "MPIJob",
    {
        "mpiReplicaSpecs": {
            "Launcher": {"template": TEMPLATE},
            "Worker": {"replicas": 2, "template": TEMPLATE},
        }
    },
    "kubeflow.org/v1alpha2",
)


class SettableClock(SystemClock):
    """The machine's, and how far it was set ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


def play(scene: Scene, clock: Clock = SystemClock()) -> None:  # noqa: B008 - it has no state
    async def main() -> None:
        store = Store()
        store.create(NAMESPACE, {"metadata": {"name": "default"}}, now())
        transport = LocalTransport(store, now)
        client = Client(transport, clock=clock)
        try:
            async with controller_at_work(client, "default") as controller:
                await scene(World(client, "default"), store, controller)
        finally:
            await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("manifest", "pods", "last"),
    [
        (GENERIC, ["job-worker-0", "job-worker-1"], ["job-worker-0", "job-worker-1"]),
        (MPI, ["job-launcher", "job-worker-0", "job-worker-1"], ["job-launcher"]),
        (COLOSSAL, ["job-launcher", "job-worker-0", "job-worker-1"], ["job-launcher"]),
        (KUBEFLOW, ["job-launcher", "job-worker-0", "job-worker-1"], ["job-launcher"]),
    ],
    ids=["generic", "mpi", "colossalai", "kubeflow"],
)
def test_a_job_runs_to_its_end(manifest: dict[str, Any], pods: list[str], last: list[str]) -> None:
    async def scene(world: World, _store: Store, _controller: Controller) -> None:
        await world.create(manifest)
        await world.wait_pods(*pods)
        await world.run()
        await world.wait_phase(manifest, "Running")
        for name in last:
            await world.finish(name)
        await world.wait_phase(manifest, "Succeeded")

    play(scene)


def test_a_deleted_job_leaves_nothing_once_the_garbage_is_collected() -> None:
    async def scene(world: World, store: Store, _controller: Controller) -> None:
        await world.create(MPI)
        await world.wait_pods("job-launcher", "job-worker-0", "job-worker-1")
        await world.delete_job(MPI)
        while collect(store, now()):
            pass
        for resource in (PODS, SERVICES, CONFIG_MAPS, SECRETS):
            await world.wait_gone(resource)

    play(scene)


@pytest.mark.parametrize(
    ("manifest", "resource", "name"),
    [
        (MPI, SECRETS, "job-ssh"),
        (COLOSSAL, SECRETS, "job-ssh"),
        (KUBEFLOW, SERVICE_ACCOUNTS, "job-launcher"),
        (KUBEFLOW, ROLES, "job-launcher"),
        (KUBEFLOW, ROLE_BINDINGS, "job-launcher"),
    ],
    ids=["mpi", "colossalai", "service account", "role", "role binding"],
)
@pytest.mark.parametrize("seconds", [0, TRUSTED_SECONDS], ids=["right after the start", "later"])
def test_what_nobody_watches_is_there_again_when_pods_are_made_again(
    manifest: dict[str, Any], resource: Resource, name: str, seconds: float
) -> None:
    """Without it they would wait for ever, or be refused."""
    clock = SettableClock()

    async def scene(world: World, _store: Store, _controller: Controller) -> None:
        names = ("job-launcher", "job-worker-0", "job-worker-1")
        await world.create(manifest)
        await world.wait_pods(*names)
        await world.run()
        await world.wait_phase(manifest, "Running")
        before = await world.client.get(resource, world.namespace, name)
        await world.client.delete(resource, world.namespace, name)
        clock.ahead += seconds
        await world.evict("job-worker-1")

        async def is_back() -> bool:
            with contextlib.suppress(NotFound):
                now = await world.client.get(resource, world.namespace, name)
                return bool(now["metadata"]["uid"] != before["metadata"]["uid"])
            return False

        await until(is_back)
        await world.wait_pods(*names)

    play(scene, clock)


def test_a_job_waits_without_a_warning_for_the_pods_of_its_deleted_predecessor() -> None:
    async def scene(world: World, store: Store, _controller: Controller) -> None:
        await world.create(GENERIC)
        await world.wait_pods("job-worker-0", "job-worker-1")
        await world.delete_job(GENERIC)
        await world.create(GENERIC)

        async def waits() -> bool:
            return any(e["reason"] == "NameConflict" for e in await events(world))

        await until(waits)
        while collect(store, now()):
            pass
        await world.wait_pods("job-worker-0", "job-worker-1")
        await world.run()
        await world.wait_phase(GENERIC, "Running")
        said = [e for e in await events(world) if e["reason"] == "NameConflict"]
        assert {e["type"] for e in said} == {"Normal"}
        assert "of the deleted GenericJob job (uid " in said[0]["message"]

    play(scene)


async def events(world: World) -> list[dict[str, Any]]:
    return (await world.client.list(EVENTS, world.namespace, type=dict)).items


def test_a_history_that_was_compacted_is_listed_again() -> None:
    """Watches that ask for a version that is gone start over, and no change in between is lost."""

    async def scene(world: World, store: Store, controller: Controller) -> None:
        await until(lambda: _ready(controller))
        for index in range(5):
            manifest = {**GENERIC, "metadata": {"name": f"job-{index}"}}
            await world.create(manifest)
            store.compact()
        names = [f"job-{i}-worker-{j}" for i in range(5) for j in range(2)]
        await world.wait_pods(*names)
        await world.run()
        store.compact()
        for index in range(5):
            await world.wait_phase({**GENERIC, "metadata": {"name": f"job-{index}"}}, "Running")

    play(scene)


async def _ready(controller: Controller) -> bool:
    return controller.is_ready()


def test_a_job_at_rest_is_not_written_to_again() -> None:
    async def scene(world: World, store: Store, controller: Controller) -> None:
        await world.create(GENERIC)
        await world.wait_pods("job-worker-0", "job-worker-1")
        await world.run()
        await world.wait_phase(GENERIC, "Running")
        await until(lambda: _idle(controller))
        before = store.version
        for _ in range(20):
            await asyncio.sleep(0)
        await until(lambda: _idle(controller))
        assert store.version == before

    play(scene)


async def _idle(controller: Controller) -> bool:
    figures = controller.queue.statistics()
    return not any(figures[name] for name in ("depth", "active", "delayed"))


def test_a_kind_that_is_not_served_is_named_as_what_is_waited_for() -> None:
    async def main() -> None:
        store = Store([kind for kind in Store().kinds if kind.kind != "PodGroup"])
        store.create(NAMESPACE, {"metadata": {"name": "default"}}, now())
        transport = LocalTransport(store, now)
        async with controller_at_work(Client(transport), "default") as controller:

            async def told() -> bool:
                return len(controller.not_ready()) == 1 and "404" in controller.not_ready()[0]

            await until(told)
            assert controller.not_ready()[0].startswith("podgroups.scheduler.tensorstack.dev: ")
        await transport.close()

    asyncio.run(main())
