"""Gathers the facts of an installation from a cluster. Reads only; a dry run is the most that it writes."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

from bireme import __version__
from bireme.api.kinds import GENERIC_JOB, JOB_KINDS, KINDS, POD_GROUP, QUEUE
from bireme.control.webhooks.certificates import host_names, is_trusted, read_certificates
from bireme.control.webhooks.queues import REVIEWS
from bireme.installation.checkup.facts import (
    Certificate,
    Component,
    Facts,
    Layout,
    Object,
    Permission,
    layout_of,
)
from bireme.installation.checkup.permissions import needed, needed_by_scheduler, needed_by_webhooks
from bireme.installation.expressions import World, resolve
from bireme.installation.names import CONTROLLER, SCHEDULER, WEBHOOKS, cluster_name, selector
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from bireme.kube.errors import ApiError, Forbidden, NotFound
from bireme.kube.resources import (
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
    resource_of,
)

CONFIGURATIONS: Final = (
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
    ),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
    ),
)
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_AT_ONCE: Final = 16
_LEASE_PATIENCE_SECONDS: Final = 5.0
_OTHER_OPERATORS: Final = ("mpi-operator", "training-operator")
_SCHEDULERS: Final = ("bireme-scheduler", "t9k-scheduler")
_WRONG: Final = {"spec": {"containers": [{"name": "a", "imag": "b"}]}}
"""A pod template that the CRD's schema takes, and admission does not."""


class Examiner:
    """Looks at one cluster; what it may not see it takes note of."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._unseen: list[str] = []

    async def look(self) -> Facts:
        """Everything that a checkup wants to know. Raises KubeError where the cluster can't be reached."""
        crds = await self._crds()
        deployment = await self._get(DEPLOYMENTS, self._namespace, CONTROLLER)
        server = await self._get(DEPLOYMENTS, self._namespace, WEBHOOKS)
        layout = layout_of(
            deployment,
            server,
            webhooks=await self._has(WEBHOOKS),
            scheduler=await self._has(SCHEDULER),
        )
        controller, webhooks, scheduler = await asyncio.gather(
            self._component(CONTROLLER, needed(layout, self._namespace)),
            self._if(
                layout.webhooks, WEBHOOKS, needed_by_webhooks(layout, self._namespace), takes_turns=False
            ),
            self._if(layout.scheduler, SCHEDULER, needed_by_scheduler(self._namespace)),
        )
        configurations = await self._configurations(layout)
        used = await self._used_queues(crds)
        deployments = await self._list(DEPLOYMENTS, None)
        certificate = await self._certificate(configurations, own=layout.own_certificates)
        answer = await self._probe(layout) if layout.webhooks and server else ""
        queues = frozenset(each["metadata"]["name"] for each in await self._list_kind(QUEUE, crds))
        has_dns = await self._has_dns()
        closed = await self._closed_namespaces(crds)
        endpoints = await self._endpoints(configurations)
        not_ready = await self._nodes_not_ready()
        return Facts(
            self._namespace,
            __version__,
            utc_now(),
            crds,
            controller,
            scheduler,
            webhooks,
            configurations,
            certificate,
            answer,
            tuple(_named(deployments, _OTHER_OPERATORS)),
            queues,
            used,
            bool(list(_named(deployments, _SCHEDULERS))),
            has_dns,
            closed,
            tuple(dict.fromkeys(self._unseen)),
            endpoints,
            not_ready,
        )

    # ---- asking

    async def _get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        try:
            return await self._client.get(resource, namespace, name)
        except NotFound:
            return None
        except Forbidden:
            self._unseen.append(f"{resource.full_name} {name}")
            return None

    async def _list(
        self, resource: Resource, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]:
        chosen = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        try:
            return (await self._client.list(resource, namespace, type=dict, label_selector=chosen)).items
        except NotFound:
            return []
        except Forbidden:
            self._unseen.append(resource.full_name)
            return []

    async def _list_kind(self, kind: Any, crds: dict[str, Object | None]) -> list[Object]:
        if crds.get(kind.crd_name) is None:
            return []
        return await self._list(resource_of(kind), None)

    async def _crds(self) -> dict[str, Object | None]:
        return {kind.crd_name: await self._get(CRDS, None, kind.crd_name) for kind in KINDS}

    async def _has(self, name: str) -> bool:
        """Whether this installation has a component: its account stays if its Deployment is deleted."""
        found = await self._get(DEPLOYMENTS, self._namespace, name)
        return (found or await self._get(SERVICE_ACCOUNTS, self._namespace, name)) is not None

    async def _if(
        self, is_there: bool, name: str, wanted: Sequence[Permission], *, takes_turns: bool = True
    ) -> Component | None:
        return await self._component(name, wanted, takes_turns=takes_turns) if is_there else None

    async def _component(
        self, name: str, wanted: Sequence[Permission], *, takes_turns: bool = True
    ) -> Component:
        labels = selector(name.removeprefix("bireme-"))
        lease, moves = await self._lease(name) if takes_turns else (None, False)
        return Component(
            name,
            await self._get(DEPLOYMENTS, self._namespace, name),
            tuple(await self._list(PODS, self._namespace, labels)),
            lease,
            takes_turns,
            moves,
            await self._denied(name, wanted),
        )

    async def _lease(self, name: str) -> tuple[Object | None, bool]:
        """The lease, and whether it is renewed while we look, which clocks that differ can't hide."""
        lease = await self._get(LEASES, self._namespace, name)
        if not (lease or {}).get("spec", {}).get("holderIdentity"):
            return lease, False
        assert lease is not None
        waited = 0.0
        while waited < _LEASE_PATIENCE_SECONDS:
            await self._client.clock.sleep(0.5)
            waited += 0.5
            again = await self._get(LEASES, self._namespace, name)
            if again is not None and again["spec"].get("renewTime") != lease["spec"].get("renewTime"):
                return again, True
        return lease, False

    async def _denied(self, account: str, wanted: Sequence[Permission]) -> tuple[Permission, ...] | None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def ask(permission: Permission) -> bool:
            async with gate:
                return await self._is_allowed(account, permission)

        try:
            answers = await asyncio.gather(*map(ask, wanted))
        except Forbidden:
            self._unseen.append(f"the permissions of the account {account}")
            return None
        return tuple(permission for permission, allowed in zip(wanted, answers, strict=True) if not allowed)

    async def _is_allowed(self, account: str, permission: Permission) -> bool:
        user = f"system:serviceaccount:{self._namespace}:{account}"
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{self._namespace}",
            "system:authenticated",
        ]
        resource, _, subresource = permission.resource.partition("/")
        attributes = {
            "verb": permission.verb,
            "group": permission.group,
            "resource": resource,
            "subresource": subresource,
            "name": permission.name,
            "namespace": permission.namespace,
        }
        spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
        body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind, "spec": spec}
        review = await self._client.create(REVIEWS, None, body)
        return bool((review.get("status") or {}).get("allowed"))

    # ---- webhooks

    async def _configurations(self, layout: Layout) -> tuple[Object | None, ...]:
        world = World({"watchNamespace": layout.watched}, self._namespace, "")
        name = str(resolve(cluster_name(WEBHOOKS), world))
        return tuple([await self._get(resource, None, name) for resource in CONFIGURATIONS])

    async def _certificate(
        self, configurations: tuple[Object | None, ...], *, own: bool
    ) -> Certificate | None:
        """Look at our authority, which signs what is served, or at what somebody else has issued."""
        secret = await self._get(SECRETS, self._namespace, WEBHOOKS)
        pem = base64.b64decode(((secret or {}).get("data") or {}).get("ca.crt" if own else "tls.crt") or "")
        chain = read_certificates(pem)
        if not chain:
            return None
        bundles = [
            base64.b64decode(webhook["clientConfig"].get("caBundle") or "")
            for configuration in configurations
            for webhook in (configuration or {}).get("webhooks") or ()
        ]
        # Others' authorities may sign through one between, which then stands behind the certificate. Our
        # authority is signed by itself; of two in a Secret, the first is the one that signs.
        signed = chain[:1] if own else chain
        trusted = tuple(any(is_trusted(each, bundle) for each in signed) for bundle in bundles)
        return Certificate(
            chain[0].not_valid_after_utc, None if own else tuple(host_names(chain[0])), trusted
        )

    async def _probe(self, layout: Layout) -> str:
        """Offer, without effect, a job that must be refused; where it is not, something that tells why."""
        place = layout.watched or self._namespace
        replica = {"type": "worker", "template": _WRONG}
        job = {
            "apiVersion": GENERIC_JOB.api_version,
            "kind": GENERIC_JOB.kind,
            "metadata": {"name": "bireme-doctor"},
            "spec": {"replicaSpecs": [replica]},
        }
        answer = await self._offer(resource_of(GENERIC_JOB), place, job)
        if answer != "accepted":
            return answer
        # Nobody lets this one in without an answer, so the API server says why there is none.
        group = {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": {"name": "bireme-doctor"},
            "spec": {"minMember": 1},
        }
        second = await self._offer(resource_of(POD_GROUP), place, group)
        return "accepted" if second in ("accepted", "refused") else second

    async def _offer(self, resource: Resource, namespace: str, body: Object) -> str:
        try:
            await self._client.create(resource, namespace, body, dry_run=True)
        except ApiError as error:
            is_ours = "bireme.dev" in error.message and "denied the request" in error.message
            return "refused" if is_ours else error.message
        return "accepted"

    async def _endpoints(self, configurations: tuple[Object | None, ...]) -> int | None:
        """Count the ready endpoints of the Service that the webhooks are called by."""
        clients = [
            webhook["clientConfig"]
            for configuration in configurations
            for webhook in (configuration or {}).get("webhooks") or ()
        ]
        if not any(client.get("service") for client in clients):
            return None
        slices = await self._list(ENDPOINT_SLICES, self._namespace, {_SERVICE_NAME: WEBHOOKS})
        if ENDPOINT_SLICES.full_name in self._unseen:
            return None
        # The Service selects all our pods; those without the port `webhooks` are in slices without ports.
        served = [each for each in slices if each.get("ports")]
        endpoints = [endpoint for each in served for endpoint in each.get("endpoints") or ()]
        return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)

    # ---- what else is there

    async def _has_dns(self) -> bool:
        """Whether a Service of the cluster's DNS was found, or may be there."""
        found = await self._list(SERVICES, "kube-system", {"k8s-app": "kube-dns"})
        return bool(found) or SERVICES.full_name in self._unseen

    async def _nodes_not_ready(self) -> tuple[str, ...]:
        return tuple(
            node["metadata"]["name"] for node in await self._list(NODES, None) if not _is_ready_node(node)
        )

    async def _used_queues(self, crds: dict[str, Object | None]) -> frozenset[str]:
        groups = await self._list_kind(POD_GROUP, crds)
        return frozenset(str(each["spec"].get("queue") or "default") for each in groups)

    async def _closed_namespaces(self, crds: dict[str, Object | None]) -> tuple[str, ...]:
        busy = {
            job["metadata"]["namespace"] for kind in JOB_KINDS for job in await self._list_kind(kind, crds)
        }
        policies = await self._list(NETWORK_POLICIES, None)
        closed = {each["metadata"]["namespace"] for each in policies if _lets_nothing_in(each["spec"])}
        opened = {each["metadata"]["namespace"] for each in policies if each["spec"].get("ingress")}
        return tuple(sorted(busy & closed - opened))


def _named(deployments: list[Object], words: tuple[str, ...]) -> list[str]:
    """Deployments whose name or image holds one of the words."""
    found = []
    for each in deployments:
        metadata = each["metadata"]
        images = [c.get("image", "") for c in each["spec"]["template"]["spec"]["containers"]]
        if any(word in text for word in words for text in (metadata["name"], *images)):
            found.append(f"{metadata['namespace']}/{metadata['name']}")
    return found


def _is_ready_node(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _lets_nothing_in(spec: Object) -> bool:
    selects_all = not any((spec.get("podSelector") or {}).values())
    return selects_all and "Ingress" in (spec.get("policyTypes") or ()) and not spec.get("ingress")
