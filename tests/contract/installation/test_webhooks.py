"""Webhooks as a real API server calls them: refusals, warnings, defaults, queues, change of certificates."""

import asyncio
import base64
import contextlib
import copy
import functools
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, POD_GROUP, QUEUE, Kind
from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import AUTHORITY_VALID, renew_authority
from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import WebhookServer
from bireme.installation.names import WEBHOOKS
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from bireme.kube.errors import ApiError, Forbidden, Invalid, NotFound
from bireme.kube.resources import CRDS, PODS, resource_of
from bireme.run.checkup import CONFIGURATIONS
from bireme.run.webhooks import Options, Webhooks
from support.cluster_world import connect, until
from support.control_plane import ControlPlane
from support.installation import Installation, apply, audited
from support.jobs import TEMPLATE, colossalai, generic, kubeflow, mpi

pytestmark = pytest.mark.xdist_group("installation")

HOME = "bireme-hooks"
PLACE = "hooks"
DRAIN_SECONDS = 10.0
JOBS = resource_of(GENERIC_JOB)
GROUPS = resource_of(POD_GROUP)
Scene = Callable[[Client], Awaitable[None]]


@pytest.fixture(scope="module")
def installation(plane: ControlPlane) -> Iterator[Installation]:
    """Everything but a controller. Webhooks must answer, so that one that is not called is noticed."""
    made = Installation(plane, HOME, {"webhooks": {"failurePolicy": "Fail"}, "kubeflow": {"enabled": True}})
    made.apply()
    apply(plane, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}])
    yield made
    made.remove()
    plane.kubectl("delete", "namespace", PLACE, "--wait=false")


def play(installation: Installation, scene: Scene) -> None:
    """Run a scene, as the administrator, with webhooks served by their own account."""

    async def main() -> None:
        async with connect(installation.plane) as admin, serving(installation):
            await until(functools.partial(is_asked, admin))
            await scene(admin)

    asyncio.run(main())


def options(installation: Installation, **more: Any) -> Options:
    return Options(
        installation.certificates(),
        HOME,
        host="127.0.0.1",
        port=installation.webhook_port,
        names=("127.0.0.1",),
        **more,
    )


@contextlib.asynccontextmanager
async def serving(installation: Installation) -> AsyncIterator[None]:
    kubeconfig = str(await asyncio.to_thread(installation.account_kubeconfig, WEBHOOKS))
    async with connect(installation.plane, kubeconfig) as client:
        task = asyncio.create_task(Webhooks(client, options(installation), Metrics()).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_webhooks_answer_while_a_replica_drains(installation: Installation) -> None:
    """As in a roll-out: the API server calls a replica that was told to end, until it has heard of that."""

    async def main() -> None:
        kubeconfig = str(await asyncio.to_thread(installation.account_kubeconfig, WEBHOOKS))
        async with connect(installation.plane) as admin, connect(installation.plane, kubeconfig) as client:
            webhooks = Webhooks(client, options(installation, drain_seconds=DRAIN_SECONDS), Metrics())
            task = asyncio.create_task(webhooks.run())
            await until(functools.partial(is_asked, admin))
            task.cancel()
            answers = [await is_asked(admin) for _ in range(20)]
            assert not task.done(), "the replica drained too soon for this test"
            assert all(answers)
            await asyncio.wait([task])

    asyncio.run(main())


def wrong(name: str = "wrong") -> dict[str, Any]:
    """What the CRD's schema takes, and admission does not."""
    job = generic(name)
    job["spec"]["replicaSpecs"][0]["template"] = {"spec": {"containers": [{"name": "a", "imag": "b"}]}}
    return job


async def is_asked(client: Client) -> bool:
    """Whether the API server knows whom to ask, and trusts the answer."""
    try:
        await client.create(JOBS, PLACE, wrong(), dry_run=True)
    except ApiError as error:
        return "denied the request" in error.message
    return False


def test_a_wrong_manifest_is_refused_with_its_field_and_a_hint(installation: Installation) -> None:
    async def scene(client: Client) -> None:
        with pytest.raises(Invalid) as refused:
            await client.create(JOBS, PLACE, wrong())
        assert 'admission webhook "validate.bireme.dev" denied the request' in refused.value.message
        field = "spec.replicaSpecs[0].template.spec.containers[0].imag"
        assert f"{field}: unknown field; did you mean `image`?" in refused.value.message
        assert field in [cause["field"] for cause in refused.value.causes]
        job = await client.create(JOBS, PLACE, generic("right"))
        with pytest.raises(Invalid, match="can't change after creation"):
            await client.patch(
                JOBS, PLACE, "right", {"spec": {"replicaSpecs": [{"type": "x", "template": TEMPLATE}]}}
            )
        # What is not a matter of the spec goes on, also on the way out.
        metadata = {"finalizers": ["example.com/hold"], "labels": {"a": "b"}}
        await client.patch(JOBS, PLACE, "right", {"metadata": metadata})
        await client.delete(JOBS, PLACE, "right", uid=job["metadata"]["uid"])
        await client.patch(JOBS, PLACE, "right", {"metadata": {"finalizers": None}})

    play(installation, scene)


def test_kubectl_shows_warnings(installation: Installation) -> None:
    async def scene(_client: Client) -> None:
        job = generic("warned", replicas=1)
        job["spec"]["replicaSpecs"][0]["template"]["spec"] = {
            **TEMPLATE["spec"],
            "restartPolicy": "Always",
        }
        job["metadata"]["namespace"] = PLACE
        plane = installation.plane
        command = ("create", "--dry-run=server", "-f", "-")
        result = await asyncio.to_thread(plane.kubectl, *command, input=json.dumps(job))
        assert "genericjob.batch.tensorstack.dev/warned created" in result.stdout
        assert "Warning: spec.replicaSpecs[0].template.spec.restartPolicy: " in result.stderr

    play(installation, scene)


def test_defaults_are_filled_in_where_the_crd_has_none(installation: Installation) -> None:
    """As with a CRD that is older than the controller."""

    async def scene(client: Client) -> None:
        crd = await client.get(CRDS, None, POD_GROUP.crd_name)
        older = copy.deepcopy(crd)
        schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field in schema["properties"].values():
            field.pop("default", None)
        schema.pop("default", None)
        group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": "group"}}
        group["spec"] = {"minMember": 3}

        before = mutated(installation.plane)

        async def is_filled_in_by_the_webhook() -> bool:
            made = await client.create(GROUPS, PLACE, group, dry_run=True)
            assert made["spec"] == {"minMember": 3, "queue": "default", "priority": 0}
            return mutated(installation.plane) > before

        await client.replace(CRDS, None, POD_GROUP.crd_name, older)
        try:
            # The API server takes the older schema up after a while; until then it fills in the same itself.
            await until(is_filled_in_by_the_webhook)
        finally:
            current = await client.get(CRDS, None, POD_GROUP.crd_name)
            await client.replace(CRDS, None, POD_GROUP.crd_name, {**current, "spec": crd["spec"]})

    play(installation, scene)


def mutated(plane: ControlPlane) -> int:
    """How many PodGroups the webhook has changed, by the audit log."""
    return sum(
        (entry.get("objectRef") or {}).get("resource") == "podgroups"
        and any('"mutated":true' in note for note in entry.get("annotations", {}).values())
        for entry in audited(plane, "admin")
    )


# ---- queues

NARROW, OPEN = "narrow", "open-to-hooks"
ALLOWED = {
    "use-by-role": ("ann", NARROW, True),
    "no-role": ("bob", NARROW, False),
    "namespace-is-selected": ("bob", OPEN, True),
    "no-such-queue": ("bob", "nowhere", False),
    "administrator": ("admin", "nowhere", True),
}


def queue(name: str, selector: dict[str, Any] | None) -> dict[str, Any]:
    spec = {"namespaceSelector": selector} if selector is not None else {}
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def queue_objects() -> list[dict[str, Any]]:
    """Two queues; Ann and Bob may edit, and Ann may use the one that no namespace may."""
    rbac = "rbac.authorization.k8s.io"

    def user(name: str) -> dict[str, str]:
        return {"apiGroup": rbac, "kind": "User", "name": name}

    rule = {
        "apiGroups": [QUEUE.group],
        "resources": ["queues"],
        "resourceNames": [NARROW],
        "verbs": ["use"],
    }
    return [
        queue(NARROW, None),
        queue(OPEN, {"matchLabels": {"kubernetes.io/metadata.name": PLACE}}),
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "use-narrow"},
            "rules": [rule],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "use-narrow"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "use-narrow"},
            "subjects": [user("ann")],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "edit", "namespace": PLACE},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
            "subjects": [user("ann"), user("bob")],
        },
    ]


def queued_objects(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """Jobs, a PodGroup and a pod that name a queue, and a pod that names a group of it."""
    scheduler = {"t9kScheduler": {"queue": name}}
    return [
        (JOBS, generic("j", scheduler=scheduler)),
        (resource_of(MPI_JOB), mpi("j", scheduler=scheduler)),
        (resource_of(COLOSSALAI_JOB), colossalai("j", scheduler=scheduler)),
        (resource_of(KUBEFLOW_MPI_JOB), kubeflow_in(name)),
        (resource_of(KUBEFLOW_MPI_JOB), kubeflow_labelled(name)),
        (GROUPS, queued_group(name)),
        (PODS, queued_pod({"scheduler.tensorstack.dev/queue": name})),
        (PODS, queued_pod({"scheduler.tensorstack.dev/group-name": f"of-{name}"})),
    ]


def kubeflow_in(name: str) -> dict[str, Any]:
    return kubeflow("j", runPolicy={"schedulingPolicy": {"queue": name}})


def kubeflow_labelled(name: str) -> dict[str, Any]:
    job = kubeflow("j")
    job["metadata"]["labels"] = {"scheduler.tensorstack.dev/queue": name}
    return job


def queued_pod(labels: dict[str, str]) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "registry.example/x:1"}], "schedulerName": "t9k-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": spec}


def test_who_may_use_a_queue_is_asked_of_jobs_groups_and_pods(installation: Installation) -> None:
    plane = installation.plane

    async def scene(admin: Client) -> None:
        await asyncio.to_thread(apply, plane, queue_objects())
        await until(functools.partial(may_edit, plane))
        for name in (NARROW, OPEN, "nowhere"):
            group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup"}
            metadata = {"name": f"of-{name}"}
            await admin.create(
                GROUPS, PLACE, {**group, "metadata": metadata, "spec": {"minMember": 1, "queue": name}}
            )
        for user, name, allowed in ALLOWED.values():
            kubeconfig = plane.kubeconfig if user == "admin" else plane.kubeconfig_for(user)
            async with connect(plane, str(kubeconfig)) as client:
                for resource, obj in queued_objects(name):
                    assert await is_let_in(client, resource, obj, name) is allowed, (user, name, obj["kind"])

    play(installation, scene)


def test_tenant_with_role_edit_lists_all_kinds_of_bireme(installation: Installation) -> None:
    plane = installation.plane

    async def scene(_admin: Client) -> None:
        await asyncio.to_thread(apply, plane, queue_objects())
        await until(functools.partial(may_edit, plane))

    play(installation, scene)
    config = plane.kubeconfig_for("bob")
    listed = plane.kubectl("get", "bireme", "-o", "name", "-n", PLACE, kubeconfig=config)
    assert f"queue.scheduler.tensorstack.dev/{OPEN}" in listed.stdout.splitlines()
    refused = plane.kubectl("delete", "queue", OPEN, kubeconfig=config, check=False)
    assert "Forbidden" in refused.stderr


def test_a_pod_is_not_let_in_for_a_group_whose_queue_nobody_knows_yet(installation: Installation) -> None:
    """Whoever makes the group later may put it into a queue that the pod's own user may not use."""
    labels = {"scheduler.tensorstack.dev/group-name": "later", "scheduler.tensorstack.dev/queue": OPEN}

    async def scene(admin: Client) -> None:
        with pytest.raises(Forbidden, match="there is no PodGroup later yet: create it before its pods"):
            await admin.create(PODS, PLACE, queued_pod(labels), dry_run=True)

    play(installation, scene)


async def may_edit(plane: ControlPlane) -> bool:
    """Whether Ann and Bob are let in: roles are aggregated, and taken up, a moment after they are there."""
    for user, name in (("ann", NARROW), ("bob", OPEN)):
        async with connect(plane, str(plane.kubeconfig_for(user))) as client:
            try:
                await client.create(GROUPS, PLACE, queued_group(name), dry_run=True)
            except Forbidden:
                return False
    return True


async def is_let_in(client: Client, resource: Any, obj: dict[str, Any], queue: str) -> bool:
    try:
        await client.create(resource, PLACE, obj, dry_run=True)
    except Forbidden as error:
        is_there = queue in (NARROW, OPEN)
        why = f"may not use the queue {queue}: " if is_there else f"there is no queue {queue}: "
        if "queues.bireme.dev" in error.message and why in error.message:
            return False
        raise
    return True


def queued_group(name: str) -> dict[str, Any]:
    group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**group, "spec": {"minMember": 1, "queue": name}}


def owned_by(kind: Kind | None) -> dict[str, Any]:
    """A pod in a queue, as the controller would make it for a job of this kind."""
    pod = queued_pod({"scheduler.tensorstack.dev/queue": NARROW})
    if kind is not None:
        owner = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": "j",
            "uid": "1",
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [owner]
    return pod


async def is_let_into_the_group_of_its_job(controller: Client, admin: Client) -> None:
    """A pod of a Kubeflow MPIJob is let into the PodGroup of that job, and into no other's."""
    owners = owned_by(KUBEFLOW_MPI_JOB)["metadata"]["ownerReferences"]
    for name, own in (("of-the-job", owners), ("of-another", [{**owners[0], "uid": "2"}])):
        group = queued_group(NARROW)
        group["metadata"] = {"name": name, "ownerReferences": own}
        # A finalizer keeps the garbage collector from removing the group, whose owner is not there.
        group["metadata"]["finalizers"] = ["bireme.test/kept"]
        await controller.create(GROUPS, PLACE, group)
        pod = queued_pod({"scheduler.tensorstack.dev/group-name": name})
        pod["metadata"]["ownerReferences"] = owners
        assert await is_let_in(controller, PODS, pod, NARROW) is (own is owners)
        await admin.patch(GROUPS, PLACE, name, {"metadata": {"finalizers": None}})
        with contextlib.suppress(NotFound):
            await admin.delete(GROUPS, PLACE, name)


def test_the_controller_is_not_asked_about_what_it_makes_for_a_job_that_was(
    installation: Installation,
) -> None:
    plane = installation.plane

    async def scene(admin: Client) -> None:
        await asyncio.to_thread(apply, plane, queue_objects())
        await until(functools.partial(may_edit, plane))
        kubeconfig = str(await asyncio.to_thread(installation.account_kubeconfig))
        async with connect(plane, kubeconfig) as controller:
            for kind, allowed in {
                None: False,
                KUBEFLOW_MPI_JOB: False,
                GENERIC_JOB: True,
                MPI_JOB: True,
            }.items():
                assert await is_let_in(controller, PODS, owned_by(kind), NARROW) is allowed, kind
            await is_let_into_the_group_of_its_job(controller, admin)
        async with connect(plane, str(plane.kubeconfig_for("bob"))) as bob:
            assert not await is_let_in(bob, PODS, owned_by(GENERIC_JOB), NARROW)
            # Nor can a job get there by its template: the controller would not be asked about its pods.
            job = generic("j")
            job["spec"]["replicaSpecs"][0]["template"] = queued_pod(
                {"scheduler.tensorstack.dev/queue": NARROW}
            )
            with pytest.raises(Invalid, match="t9k-scheduler places queued jobs only"):
                await bob.create(JOBS, PLACE, job, dry_run=True)

    play(installation, scene)


def test_a_job_that_no_quota_could_hold_is_let_in_with_a_warning(installation: Installation) -> None:
    async def scene(_admin: Client) -> None:
        small = queue("small", {})
        small["spec"]["quota"] = {"requests": {"cpu": "1"}}
        await asyncio.to_thread(apply, installation.plane, [small])
        job = generic(
            "greedy", replicas=3, scheduler={"t9kScheduler": {"queue": "small"}}, cleanUpPolicy="All"
        )
        job["metadata"]["namespace"] = PLACE
        container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": "500m"}}
        command = ("create", "--dry-run=server", "-f", "-")

        async def warnings() -> str:
            result = await asyncio.to_thread(installation.plane.kubectl, *command, input=json.dumps(job))
            return result.stderr

        told = "asks for more than the whole quota of queue small, and waits: 1500m of cpu (quota 1)"
        assert told in await warnings()
        job["spec"]["replicaSpecs"][0]["replicas"] = 2
        assert "Warning" not in await warnings()

    play(installation, scene)


def test_queues_of_another_engine_are_its_own_to_guard(installation: Installation) -> None:
    plane = installation.plane

    async def scene(admin: Client) -> None:
        await asyncio.to_thread(apply, plane, queue_objects())
        await until(functools.partial(may_edit, plane))
        resource = next(each for each in CONFIGURATIONS if each.kind.startswith("Validating"))
        name = next(
            each["metadata"]["name"] for each in installation.objects if each["kind"] == resource.kind
        )
        found = await admin.get(resource, None, name)
        text = json.dumps(found).replace("'bireme' in ['bireme', 't9k']", "'volcano' in ['bireme', 't9k']")
        async with connect(plane, str(plane.kubeconfig_for("bob"))) as bob:
            job = generic("j", scheduler={"t9kScheduler": {"queue": "of-volcano"}})
            assert not await is_let_in(bob, JOBS, job, "of-volcano")
            await admin.replace(resource, None, name, json.loads(text))
            try:
                await until(lambda: is_let_in(bob, JOBS, job, "of-volcano"))
            finally:
                await asyncio.to_thread(installation.apply)

    play(installation, scene)


MOVED: dict[str, tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "group": (GROUPS, queued_group(OPEN), {"spec": {"queue": NARROW}}, {"spec": {"minMember": 2}}),
    "pod": (
        PODS,
        queued_pod({"scheduler.tensorstack.dev/queue": OPEN}),
        {"metadata": {"labels": {"scheduler.tensorstack.dev/queue": NARROW}}},
        {"metadata": {"labels": {"other": "label"}}},
    ),
}


@pytest.mark.parametrize("what", MOVED)
def test_nothing_can_be_moved_to_a_queue_that_is_not_allowed(installation: Installation, what: str) -> None:
    plane, (resource, obj, elsewhere, otherwise) = installation.plane, MOVED[what]

    async def scene(admin: Client) -> None:
        await asyncio.to_thread(apply, plane, queue_objects())
        await until(functools.partial(may_edit, plane))
        name = obj["metadata"]["name"]
        async with connect(plane, str(plane.kubeconfig_for("bob"))) as bob:
            await bob.create(resource, PLACE, obj)
            with pytest.raises(Forbidden, match="may not use the queue narrow"):
                await bob.patch(resource, PLACE, name, elsewhere)
            await bob.patch(resource, PLACE, name, otherwise)
            await bob.delete(resource, PLACE, name)

    play(installation, scene)


# ---- certificates


def test_leaf_and_authority_change_while_webhooks_are_served(installation: Installation) -> None:
    """Begins two months ago: the leaf of then is due now. Then the administrator renews the authority: the
    configurations trust both, before the pods see the new Secret. No call fails on the way."""
    moment = utc_now() - timedelta(days=61)

    async def main() -> None:
        nonlocal moment
        kubeconfig = str(await asyncio.to_thread(installation.account_kubeconfig, WEBHOOKS))
        async with connect(installation.plane) as admin, connect(installation.plane, kubeconfig) as client:
            folder = installation.certificates()
            keeper = CertificateKeeper(
                folder, ("127.0.0.1",), client.clock, now=lambda: moment, period_seconds=0.2
            )
            keeper.step()
            async with served_by(keeper, client, installation.webhook_port):
                await until(functools.partial(is_asked, admin))
                first = await asyncio.to_thread(served, installation.webhook_port)

                async def is_new(field: str, old: x509.Certificate) -> bool:
                    assert await is_asked(admin)
                    now_served = await asyncio.to_thread(served, installation.webhook_port)
                    return bool(getattr(now_served, field) != getattr(old, field))

                moment = utc_now()
                await until(functools.partial(is_new, "serial_number", first))
                second = await asyncio.to_thread(served, installation.webhook_port)
                assert second.issuer == first.issuer
                renewed = renew_authority(installation.authority, utc_now() + AUTHORITY_VALID * 0.9)
                await trust(admin, renewed.certificates)
                installation.certificates(renewed)
                await until(functools.partial(is_new, "issuer", second))
                for _ in range(5):
                    assert await is_asked(admin)

    try:
        asyncio.run(main())
    finally:
        installation.apply()


async def trust(admin: Client, bundle: bytes) -> None:
    """As the administrator applies new manifests."""
    for resource in CONFIGURATIONS:
        found = await admin.get(resource, None, WEBHOOKS)
        for each in found["webhooks"]:
            each["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        await admin.replace(resource, None, WEBHOOKS, found)


@contextlib.asynccontextmanager
async def served_by(keeper: CertificateKeeper, client: Client, port: int) -> AsyncIterator[None]:
    server = WebhookServer(QueueAccess(client, "", HOME), Metrics())
    await server.start(keeper.context, "127.0.0.1", port)
    task = asyncio.create_task(keeper.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop()


def served(port: int) -> x509.Certificate:
    """What a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 60) as plain, context.wrap_socket(plain) as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)
