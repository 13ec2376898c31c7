"""`bireme doctor` on a real API server: quiet where all is well, and right about what is broken."""

import asyncio
import base64
import contextlib
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner

from bireme import __version__
from bireme.api.kinds import POD_GROUP
from bireme.cli.main import cli
from bireme.control.metrics import Metrics
from bireme.control.webhooks.certificates import make_authority
from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import WebhookServer
from bireme.installation.checkup import Finding, examine
from bireme.installation.names import CONTROLLER, SCHEDULER, WEBHOOKS
from bireme.kube.client import Client
from bireme.kube.errors import Conflict, NotFound
from bireme.kube.lease import LeaderElection
from bireme.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
    resource_of,
)
from bireme.run.checkup import CONFIGURATIONS, Examiner
from support.cluster_world import connect, until
from support.control_plane import ControlPlane
from support.installation import Installation, Object, apply
from support.jobs import generic

pytestmark = pytest.mark.xdist_group("installation")

T = TypeVar("T")
HOME = "bireme-clinic"
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
GENERIC_JOBS = Resource("batch.tensorstack.dev", "v1beta1", "genericjobs", "GenericJob")
DNS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
    "spec": {"ports": [{"port": 53}]},
}


class Clinic:
    """An installation as if at work: webhooks are served, leases are held, and pods are said to be ready.

    No controller mends here what a test breaks.
    """

    def __init__(self, installation: Installation) -> None:
        self.plane = installation.plane
        self._installation = installation
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._exits = contextlib.AsyncExitStack()
        self._leading: dict[str, asyncio.Task[None]] = {}
        self.client: Client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(600)

    def open(self) -> None:
        self._thread.start()
        self.run(self._open())

    async def _open(self) -> None:
        self.client = await self._exits.enter_async_context(connect(self.plane))
        keeper = CertificateKeeper(self._installation.certificates(), ("127.0.0.1",), self.client.clock)
        keeper.step()
        server = WebhookServer(QueueAccess(self.client, "", HOME), Metrics())
        await server.start(keeper.context, "127.0.0.1", self._installation.webhook_port)
        self._exits.push_async_callback(server.stop)
        await self.lead(CONTROLLER)
        await self.lead(SCHEDULER)
        await self.wait_pods()
        await self.set_ready("True")
        await until(self._is_well)

    async def wait_pods(self) -> None:
        await until(self._has_pods)

    async def _has_pods(self) -> bool:
        return len(await self.pods()) == 6

    async def _is_well(self) -> bool:
        """Until the API server has taken up whom to trust."""
        return not await self.findings()

    def close(self) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for name in list(self._leading):
            await self.rest(name)
        await self._exits.aclose()

    async def lead(self, name: str) -> None:
        election = LeaderElection(self.client, HOME, name, f"test-{datetime.now(UTC)}")
        self._leading[name] = asyncio.create_task(election.run())
        await election.wait_until_leading()

    async def rest(self, name: str) -> None:
        if (leading := self._leading.pop(name, None)) is not None:
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)

    async def pods(self, name: str = "") -> list[Object]:
        """Of all Deployments, or of one."""
        found = (await self.client.list(PODS, HOME, type=dict)).items
        return [each for each in found if each["metadata"]["name"].startswith(name)]

    async def set_ready(self, status: str, name: str = "") -> None:
        told = {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}
        for pod in await self.pods(name):
            name = pod["metadata"]["name"]
            await self.client.patch(PODS, HOME, name, {"status": told}, subresource="status")

    async def findings(self, namespace: str = HOME) -> list[Finding]:
        """What is not well."""
        facts = await Examiner(self.client, namespace).look()
        return [finding for finding in examine(facts) if finding.severity != "ok"]


@pytest.fixture(scope="module")
def clinic(plane: ControlPlane) -> Iterator[Clinic]:
    installation = Installation(plane, HOME, {"kubeflow": {"enabled": True}, "scheduler": {"enabled": True}})
    installation.apply()
    apply(plane, [DNS])
    made = Clinic(installation)
    made.open()
    yield made
    made.close()
    installation.remove()
    plane.kubectl("delete", "service", "kube-dns", "-n", "kube-system")


def test_all_is_well(clinic: Clinic) -> None:
    arguments = ["doctor", "-n", HOME, "--kubeconfig", str(clinic.plane.kubeconfig)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "0 errors, 0 warnings" in result.stderr
    assert f"ok: the CRDs are those of version {__version__}" in result.stdout


def test_a_tenant_gets_no_false_errors(clinic: Clinic) -> None:
    """With the role edit in one namespace: what may not be seen is named, and is not said to be missing."""
    plane, account = clinic.plane, {"name": "tenant", "namespace": "default"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": account,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    apply(plane, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, binding])
    token = plane.kubectl("create", "token", "tenant", "-n", "default").stdout.strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = plane.folder / "tenant.kubeconfig"
    path.write_text(json.dumps(config))
    result = CliRunner().invoke(cli, ["doctor", "-n", HOME, "--kubeconfig", str(path)])
    assert result.exit_code == 0, result.output
    assert "0 errors, 1 warning" in result.stderr
    assert "this user may not look at: customresourcedefinitions" in result.stdout
    assert f"deployments.apps {CONTROLLER}" in result.stdout


# ---- what can be broken, and is mended again

Broken = Callable[[Clinic], contextlib.AbstractAsyncContextManager[None]]


def changed(
    resource: Resource, namespace: str | None, name: str, change: Callable[[Object], object]
) -> Broken:
    """An object is not as it should be."""

    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        before = await clinic.client.get(resource, namespace, name)
        after: Object = json.loads(json.dumps(before))
        change(after)
        await put(clinic.client, resource, namespace, after)
        yield
        await put(clinic.client, resource, namespace, before)

    return broken


async def put(client: Client, resource: Resource, namespace: str | None, obj: Object) -> None:
    """Replace the object, whatever controllers have written to it meanwhile."""
    name = obj["metadata"]["name"]

    async def is_written() -> bool:
        found = await client.get(resource, namespace, name)
        obj["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        try:
            await client.replace(resource, namespace, name, obj)
        except Conflict:
            return False
        return True

    await until(is_written)


def removed(resource: Resource, namespace: str | None, name: str) -> Broken:
    """An object is not there."""

    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        before = await clinic.client.get(resource, namespace, name)
        await clinic.client.delete(resource, namespace, name)
        await until(functools.partial(_is_gone, clinic.client, resource, namespace, name))
        yield
        for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
            before["metadata"].pop(field, None)
        before.pop("status", None)
        await clinic.client.create(resource, namespace, before)

    return broken


async def _is_gone(client: Client, resource: Resource, namespace: str | None, name: str) -> bool:
    try:
        await client.get(resource, namespace, name)
    except NotFound:
        return True
    return False


def added(*objects: tuple[Resource, str, Object]) -> Broken:
    """Something is there that makes trouble."""

    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        for resource, namespace, obj in objects:
            await clinic.client.create(resource, namespace, obj)
        yield
        for resource, namespace, obj in objects:
            await clinic.client.delete(resource, namespace, obj["metadata"]["name"])

    return broken


def no_leader(name: str) -> Broken:
    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        await clinic.rest(name)
        yield
        await clinic.lead(name)

    return broken


def stale_lease(name: str) -> Broken:
    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        await clinic.rest(name)
        spec = {"holderIdentity": "gone", "renewTime": "2020-01-01T00:00:00.000000Z"}
        await clinic.client.patch(LEASES, HOME, name, {"spec": spec})
        yield
        await clinic.client.patch(LEASES, HOME, name, {"spec": {"holderIdentity": None}})
        await clinic.lead(name)

    return broken


def not_ready(name: str) -> Broken:
    @contextlib.asynccontextmanager
    async def broken(clinic: Clinic) -> AsyncIterator[None]:
        await clinic.set_ready("False", name)
        yield
        await clinic.set_ready("True", name)

    return broken


@contextlib.asynccontextmanager
async def no_scheduler(clinic: Clinic) -> AsyncIterator[None]:
    """As after `kubectl delete deployment`, while somebody waits in a queue."""
    async with (
        removed(DEPLOYMENTS, HOME, SCHEDULER)(clinic),
        added((GROUPS, "default", lost_group()))(clinic),
    ):
        yield
    await clinic.wait_pods()
    await clinic.set_ready("True", SCHEDULER)


@contextlib.asynccontextmanager
async def no_webhooks(clinic: Clinic) -> AsyncIterator[None]:
    async with removed(DEPLOYMENTS, HOME, WEBHOOKS)(clinic):
        yield
    await clinic.wait_pods()
    await clinic.set_ready("True", WEBHOOKS)


def without(name: str) -> Callable[[Object], None]:
    """A configuration that lacks a webhook."""

    def change(configuration: Object) -> None:
        configuration["webhooks"] = [each for each in configuration["webhooks"] if each["name"] != name]

    return change


def weaker(name: str, **fields: Any) -> Callable[[Object], None]:
    """A configuration in which a webhook is asked less."""

    def change(configuration: Object) -> None:
        (webhook,) = [each for each in configuration["webhooks"] if each["name"] == name]
        webhook.update(fields)

    return change


@contextlib.asynccontextmanager
async def mixed_images(clinic: Clinic) -> AsyncIterator[None]:
    name = (await clinic.pods(CONTROLLER))[0]["metadata"]["name"]

    def set_image(pod: Object) -> None:
        pod["spec"]["containers"][0]["image"] = "bireme/controller:older"

    async with changed(PODS, HOME, name, set_image)(clinic):
        yield


@contextlib.asynccontextmanager
async def unreachable(clinic: Clinic) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for resource in CONFIGURATIONS:
            await stack.enter_async_context(changed(resource, None, WEBHOOKS, _point_nowhere)(clinic))
        yield


def _point_nowhere(configuration: Object) -> None:
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["url"] = "https://127.0.0.1:1/nowhere"


def _set_bundle(configuration: Object) -> None:
    other = make_authority(datetime.now(UTC))
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other.certificates).decode()


def _set_ended(secret: Object) -> None:
    old = make_authority(datetime.now(UTC) - timedelta(days=100), timedelta(days=1))
    secret["data"]["ca.crt"] = base64.b64encode(old.certificates).decode()


def _drop_field(crd: Object) -> None:
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["priority"]


def _label(key: str, value: str) -> Callable[[Object], None]:
    return lambda obj: obj["metadata"]["labels"].update({key: value})


def other_operator() -> Object:
    labels = {"app": "mpi-operator"}
    container = {"name": "mpi-operator", "image": "registry.example/mpi-operator:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}, "spec": spec}


def lost_group() -> Object:
    spec = {"minMember": 1, "queue": "nowhere"}
    kind = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup"}
    return {**kind, "metadata": {"name": "lost"}, "spec": spec}


def closed_policy() -> Object:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return {**kind, "metadata": {"name": "closed"}, "spec": spec}


_NARROWER: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "one"}}}
CRD = POD_GROUP.crd_name
GROUPS = resource_of(POD_GROUP)
BROKEN: dict[str, tuple[Broken, set[str]]] = {
    # That CRD's webhooks can't be tried without it, so what comes of them is not judged here.
    "a CRD is missing": (removed(CRDS, None, CRD), {"crd-missing"}),
    "a CRD is somebody else's": (
        changed(CRDS, None, CRD, _label("app.kubernetes.io/name", "other")),
        {"crd-foreign"},
    ),
    "a CRD is of another version": (changed(CRDS, None, CRD, _drop_field), {"crd-differs"}),
    "a binding is missing": (removed(CLUSTER_ROLE_BINDINGS, None, CONTROLLER), {"permission-missing"}),
    "a role lacks a rule": (
        changed(CLUSTER_ROLES, None, "bireme-kubeflow-launcher", lambda role: role["rules"].pop()),
        {"permission-missing"},
    ),
    "webhooks are not registered": (removed(CONFIGURATIONS[1], None, WEBHOOKS), {"webhooks-missing"}),
    "webhooks can't be reached": (unreachable, {"webhooks-unreachable"}),
    "pods are not asked about": (
        changed(CONFIGURATIONS[1], None, WEBHOOKS, without("pods.queues.bireme.dev")),
        {"queue-webhook-missing"},
    ),
    "jobs are let in without an answer": (
        changed(CONFIGURATIONS[1], None, WEBHOOKS, weaker("jobs.queues.bireme.dev", failurePolicy="Ignore")),
        {"queue-webhook-changed"},
    ),
    "groups of one namespace alone are asked about": (
        changed(CONFIGURATIONS[1], None, WEBHOOKS, weaker("podgroups.queues.bireme.dev", **_NARROWER)),
        {"queue-webhook-changed"},
    ),
    "nobody fills in defaults": (
        changed(CONFIGURATIONS[0], None, WEBHOOKS, weaker("default.bireme.dev", **_NARROWER)),
        {"webhook-changed"},
    ),
    "the API server trusts another authority": (
        changed(CONFIGURATIONS[0], None, WEBHOOKS, _set_bundle),
        {"certificate-not-trusted"},
    ),
    "the authority has ended": (changed(SECRETS, HOME, WEBHOOKS, _set_ended), {"certificate-ended"}),
    "there is no certificate": (
        changed(SECRETS, HOME, WEBHOOKS, lambda secret: secret["data"].pop("ca.crt")),
        {"certificate-missing"},
    ),
    "nobody renews the lease": (stale_lease(CONTROLLER), {"lease-stale"}),
    "nobody has the lease": (no_leader(CONTROLLER), {"no-leader"}),
    "no pod is ready": (not_ready(CONTROLLER), {"controller-not-ready"}),
    "no pod of the scheduler is ready": (not_ready(SCHEDULER), {"scheduler-not-ready"}),
    "no pod of the webhooks is ready": (not_ready(WEBHOOKS), {"webhook-server-not-ready"}),
    "the webhooks are gone": (no_webhooks, {"webhook-server-missing"}),
    "the webhooks may not ask who may use a queue": (
        removed(CLUSTER_ROLE_BINDINGS, None, WEBHOOKS),
        {"webhook-server-permission-missing"},
    ),
    "nobody renews the scheduler's lease": (stale_lease(SCHEDULER), {"scheduler-lease-stale"}),
    "nobody has the scheduler's lease": (no_leader(SCHEDULER), {"scheduler-no-leader"}),
    "the scheduler may not bind": (
        removed(CLUSTER_ROLE_BINDINGS, None, SCHEDULER),
        {"scheduler-permission-missing"},
    ),
    "the scheduler is of another version": (
        changed(DEPLOYMENTS, HOME, SCHEDULER, _label("app.kubernetes.io/version", "0.0.1")),
        {"scheduler-version-differs"},
    ),
    "the scheduler is gone": (no_scheduler, {"scheduler-missing", "queue-missing", "no-scheduler"}),
    "pods are of different versions": (mixed_images, {"controller-versions"}),
    "the controller is of another version": (
        changed(DEPLOYMENTS, HOME, CONTROLLER, _label("app.kubernetes.io/version", "0.0.1")),
        {"version-differs"},
    ),
    "another operator runs": (added((DEPLOYMENTS, "default", other_operator())), {"other-operator"}),
    "a queue is not there": (added((GROUPS, "default", lost_group())), {"queue-missing"}),
    "there is no DNS": (removed(SERVICES, "kube-system", "kube-dns"), {"no-dns"}),
    "a policy closes a namespace": (
        added(
            (NETWORK_POLICIES, "default", closed_policy()), (GENERIC_JOBS, "default", generic("somebodys"))
        ),
        {"network-closed"},
    ),
}


OFTEN = (
    "a CRD is of another version",
    "a binding is missing",
    "a role lacks a rule",
    "webhooks can't be reached",
    "pods are not asked about",
    "groups of one namespace alone are asked about",
    "the API server trusts another authority",
    "the authority has ended",
    "no pod of the webhooks is ready",
    "the webhooks are gone",
    "the webhooks may not ask who may use a queue",
    "nobody renews the lease",
    "no pod is ready",
    "nobody renews the scheduler's lease",
    "the scheduler may not bind",
    "the scheduler is gone",
    "another operator runs",
    "a queue is not there",
)
"""The others need the same code, and are tried in the heavy tier."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.long]) for name in BROKEN]
)
def test_what_is_broken_is_found_and_nothing_else(clinic: Clinic, name: str) -> None:
    broken, expected = BROKEN[name]

    async def look() -> None:
        found: list[Finding] = []

        async def is_found() -> bool:
            """What is broken, and what was before, is seen by the API server itself after a moment only."""
            nonlocal found
            found = await clinic.findings()
            return {finding.check for finding in found} == expected

        async with broken(clinic):
            try:
                await until(is_found)
            except TimeoutError:
                pytest.fail(f"found {found}")
        assert all(finding.fix for finding in found)

    clinic.run(look())


def test_a_namespace_without_a_controller_is_named(clinic: Clinic) -> None:
    found = clinic.run(clinic.findings("default"))
    assert {"controller-missing", "no-leader"} <= {finding.check for finding in found}


def test_what_is_broken_is_told_with_its_remedy_and_an_exit_status(clinic: Clinic) -> None:
    arguments = ["doctor", "-n", "default", "--kubeconfig", str(clinic.plane.kubeconfig)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 1
    assert "error: there is no Deployment bireme-controller in the namespace default" in result.stdout
    assert "hint: name its namespace with -n" in result.stdout


def test_a_cluster_that_can_not_be_reached_is_said_so(clinic: Clinic) -> None:
    config = json.loads(clinic.plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = clinic.plane.folder / "nowhere.kubeconfig"
    path.write_text(json.dumps(config))
    result = CliRunner().invoke(cli, ["doctor", "--kubeconfig", str(path)], catch_exceptions=False)
    assert result.exit_code == 3
    assert "hint: " in result.stderr
