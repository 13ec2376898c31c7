"""A controller of one namespace beside a scheduler of all: queues are guarded wherever pods are placed."""

import asyncio
from typing import Any, Final

import pytest

from bireme.api.kinds import GENERIC_JOB, POD_GROUP, QUEUE
from bireme.installation.names import WEBHOOKS
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, Forbidden
from bireme.kube.resources import PODS, Resource, resource_of
from support.cluster_world import connect, until
from support.control_plane import ControlPlane
from support.installation import Installation, apply, audited
from support.jobs import generic

pytestmark = pytest.mark.xdist_group("installation")

HOME, WATCHED, ELSEWHERE = "bireme-placed", "placed-here", "placed-elsewhere"
NARROW, OPEN = "placed-narrow", "placed-open"
GROUPS: Final = resource_of(POD_GROUP)
JOBS: Final = resource_of(GENERIC_JOB)
RBAC: Final = "rbac.authorization.k8s.io"
Object = dict[str, Any]


def surroundings() -> list[Object]:
    """Two namespaces, where Bob may make pods and groups, and a queue that is for one of them alone."""
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in (WATCHED, ELSEWHERE)
    ]
    here = {"matchLabels": {"kubernetes.io/metadata.name": WATCHED}}
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["create"]}
        for group, plural in (("", "pods"), (GROUPS.group, GROUPS.plural), (JOBS.group, JOBS.plural))
    ]
    kind = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "placed-bob"}}
    bob = {"apiGroup": RBAC, "kind": "User", "name": "bob"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "placed-bob"}
    return [
        *spaces,
        queue(NARROW, here),
        queue(OPEN, {}),
        {**kind, "kind": "ClusterRole", "rules": rules},
        {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [bob]},
    ]


def queue(name: str, selector: Object) -> Object:
    spec = {"namespaceSelector": selector}
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(queue: str) -> Object:
    spec = {"minMember": 1, "queue": queue}
    metadata = {"name": f"of-{queue}"}
    return {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(label: str, value: str) -> Object:
    spec = {"containers": [{"name": "a", "image": "registry.example/x:1"}], "schedulerName": "t9k-scheduler"}
    metadata = {"name": "p", "labels": {f"scheduler.tensorstack.dev/{label}": value}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def queued(queue: str) -> list[tuple[Resource, Object]]:
    return [
        (PODS, pod("queue", queue)),
        (PODS, pod("group-name", f"of-{queue}")),
        (GROUPS, {**group(queue), "metadata": {"name": "another"}}),
    ]


async def is_let_in(client: Client, namespace: str, resource: Resource, obj: Object) -> bool:
    try:
        await client.create(resource, namespace, obj, dry_run=True)
    except Forbidden as error:
        if "queues.bireme.dev" in error.message and "may not use the queue" in error.message:
            return False
        raise
    return True


def test_a_queue_is_closed_to_namespaces_that_the_controller_does_not_watch(plane: ControlPlane) -> None:
    values = {"watchNamespace": WATCHED, "scheduler": {"enabled": True}}
    installation = Installation(plane, HOME, values)
    made = surroundings()
    apply(plane, made)
    installation.apply()

    async def main() -> None:
        async with (
            connect(plane) as admin,
            connect(plane, str(plane.kubeconfig_for("bob"))) as bob,
        ):
            await until(lambda: is_guarded(bob))
            for name in (NARROW, OPEN):
                for namespace in (WATCHED, ELSEWHERE):
                    await admin.create(GROUPS, namespace, group(name))
                    allowed = name == OPEN or namespace == WATCHED
                    for resource, obj in queued(name):
                        found = await is_let_in(bob, namespace, resource, obj)
                        assert found is allowed, (name, namespace, obj)
            # Jobs there are none of ours, and nobody is asked about them.
            job = generic("j", scheduler={"t9kScheduler": {"queue": NARROW}})
            assert await is_let_in(bob, ELSEWHERE, JOBS, job)

    async def is_guarded(bob: Client) -> bool:
        """Whether the API server has taken up whom to ask, and whom to trust."""
        try:
            return not await is_let_in(bob, ELSEWHERE, PODS, pod("queue", NARROW))
        except ApiError:
            return False

    try:
        with installation.running():
            asyncio.run(main())
    finally:
        installation.remove()
        names = [f"{each['kind'].lower()}/{each['metadata']['name']}" for each in made]
        plane.kubectl("delete", "--wait=false", *names)
    refused = [
        each
        for each in audited(plane, f"system:serviceaccount:{HOME}:{WEBHOOKS}")
        if each.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]
    assert not refused, installation.log(WEBHOOKS)
