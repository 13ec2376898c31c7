"""What tenants try against each other and against Bireme, on a real API server: all of it is refused.

Ann may use the queue `narrow`. Bob may edit everything in her namespace, and more than the role `edit` gives
(resize pods, add ephemeral containers), but may not use that queue. Eve may edit another namespace.
Controller and webhooks are processes with the accounts of an installation, so jobs have their real children.
"""

import asyncio
import contextlib
import copy
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, POD_GROUP, QUEUE
from bireme.installation.names import CONTROLLER, WEBHOOKS
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, Forbidden, NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
    resource_of,
)
from bireme.run.checkup import CONFIGURATIONS
from security.test_webhook_server import attack
from support.cluster_world import connect, until
from support.control_plane import ControlPlane
from support.installation import Installation, apply, node, own_plane
from support.jobs import colossalai, generic, kubeflow, mpi

pytestmark = pytest.mark.xdist_group("tenants")

HOME, SHARED, OTHER = "bireme-tenants", "shared", "elsewhere"
NARROW, OPEN = "narrow", "open"
LABELS = "scheduler.tensorstack.dev"
RBAC = "rbac.authorization.k8s.io"
JOBS, GROUPS, QUEUES = resource_of(GENERIC_JOB), resource_of(POD_GROUP), resource_of(QUEUE)
MPIS, COLOSSALS = resource_of(MPI_JOB), resource_of(COLOSSALAI_JOB)
KUBEFLOWS = resource_of(KUBEFLOW_MPI_JOB)
IN_NARROW = {"t9kScheduler": {"queue": NARROW}}
PAUSED = {"pause": {"enabled": True}}
Object = dict[str, Any]
TEMPLATE_PATH: Final = "/spec/replicaSpecs/0/template"


class Tenants(NamedTuple):
    """The clients of an attack: the attacker's, and the administrator's, who looks what came of it."""

    attacker: Client
    admin: Client
    installation: Installation


Act = Callable[[Tenants], Awaitable[object]]


class Attack(NamedTuple):
    """`act` must be refused by the API server, unless it says itself that it came to nothing."""

    user: str
    act: Act
    because: str = ""
    """What the refusal says; empty for any."""


# ---- the scene


def surroundings() -> list[Object]:
    def binding(name: str, namespace: str, role: str, *users: str) -> Object:
        subjects = [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users]
        metadata = {"name": name, "namespace": namespace}
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        kind = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding"}
        return {**kind, "metadata": metadata, "roleRef": ref, "subjects": subjects}

    def role(name: str, *rules: Object) -> Object:
        kind = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole"}
        return {**kind, "metadata": {"name": name}, "rules": list(rules)}

    use = {"apiGroups": [QUEUE.group], "resources": ["queues"], "resourceNames": [NARROW], "verbs": ["use"]}
    grow = {
        "apiGroups": [""],
        "resources": ["pods/resize", "pods/ephemeralcontainers"],
        "verbs": ["get", "patch", "update"],
    }
    ann = {"apiGroup": RBAC, "kind": "User", "name": "ann"}
    granted = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "use-narrow"}
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (SHARED, OTHER)),
        node(),
        queue(NARROW, None),
        queue("default", None),
        queue(OPEN, {"matchLabels": {"kubernetes.io/metadata.name": SHARED}}),
        role("use-narrow", use),
        role("grow-pods", grow),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "use-narrow"},
            "roleRef": granted,
            "subjects": [ann],
        },
        binding("edit", SHARED, "edit", "ann", "bob"),
        binding("grow", SHARED, "grow-pods", "ann", "bob"),
        binding("edit", OTHER, "edit", "eve"),
    ]


def queue(name: str, selector: Object | None) -> Object:
    spec = {"namespaceSelector": selector} if selector is not None else {}
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(name: str, queue: str | None = NARROW, **metadata: Any) -> Object:
    spec = {"minMember": 1} | ({"queue": queue} if queue is not None else {})
    kind = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, **metadata}, "spec": spec}


def pod(
    name: str = "p", labels: Object | None = None, *, metadata: Object | None = None, **spec: Any
) -> Object:
    container = {"name": "a", "image": "registry.example/x:1", "resources": {"requests": {"cpu": "1"}}}
    whole = {"containers": [container], "schedulerName": "t9k-scheduler", **spec}
    found = {"name": name, "labels": labels or {}, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": found, "spec": whole}


def in_narrow(name: str = "p", **more: Any) -> Object:
    return pod(name, {f"{LABELS}/queue": NARROW}, **more)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Bireme at work, and Ann's objects."""
    with own_plane(tmp_path_factory.mktemp("tenants")) as plane:
        made = Installation(
            plane, HOME, {"webhooks": {"failurePolicy": "Fail"}, "kubeflow": {"enabled": True}}
        )
        # Before the webhooks: nobody could answer them yet.
        apply(plane, surroundings())
        made.apply()
        with made.running():
            asyncio.run(prepare(plane))
            yield made


async def prepare(plane: ControlPlane) -> None:
    async with connect(plane) as admin, connect(plane, str(plane.kubeconfig_for("ann"))) as ann:

        async def may() -> bool:
            """Roles are aggregated, and webhooks taken up, a moment after they are there."""
            try:
                await ann.create(JOBS, SHARED, generic("x", scheduler=IN_NARROW), dry_run=True)
            except ApiError:
                return False
            return True

        await until(may)
        await ann.create(JOBS, SHARED, generic("hers", scheduler=IN_NARROW, runMode=PAUSED))
        await ann.create(MPIS, SHARED, mpi("crew", scheduler=IN_NARROW, runMode=PAUSED))
        await ann.create(JOBS, SHARED, generic("runs", scheduler=IN_NARROW))
        await ann.create(MPIS, SHARED, mpi("ssh"))
        await ann.create(KUBEFLOWS, SHARED, kubeflow("flow"))
        await ann.create(GROUPS, SHARED, group("group"))
        await ann.create(PODS, SHARED, in_narrow("pod", schedulingGates=[{"name": "example.com/hold"}]))
        await ann.create(PODS, SHARED, in_narrow("bound"))
        await admin.bind(SHARED, "bound", "somewhere")
        await ann.create(PODS, SHARED, pod("member", {f"{LABELS}/group-name": "group"}))
        await until(lambda: is_stopped(admin, JOBS, "hers"))
        await until(lambda: is_stopped(admin, MPIS, "crew"))
        for name in ("runs-worker-0", "ssh-launcher", "flow-worker-0"):
            await until(functools.partial(exists, admin, PODS, SHARED, name))


async def is_stopped(admin: Client, resource: Resource, name: str) -> bool:
    job = await admin.get(resource, SHARED, name)
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any((each["type"], each.get("reason")) == ("Paused", "Stopped") for each in conditions)


async def exists(admin: Client, resource: Resource, namespace: str, name: str) -> bool:
    try:
        await admin.get(resource, namespace, name)
    except NotFound:
        return False
    return True


# ---- attacks: in words of the API


def create(resource: Resource, obj: Object, namespace: str | None = SHARED) -> Act:
    return lambda tenants: tenants.attacker.create(resource, namespace, copy.deepcopy(obj))


def patch(
    resource: Resource,
    name: str,
    body: Any,
    namespace: str | None = SHARED,
    *,
    kind: Any = "merge",
    subresource: str | None = None,
) -> Act:
    return lambda tenants: tenants.attacker.patch(
        resource, namespace, name, body, kind=kind, subresource=subresource
    )


def json_patch(resource: Resource, name: str, *operations: tuple[str, str, Any]) -> Act:
    body = [{"op": op, "path": path, "value": value} for op, path, value in operations]
    return patch(resource, name, body, kind="json")


def delete(resource: Resource, name: str, namespace: str | None = SHARED) -> Act:
    return lambda tenants: tenants.attacker.delete(resource, namespace, name)


def read(resource: Resource, name: str, namespace: str | None = SHARED) -> Act:
    return lambda tenants: tenants.attacker.get(resource, namespace, name)


def replaced(resource: Resource, name: str, change: Callable[[Object], object]) -> Act:
    """Read, change and put: as `kubectl replace` does."""

    async def act(tenants: Tenants) -> None:
        found = await tenants.attacker.get(resource, SHARED, name)
        change(found)
        await tenants.attacker.replace(resource, SHARED, name, found)

    return act


def moved(resource: Resource, obj: Object, body: Object) -> Act:
    """Create what is allowed, then change it; what was made is deleted."""

    async def act(tenants: Tenants) -> None:
        name = obj["metadata"]["name"]
        await tenants.admin.create(resource, SHARED, copy.deepcopy(obj))
        try:
            await tenants.attacker.patch(resource, SHARED, name, body)
        finally:
            with contextlib.suppress(NotFound):
                await tenants.admin.delete(resource, SHARED, name)

    return act


def kubectl(*arguments: str, body: str = "") -> Act:
    """What only kubectl does: exec, impersonation. Its refusal is raised as Forbidden."""

    async def act(tenants: Tenants) -> None:
        plane = tenants.installation.plane
        config = plane.kubeconfig_for("bob")
        done = await asyncio.to_thread(plane.kubectl, *arguments, kubeconfig=config, check=False, input=body)
        if done.returncode and "orbidden" in done.stderr:
            raise Forbidden(403, "Forbidden", done.stderr)

    return act


HIS: Final = {"containers": [{"name": "main", "image": "registry.example/his:1", "command": ["mine"]}]}
OWNER: Final = {
    "apiVersion": GENERIC_JOB.api_version,
    "kind": "GenericJob",
    "name": "runs",
    "uid": "00000000-0000-0000-0000-000000000000",
    "controller": True,
}
NOT_ALLOWED: Final = "may not use the queue narrow"


def with_template(job: Object, template: Object) -> Object:
    spec = job["spec"]
    if "replicaSpecs" in spec:
        spec["replicaSpecs"][0]["template"] = template
    elif "worker" in spec:
        spec["worker"]["template"] = template
    else:
        spec["mpiReplicaSpecs"]["Worker"]["template"] = template
    return job


def of_kubeflow(name: str, **policy: Any) -> Object:
    return kubeflow(name, runPolicy={"schedulingPolicy": policy})


def labelled(job: Object, **labels: str) -> Object:
    job["metadata"]["labels"] = {f"{LABELS}/{name}": value for name, value in labels.items()}
    return job


def scheduled(template_of: Object) -> Object:
    """A job without a queue whose template names our scheduler, and a queue."""
    main = {"name": "main", "image": "registry.example/x:1", "command": ["x"]}
    spec = {"containers": [main], "schedulerName": "t9k-scheduler"}
    return with_template(template_of, {"metadata": {"labels": {f"{LABELS}/queue": NARROW}}, "spec": spec})


def in_queue(value: Any) -> Object:
    return generic("j", scheduler={"t9kScheduler": value})


RESOURCES: Final = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "64"}}}]}}
EPHEMERAL: Final = {"spec": {"ephemeralContainers": [{"name": "e", "image": "registry.example/his:1"}]}}
EVERYBODY: Final = [{"kind": "User", "name": "bob", "apiGroup": RBAC}]
USE: Final = {"apiGroups": [QUEUE.group], "resources": ["queues"], "verbs": ["use"]}
CLUSTER_ROLES: Final = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)

QUEUED: Final[dict[str, Attack]] = {
    "GenericJob in a queue": Attack("bob", create(JOBS, in_queue({"queue": NARROW})), NOT_ALLOWED),
    "MPIJob in a queue": Attack("bob", create(MPIS, mpi("j", scheduler=IN_NARROW)), NOT_ALLOWED),
    "ColossalAIJob in a queue": Attack(
        "bob", create(COLOSSALS, colossalai("j", scheduler=IN_NARROW)), NOT_ALLOWED
    ),
    "Kubeflow MPIJob in a queue": Attack(
        "bob", create(KUBEFLOWS, of_kubeflow("j", queue=NARROW)), NOT_ALLOWED
    ),
    "Kubeflow MPIJob with a queue's label": Attack(
        "bob", create(KUBEFLOWS, labelled(kubeflow("j"), queue=NARROW)), NOT_ALLOWED
    ),
    "Kubeflow MPIJob with both": Attack(
        "bob",
        create(KUBEFLOWS, labelled(of_kubeflow("j", queue=NARROW), queue=OPEN)),
        "remove one of the two",
    ),
    "PodGroup in a queue": Attack("bob", create(GROUPS, group("g")), NOT_ALLOWED),
    "pod in a queue": Attack("bob", create(PODS, in_narrow()), NOT_ALLOWED),
    "pod in another's PodGroup": Attack(
        "bob", create(PODS, pod(labels={f"{LABELS}/group-name": "group"})), NOT_ALLOWED
    ),
    "pod in the PodGroup of a job": Attack(
        "bob", create(PODS, pod(labels={f"{LABELS}/group-name": "runs"})), NOT_ALLOWED
    ),
    "pod in a group and an open queue": Attack(
        "bob",
        create(PODS, pod(labels={f"{LABELS}/group-name": "group", f"{LABELS}/queue": OPEN})),
        NOT_ALLOWED,
    ),
    "pod in a group that is not there yet": Attack(
        "bob", create(PODS, pod(labels={f"{LABELS}/group-name": "later"})), "create it before its pods"
    ),
    "queue without a name": Attack("bob", create(JOBS, in_queue({"queue": ""}))),
    "queue that is left out": Attack("bob", create(JOBS, in_queue({}))),
    "queue that is null": Attack("bob", create(JOBS, in_queue({"queue": None}))),
    "queue in capitals": Attack("bob", create(JOBS, in_queue({"queue": "Narrow"}))),
    "queue with a space": Attack("bob", create(JOBS, in_queue({"queue": "narrow "}))),
    "queue with a path": Attack("bob", create(JOBS, in_queue({"queue": f"{OPEN}/../{NARROW}"}))),
    "queue as a list": Attack("bob", create(JOBS, in_queue({"queue": [OPEN, NARROW]}))),
    "queue that does not exist": Attack(
        "bob", create(JOBS, in_queue({"queue": "nowhere"})), "there is no queue nowhere"
    ),
    "PodGroup of the default queue": Attack(
        "bob", create(GROUPS, group("g", None)), "may not use the queue default"
    ),
    "pod of the default queue": Attack("bob", create(PODS, pod()), "may not use the queue default"),
    "pod with an empty queue label": Attack(
        "bob", create(PODS, pod(labels={f"{LABELS}/queue": ""})), "may not use the queue default"
    ),
    "pod with an empty group label": Attack(
        "bob", create(PODS, pod(labels={f"{LABELS}/group-name": ""})), "may not use the queue default"
    ),
    "GenericJob whose template names our scheduler": Attack("bob", create(JOBS, scheduled(generic("j")))),
    "MPIJob whose template names our scheduler": Attack("bob", create(MPIS, scheduled(mpi("j")))),
    "ColossalAIJob whose template names our scheduler": Attack(
        "bob", create(COLOSSALS, scheduled(colossalai("j")))
    ),
    "pod with a scheduling gate": Attack(
        "bob", create(PODS, in_narrow(schedulingGates=[{"name": "a.b/c"}])), NOT_ALLOWED
    ),
    "pod with a node of its own": Attack("bob", create(PODS, in_narrow(nodeName="somewhere")), NOT_ALLOWED),
    "pod with another's owner": Attack("bob", create(PODS, in_narrow(metadata={"ownerReferences": [OWNER]}))),
    "PodGroup with another's owner": Attack(
        "bob",
        create(GROUPS, group("g", ownerReferences=[{**OWNER, "blockOwnerDeletion": False}])),
        NOT_ALLOWED,
    ),
    "pod in a queue of another namespace": Attack(
        "eve", create(PODS, pod(labels={f"{LABELS}/queue": OPEN}), OTHER), "may not use the queue open"
    ),
    "job in a queue of another namespace": Attack(
        "eve", create(JOBS, in_queue({"queue": OPEN}), OTHER), "may not use the queue open"
    ),
    "pod in a group of another namespace": Attack(
        "eve",
        create(PODS, pod(labels={f"{LABELS}/group-name": "group"}), OTHER),
        "create it before its pods",
    ),
}

CHANGED: Final[dict[str, Attack]] = {
    "template of a paused job": Attack(
        "bob", json_patch(JOBS, "hers", ("replace", TEMPLATE_PATH, {"spec": HIS})), NOT_ALLOWED
    ),
    "replicas of a paused job": Attack(
        "bob", json_patch(JOBS, "hers", ("replace", "/spec/replicaSpecs/0/replicas", 50)), NOT_ALLOWED
    ),
    "resumed": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"runMode": {"pause": {"enabled": False}}}}), NOT_ALLOWED
    ),
    "resumed by taking the mode away": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"runMode": None}}), NOT_ALLOWED
    ),
    "resumed by taking the flag away": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"runMode": {"pause": {"enabled": None}}}}), NOT_ALLOWED
    ),
    "resumed by the flag's older name": Attack(
        "bob",
        patch(JOBS, "hers", {"spec": {"runMode": {"pause": {"enabled": None, "enable": False}}}}),
        NOT_ALLOWED,
    ),
    "all at once": Attack(
        "bob",
        json_patch(
            JOBS,
            "hers",
            ("replace", TEMPLATE_PATH, {"spec": HIS}),
            ("replace", "/spec/replicaSpecs/0/replicas", 50),
            ("replace", "/spec/runMode/pause/enabled", False),
        ),
    ),
    "template by kubectl replace": Attack(
        "bob",
        replaced(
            JOBS,
            "hers",
            lambda job: job["spec"]["replicaSpecs"][0].update(template={"spec": HIS}, replicas=50),
        ),
        NOT_ALLOWED,
    ),
    "template hidden behind a new clean-up policy": Attack(
        "bob",
        replaced(
            JOBS,
            "hers",
            lambda job: (
                job["spec"].update(cleanUpPolicy="All"),
                job["spec"]["replicaSpecs"][0].update(template={"spec": HIS}),
            ),
        ),
        NOT_ALLOWED,
    ),
    "template while a finalizer is added": Attack(
        "bob",
        replaced(
            JOBS,
            "hers",
            lambda job: (
                job["metadata"].update(finalizers=["example.com/hold"]),
                job["spec"]["replicaSpecs"][0].update(template={"spec": HIS}),
            ),
        ),
        NOT_ALLOWED,
    ),
    "debug mode": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"runMode": {"debug": {"enabled": True}}}}), NOT_ALLOWED
    ),
    "debug mode of a job that runs": Attack(
        "bob", patch(JOBS, "runs", {"spec": {"runMode": {"debug": {"enabled": True}}}}), NOT_ALLOWED
    ),
    "priority in the queue": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"scheduler": {"t9kScheduler": {"priority": 100}}}})
    ),
    "command of a paused MPIJob": Attack(
        "bob", patch(MPIS, "crew", {"spec": {"worker": {"cmd": ["mine"]}}}), NOT_ALLOWED
    ),
    "workers of a paused MPIJob": Attack(
        "bob", patch(MPIS, "crew", {"spec": {"worker": {"replicas": 50}}}), NOT_ALLOWED
    ),
    "MPIJob resumed": Attack(
        "bob", patch(MPIS, "crew", {"spec": {"runMode": {"pause": {"enabled": False}}}}), NOT_ALLOWED
    ),
    "job moved into a queue": Attack(
        "bob",
        moved(JOBS, generic("mine", runMode=PAUSED), {"spec": {"scheduler": IN_NARROW}}),
    ),
    "job moved from one queue to another": Attack(
        "bob",
        moved(
            JOBS,
            generic("mine", runMode=PAUSED, scheduler={"t9kScheduler": {"queue": OPEN}}),
            {"spec": {"scheduler": IN_NARROW}},
        ),
    ),
    "PodGroup moved": Attack(
        "bob", moved(GROUPS, group("mine", OPEN), {"spec": {"queue": NARROW}}), NOT_ALLOWED
    ),
    "pod moved by its label": Attack(
        "bob",
        moved(
            PODS,
            pod("mine", {f"{LABELS}/queue": OPEN}),
            {"metadata": {"labels": {f"{LABELS}/queue": NARROW}}},
        ),
        NOT_ALLOWED,
    ),
    "pod moved into a group": Attack(
        "bob",
        moved(
            PODS,
            pod("mine", {f"{LABELS}/queue": OPEN}),
            {"metadata": {"labels": {f"{LABELS}/group-name": "group"}}},
        ),
        NOT_ALLOWED,
    ),
    "pod given to our scheduler later": Attack(
        "bob",
        moved(
            PODS,
            pod("mine", {f"{LABELS}/queue": NARROW}, schedulerName="default-scheduler"),
            {"spec": {"schedulerName": "t9k-scheduler"}},
        ),
    ),
    "members of a PodGroup": Attack("bob", patch(GROUPS, "group", {"spec": {"minMember": 50}}), NOT_ALLOWED),
    "priority of a PodGroup": Attack("bob", patch(GROUPS, "group", {"spec": {"priority": 100}}), NOT_ALLOWED),
    "image of a pod": Attack(
        "bob",
        json_patch(PODS, "bound", ("replace", "/spec/containers/0/image", "registry.example/his:1")),
        NOT_ALLOWED,
    ),
    "image of a job's pod": Attack(
        "bob",
        json_patch(PODS, "runs-worker-0", ("replace", "/spec/containers/0/image", "registry.example/his:1")),
        NOT_ALLOWED,
    ),
    "gate of a pod": Attack("bob", patch(PODS, "pod", {"spec": {"schedulingGates": None}}), NOT_ALLOWED),
    "nodes of a gated pod": Attack(
        "bob", patch(PODS, "pod", {"spec": {"nodeSelector": {"a": "b"}}}), NOT_ALLOWED
    ),
    "tolerations of a pod": Attack(
        "bob",
        json_patch(PODS, "bound", ("add", "/spec/tolerations/-", {"operator": "Exists"})),
        NOT_ALLOWED,
    ),
    "size of a pod": Attack(
        "bob", patch(PODS, "bound", RESOURCES, kind="strategic", subresource="resize"), NOT_ALLOWED
    ),
    "size of a pod in a group": Attack(
        "bob", patch(PODS, "member", RESOURCES, kind="strategic", subresource="resize"), NOT_ALLOWED
    ),
    "ephemeral container in a pod": Attack(
        "bob",
        patch(PODS, "bound", EPHEMERAL, kind="strategic", subresource="ephemeralcontainers"),
        NOT_ALLOWED,
    ),
    "ephemeral container in a job's pod": Attack(
        "bob",
        patch(PODS, "runs-worker-0", EPHEMERAL, kind="strategic", subresource="ephemeralcontainers"),
        NOT_ALLOWED,
    ),
}


def binding_of(name: str) -> Object:
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    kind = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": "mine"}}
    return {**kind, "roleRef": ref, "subjects": EVERYBODY}


async def token_of_the_controller(tenants: Tenants) -> None:
    plane = tenants.installation.plane
    command = ("create", "token", CONTROLLER, "-n", HOME)
    done = await asyncio.to_thread(
        plane.kubectl, *command, kubeconfig=plane.kubeconfig_for("bob"), check=False
    )
    if done.returncode:
        raise Forbidden(403, "Forbidden", done.stderr)


@contextlib.asynccontextmanager
async def as_account(tenants: Tenants, account: str) -> AsyncIterator[Client]:
    """A client with the token of a launcher's account, as its pods have it."""
    plane = tenants.installation.plane
    command = ("create", "token", account, "-n", SHARED)
    token = (await asyncio.to_thread(plane.kubectl, *command)).stdout.strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = plane.folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    async with connect(plane, str(path)) as client:
        yield client


def by_launcher(resource: Resource, name: str) -> Act:
    async def act(tenants: Tenants) -> None:
        async with as_account(tenants, "flow-launcher") as client:
            await client.get(resource, SHARED, name)

    return act


def exec_by_launcher(name: str) -> Act:
    async def act(tenants: Tenants) -> None:
        async with as_account(tenants, "flow-launcher"):
            plane = tenants.installation.plane
            config = plane.folder / "flow-launcher.kubeconfig"
            command = ("auth", "can-i", "create", f"pods/{name}", "--subresource=exec", "-n", SHARED)
            done = await asyncio.to_thread(plane.kubectl, *command, kubeconfig=config, check=False)
        if done.stdout.strip() == "no":
            raise Forbidden(403, "Forbidden", f"{name}: no")

    return act


RIGHTS: Final[dict[str, Attack]] = {
    "status of a job": Attack(
        "bob", patch(JOBS, "runs", {"status": {"conditions": []}}, subresource="status"), "forbidden"
    ),
    "status of a PodGroup": Attack(
        "bob", patch(GROUPS, "group", {"status": {"pending": 0}}, subresource="status"), "forbidden"
    ),
    "status of a Queue": Attack(
        "bob", patch(QUEUES, NARROW, {"status": {"allocated": {}}}, None, subresource="status"), "forbidden"
    ),
    "status of a pod": Attack(
        "bob", patch(PODS, "bound", {"status": {"phase": "Succeeded"}}, subresource="status"), "forbidden"
    ),
    "binding of a pod": Attack(
        "bob", lambda tenants: tenants.attacker.bind(SHARED, "member", "somewhere"), "forbidden"
    ),
    "a Queue of one's own": Attack("bob", create(QUEUES, queue("mine", {}), None), "forbidden"),
    "a Queue opened": Attack("bob", patch(QUEUES, NARROW, {"spec": {"namespaceSelector": {}}}, None)),
    "a Queue deleted": Attack("bob", delete(QUEUES, NARROW, None), "forbidden"),
    "labels of the namespace": Attack(
        "eve", patch(NAMESPACES, OTHER, {"metadata": {"labels": {"a": "b"}}}, None), "forbidden"
    ),
    "a ClusterRole to use queues": Attack(
        "bob",
        create(
            CLUSTER_ROLES,
            {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "m"}, "rules": [USE]},
            None,
        ),
        "forbidden",
    ),
    "a Role to use queues": Attack(
        "bob",
        create(
            ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "m"}, "rules": [USE]}
        ),
        "forbidden",
    ),
    "a binding to another's role": Attack(
        "bob", create(ROLE_BINDINGS, binding_of("use-narrow")), "forbidden"
    ),
    "a binding to the controller's role": Attack(
        "bob", create(ROLE_BINDINGS, binding_of("bireme-controller")), "forbidden"
    ),
    "the controller impersonated": Attack(
        "bob",
        kubectl("get", "pods", "-A", f"--as=system:serviceaccount:{HOME}:{CONTROLLER}"),
    ),
    "Ann impersonated": Attack("bob", kubectl("get", "pods", "-n", SHARED, "--as=ann")),
    "a token of the controller": Attack("bob", token_of_the_controller, "orbidden"),
    "a pod with the controller's account": Attack(
        "bob",
        create(PODS, pod("thief", serviceAccountName=CONTROLLER, schedulerName="default-scheduler"), HOME),
        "forbidden",
    ),
    "the authority's key": Attack("bob", read(SECRETS, WEBHOOKS, HOME), "forbidden"),
    "the shape profiles": Attack(
        "bob",
        create(
            CONFIG_MAPS,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "resource-shapes"}},
            HOME,
        ),
        "forbidden",
    ),
    "the controller's lease": Attack(
        "bob", patch(LEASES, CONTROLLER, {"spec": {"holderIdentity": "bob"}}, HOME), "forbidden"
    ),
    "webhooks read": Attack("bob", read(CONFIGURATIONS[1], WEBHOOKS, None), "forbidden"),
    "webhooks changed": Attack(
        "bob", patch(CONFIGURATIONS[1], WEBHOOKS, {"webhooks": []}, None), "forbidden"
    ),
    "webhooks deleted": Attack("bob", delete(CONFIGURATIONS[0], WEBHOOKS, None), "forbidden"),
    "another namespace's job read": Attack("eve", read(JOBS, "hers"), "forbidden"),
    "another namespace's job paused": Attack("eve", patch(JOBS, "runs", {"spec": {"runMode": PAUSED}})),
    "another namespace's ssh keys": Attack("eve", read(SECRETS, "ssh-ssh"), "forbidden"),
    "another namespace's pod": Attack("eve", create(PODS, pod(schedulerName="x")), "forbidden"),
    "another namespace's job made": Attack("eve", create(JOBS, generic("j")), "forbidden"),
    "a launcher reads another job's pod": Attack("bob", by_launcher(PODS, "runs-worker-0"), "forbidden"),
    "a launcher reads another job's keys": Attack("bob", by_launcher(SECRETS, "ssh-ssh"), "forbidden"),
    "a launcher reads its ConfigMap": Attack("bob", by_launcher(CONFIG_MAPS, "flow-config"), "forbidden"),
    "a launcher runs commands in another job's pod": Attack("bob", exec_by_launcher("ssh-worker-0")),
    "a launcher runs commands in itself": Attack("bob", exec_by_launcher("flow-launcher")),
}
ATTACKS: Final = {
    **{f"queued: {name}": attack for name, attack in QUEUED.items()},
    **{f"changed: {name}": attack for name, attack in CHANGED.items()},
    **{f"rights: {name}": attack for name, attack in RIGHTS.items()},
}


def run(installation: Installation, user: str, act: Act) -> None:
    async def main() -> None:
        plane = installation.plane
        async with connect(plane, str(plane.kubeconfig_for(user))) as attacker, connect(plane) as admin:
            await act(Tenants(attacker, admin, installation))

    asyncio.run(main())


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(installation: Installation, name: str) -> None:
    user, act, because = ATTACKS[name]
    with pytest.raises(ApiError) as refused:
        run(installation, user, act)
    # A conflict, or a webhook that gave no answer, would be no refusal.
    assert refused.value.code in (400, 403, 422), refused.value
    assert "failed calling webhook" not in refused.value.message
    assert because in refused.value.message


# ---- names and metadata, where the refusal is the controller's


TAKEN: Final[dict[str, tuple[Resource, Object, str, Object]]] = {
    "Secret": (SECRETS, {"kind": "Secret", "data": {"id": "YQ=="}}, "-ssh", mpi("t-secret")),
    "ConfigMap": (CONFIG_MAPS, {"kind": "ConfigMap", "data": {"hostfile": "x"}}, "-config", mpi("t-config")),
    "pod": (PODS, pod(schedulerName="x"), "-worker-0", generic("t-pod")),
    "launcher's account": (SERVICE_ACCOUNTS, {"kind": "ServiceAccount"}, "-launcher", kubeflow("t-account")),
    "launcher's role": (
        ROLES,
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "rules": []},
        "-launcher",
        kubeflow("t-role"),
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_object_in_the_place_of_a_child_is_never_used(installation: Installation, what: str) -> None:
    """Bob makes it before Ann's job comes: the job names the conflict, and starts nothing with it."""
    resource, body, suffix, job = TAKEN[what]
    name = job["metadata"]["name"]
    kinds = {each.kind: each for each in (JOBS, MPIS)} | {"MPIJob": MPIS}
    jobs = KUBEFLOWS if job["apiVersion"].startswith("kubeflow") else kinds[job["kind"]]

    async def act(tenants: Tenants) -> None:
        metadata = {**body.get("metadata", {}), "name": f"{name}{suffix}"}
        taken = {"apiVersion": "v1", **copy.deepcopy(body), "metadata": metadata}
        made = await tenants.admin.create(resource, SHARED, taken)
        await tenants.admin.create(jobs, SHARED, copy.deepcopy(job))

        async def is_named() -> bool:
            found = await tenants.admin.get(jobs, SHARED, name)
            conditions = (found.get("status") or {}).get("conditions") or ()
            return any(each.get("reason") == "NameConflict" for each in conditions)

        await until(is_named)
        left = await tenants.admin.get(resource, SHARED, f"{name}{suffix}")
        assert left["metadata"]["uid"] == made["metadata"]["uid"]
        assert not left["metadata"].get("ownerReferences")
        assert not await exists(tenants.admin, PODS, SHARED, f"{name}-launcher")

    run(installation, "bob", act)


SPOOFED: Final = {
    "ownerReferences": [OWNER],
    "finalizers": ["example.com/hold"],
    "labels": {"bireme.dev/job-uid": "other", f"{LABELS}/queue": NARROW, f"{LABELS}/group-name": "group"},
    "annotations": {"bireme.dev/mode": "debug"},
    "namespace": OTHER,
    "name": "runs-worker-0",
}


def test_template_can_not_spoof_what_a_pod_is(installation: Installation) -> None:
    """Owner, finalizers, queue and name of a pod are the controller's to write, not the template's."""

    async def act(tenants: Tenants) -> None:
        main = {"name": "main", "image": "registry.example/x:1", "command": ["x"]}
        job = with_template(
            generic("spoof", replicas=1), {"metadata": SPOOFED, "spec": {"containers": [main]}}
        )
        try:
            made = await tenants.attacker.create(JOBS, SHARED, job)
        except ApiError as error:
            if error.code not in (403, 422):
                raise
            return
        await until(lambda: exists(tenants.admin, PODS, SHARED, "spoof-worker-0"))
        found = await tenants.admin.get(PODS, SHARED, "spoof-worker-0")
        metadata = found["metadata"]
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [made["metadata"]["uid"]]
        assert not metadata.get("finalizers")
        assert metadata["labels"]["bireme.dev/job-uid"] == made["metadata"]["uid"]
        assert metadata["annotations"]["bireme.dev/mode"] != "debug"
        assert found["spec"]["schedulerName"] == "default-scheduler"

    run(installation, "bob", act)


# ---- what must still go


ALLOWED: Final[dict[str, Attack]] = {
    "pauses another's job": Attack("bob", patch(JOBS, "runs", {"spec": {"runMode": PAUSED}})),
    "changes what stays of another's job": Attack(
        "bob", patch(JOBS, "hers", {"spec": {"cleanUpPolicy": "All"}})
    ),
    "labels another's job": Attack("bob", patch(JOBS, "hers", {"metadata": {"labels": {"a": "b"}}})),
    "labels another's pod": Attack("bob", patch(PODS, "bound", {"metadata": {"labels": {"a": "b"}}})),
    "ends another's pod sooner": Attack("bob", patch(PODS, "bound", {"spec": {"activeDeadlineSeconds": 60}})),
    "uses an open queue": Attack(
        "bob", create(JOBS, generic("o", scheduler={"t9kScheduler": {"queue": OPEN}}))
    ),
    "deletes another's PodGroup": Attack("bob", delete(GROUPS, "doomed")),
    "changes and resumes her own": Attack(
        "ann",
        json_patch(JOBS, "own", ("replace", "/spec/replicaSpecs/0/replicas", 3)),
    ),
    "resumes her own": Attack(
        "ann", patch(JOBS, "own", {"spec": {"runMode": {"pause": {"enabled": False}}}})
    ),
    "lets her own pod grow": Attack(
        "ann", patch(PODS, "bound", RESOURCES, kind="strategic", subresource="resize")
    ),
}


def test_rest_of_a_tenants_work_goes_on(installation: Installation) -> None:
    async def prepare_own(tenants: Tenants) -> None:
        await tenants.attacker.create(JOBS, SHARED, generic("own", scheduler=IN_NARROW, runMode=PAUSED))
        await tenants.attacker.create(GROUPS, SHARED, group("doomed"))
        await until(lambda: is_stopped(tenants.admin, JOBS, "own"))

    run(installation, "ann", prepare_own)
    for user, act, _ in ALLOWED.values():
        run(installation, user, act)


QUOTA: Final = {"quota": {"requests": {"cpu": "4"}}, "namespaceSelector": {}}
GROWTH: Final[dict[str, tuple[Object, Object, str, str]]] = {
    "within the quota": (QUOTA, {"allocated": {"cpu": "1"}}, "3", ""),
    "beyond the whole quota": (QUOTA, {"allocated": {"cpu": "1"}}, "5", "grows beyond the quota"),
    "beyond what is left": (QUOTA, {"allocated": {"cpu": "3"}}, "3", "grows beyond the quota"),
    "within the shape": ({"namespaceSelector": {}, "resourceShapeProfile": "small"}, {}, "2", ""),
    "beyond the shape": (
        {"namespaceSelector": {}, "resourceShapeProfile": "small"},
        {},
        "3",
        "asks for more than the shape profile",
    ),
    "a shape that nobody wrote": (
        {"namespaceSelector": {}, "resourceShapeProfile": "none"},
        {},
        "2",
        "is missing or can't be read",
    ),
    "less": (QUOTA, {"allocated": {"cpu": "9"}}, "500m", ""),
}


@pytest.mark.parametrize("name", GROWTH)
def test_resize_keeps_to_quota_and_shape(installation: Installation, name: str) -> None:
    """A pod that runs, in a queue that its user may use."""
    spec, status, cpu, because = GROWTH[name]
    queue_name = f"q-{sorted(GROWTH).index(name)}"

    async def act(tenants: Tenants) -> None:
        admin = tenants.admin
        shapes = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "resource-shapes"}}
        await admin.patch(
            CONFIG_MAPS, HOME, "resource-shapes", {**shapes, "data": {"small": '{"cpu": "2"}'}}, kind="apply"
        )
        made = queue(queue_name, None) | {"spec": spec}
        await admin.create(QUEUES, None, made)
        await admin.patch(QUEUES, None, queue_name, {"status": status}, subresource="status")
        await tenants.attacker.create(PODS, SHARED, pod(queue_name, {f"{LABELS}/queue": queue_name}))
        await admin.bind(SHARED, queue_name, "somewhere")
        grown = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}}
        await tenants.attacker.patch(PODS, SHARED, queue_name, grown, kind="strategic", subresource="resize")

    if not because:
        run(installation, "bob", act)
        return
    with pytest.raises(Forbidden, match=because):
        run(installation, "bob", act)


def test_controller_goes_on_while_the_webhooks_are_attacked(installation: Installation) -> None:
    """It renews its lease, and makes a pod anew that is deleted meanwhile."""

    async def act(tenants: Tenants) -> None:
        admin = tenants.admin
        await tenants.attacker.create(JOBS, SHARED, generic("steady", replicas=1))
        await until(lambda: exists(admin, PODS, SHARED, "steady-worker-0"))
        first = await admin.get(PODS, SHARED, "steady-worker-0")
        before = await admin.get(LEASES, HOME, CONTROLLER)
        with attack("half_headers", installation.webhook_port):
            await admin.delete(PODS, SHARED, "steady-worker-0", grace_seconds=0)

            async def is_new() -> bool:
                if not await exists(admin, PODS, SHARED, "steady-worker-0"):
                    return False
                found = await admin.get(PODS, SHARED, "steady-worker-0")
                return bool(found["metadata"]["uid"] != first["metadata"]["uid"])

            await until(is_new)

            async def is_renewed() -> bool:
                lease = await admin.get(LEASES, HOME, CONTROLLER)
                assert lease["spec"]["holderIdentity"] == before["spec"]["holderIdentity"]
                return bool(lease["spec"]["renewTime"] != before["spec"]["renewTime"])

            await until(is_renewed)

    run(installation, "bob", act)


def test_there_are_attacks_enough() -> None:
    assert len(ATTACKS) + len(TAKEN) + 1 >= 60
