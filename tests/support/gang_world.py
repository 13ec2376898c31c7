"""Queued jobs under a gang engine: nodes that pretend, and the controller as an installation runs it."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.errors import NotFound
from bireme.kube.resources import Resource, resource_of
from support.cluster_world import World, new_world, until
from support.control_plane import ControlPlane
from support.installation import Installation, Object, apply
from support.kubelets import Kubelets, kubelets, node

PATIENCE_SECONDS: Final = 180.0
RIGHTS: Final = (
    "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
    "PriorityClass", "WorkloadPriorityClass", "Namespace",
)  # fmt: skip


@contextlib.contextmanager
def controller_under(plane: ControlPlane, engine: str) -> Iterator[Installation]:
    """The controller's process for the whole cluster, with the rights that the chart gives it."""
    namespace = f"bireme-{engine}"
    values = {"gangEngine": engine, "webhooks": {"enabled": False}, "scheduler": {"enabled": False}}
    installation = Installation(plane, namespace, values)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    # Without its Deployments: their pods would take the room that tests count on.
    apply(plane, [home, *(each for each in installation.objects if each["kind"] in RIGHTS)])
    with installation.controller():
        installation.wait_ready()
        yield installation


def job(name: str, queue: str, count: int, *, priority: int = 0, restarts: int = 0) -> Object:
    """A GenericJob of so many replicas, each of one CPU."""
    policy = {"policy": "OnFailure", "limit": restarts} if restarts else {"policy": "Never"}
    requests = {"requests": {"cpu": "1"}}
    main = {"name": "main", "image": "registry.example/x:1", "command": ["x"], "resources": requests}
    replica = {
        "type": "worker",
        "replicas": count,
        "restartPolicy": policy,
        "template": {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}},
    }
    scheduler = {"t9kScheduler": {"queue": queue, "priority": priority}}
    return {
        "apiVersion": GENERIC_JOB.api_version,
        "kind": GENERIC_JOB.kind,
        "metadata": {"name": name},
        "spec": {"scheduler": scheduler, "replicaSpecs": [replica]},
    }


class GangWorld(World):
    """A namespace with nodes of its own."""

    kubelets: Kubelets

    async def pods_of(self, name: str) -> dict[str, Object]:
        return {key: pod for key, pod in (await self.pods()).items() if key.startswith(f"{name}-")}

    async def running(self, name: str) -> list[str]:
        """The pods of a job that run, and stay."""
        return [
            key
            for key, pod in (await self.pods_of(name)).items()
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    async def wait_running(self, name: str, count: int) -> None:
        await self.wait(lambda: self._has(name, count), f"{name} has {count} running pods")

    async def _has(self, name: str, count: int) -> bool:
        return len(await self.running(name)) == count

    async def bound(self, name: str) -> list[str]:
        return [key for key, pod in (await self.pods_of(name)).items() if pod["spec"].get("nodeName")]

    async def wait(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            await until(condition, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            told = {
                name: (
                    pod["status"].get("phase"),
                    pod["spec"].get("nodeName"),
                    pod["status"].get("conditions"),
                )
                for name, pod in (await self.pods()).items()
            }
            raise AssertionError(f"it never came to this: {what}; {told}") from None

    async def object(self, resource: Resource, name: str) -> Object:
        """An object of the engine's; empty while there is none."""
        try:
            return await self.client.get(resource, self.namespace, name)
        except NotFound:
            return {}


@contextlib.asynccontextmanager
async def gang_world(plane: ControlPlane, namespace: str, *cpus: str) -> AsyncIterator[GangWorld]:
    """A namespace, and a node for each of `cpus`; afterwards neither pods nor nodes are left."""
    nodes = [node(f"{namespace}-{number}", namespace, cpu=cpu) for number, cpu in enumerate(cpus)]
    async with new_world(plane, namespace) as plain, kubelets(plain.client, *nodes) as pretended:
        world = GangWorld(plain.client, namespace)
        world.kubelets = pretended
        yield world
        await _clear(world)


async def _clear(world: GangWorld) -> None:
    """Delete the jobs: their pods must go with them, whatever an engine holds them by."""
    jobs = resource_of(GENERIC_JOB)
    for each in (await world.client.list(jobs, world.namespace, type=dict)).items:
        name = each["metadata"]["name"]
        await world.client.delete(jobs, world.namespace, name, propagation="Background")

    async def empty() -> bool:
        return not await world.pods()

    await world.wait(empty, "no pod is left of jobs that are deleted")
