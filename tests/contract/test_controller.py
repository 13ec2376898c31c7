"""The controller against a real API server and controller-manager: all four kinds, to every end."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bireme.api.kinds import GENERIC_JOB
from bireme.kube.errors import ApiError, NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    Resource,
    resource_of,
)
from bireme.planning import Settings
from support.cluster_world import World, connect, controller_at_work, new_world, until
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT = Path(__file__).parents[2]
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
BATCH = "batch.tensorstack.dev/v1beta1"
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1", "command": ["x"]}]}}


def generic(name: str = "job", replicas: int = 2, **spec: Any) -> dict[str, Any]:
    restart = spec.pop("restartPolicy", {})
    replica = {"type": "worker", "replicas": replicas, "restartPolicy": restart, "template": TEMPLATE}
    return {
        "apiVersion": BATCH,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [replica], **spec},
    }


def mpi(name: str = "job", **spec: Any) -> dict[str, Any]:
    worker = {"replicas": 2, "cmd": ["./x"], "template": TEMPLATE}
    return {
        "apiVersion": BATCH,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"worker": worker, **spec},
    }


def colossalai(name: str = "job") -> dict[str, Any]:
    worker = {"replicas": 1, "command": ["x.py"], "template": TEMPLATE}
    return {
        "apiVersion": BATCH,
        "kind": "ColossalAIJob",
        "metadata": {"name": name},
        "spec": {"worker": worker},
    }


def kubeflow(name: str = "job", **spec: Any) -> dict[str, Any]:
    specs = {"Launcher": {"template": TEMPLATE, **spec.pop("launcher", {})}, "Worker": {"template": TEMPLATE}}
    return {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"mpiReplicaSpecs": specs, **spec},
    }


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        control_plane.kubectl("apply", "-f", str(crd))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    return control_plane


def play(
    cluster: ControlPlane, namespace: str, scene: Callable[[World], Awaitable[None]], **options: Any
) -> None:
    """Run a scene in a namespace with a controller at work."""

    async def main() -> None:
        async with (
            new_world(cluster, namespace) as world,
            connect(cluster) as client,
            controller_at_work(client, namespace, **options),
        ):
            await scene(world)

    asyncio.run(main())


def test_generic_job_succeeds(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = generic(service={"ports": [{"port": 80}]})
        await world.create(job)
        await world.wait_pods("job-worker-0", "job-worker-1")
        await world.run()
        await world.wait_phase(job, "Running")
        for name in ("job-worker-0", "job-worker-1"):
            await world.finish(name)
        done = await world.wait_phase(job, "Succeeded")
        assert done["status"]["aggregate"]["succeeded"] == 2
        assert await world.wait_event("Succeeded")

    play(cluster, "generic-succeeds", scene)


def test_generic_job_restarts_then_fails_and_names_who_failed_first(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = generic(restartPolicy={"policy": "OnFailure", "limit": 1}, cleanUpPolicy="All")
        await world.create(job)
        first = await world.wait_pods("job-worker-0", "job-worker-1")
        await world.run()
        await world.wait_phase(job, "Running")
        await world.finish("job-worker-1", 3)
        uid = first["job-worker-1"]["metadata"]["uid"]

        async def replaced() -> bool:
            pods = await world.pods()
            return "job-worker-1" in pods and pods["job-worker-1"]["metadata"]["uid"] != uid

        await until(replaced)
        await world.run("job-worker-1")
        await world.finish("job-worker-1", 4, "the very end")
        done = await world.wait_phase(job, "Failed")
        failure = done["status"]["firstFailure"]
        assert (failure["replica"], failure["exitCode"], failure["message"]) == (
            "job-worker-1",
            4,
            "the very end",
        )
        assert done["status"]["tasks"][0]["restartCount"] == 1
        await world.wait_pods()

    play(cluster, "generic-fails", scene)


@pytest.mark.parametrize(
    ("make", "workers"), [(mpi, 2), (colossalai, 1), (kubeflow, 1)], ids=["mpi", "caij", "kubeflow"]
)
@pytest.mark.parametrize("code", [0, 5], ids=["succeeds", "fails"])
def test_jobs_with_a_launcher_end_with_it(
    cluster: ControlPlane, make: Callable[[], dict[str, Any]], workers: int, code: int
) -> None:
    async def scene(world: World) -> None:
        job = make()
        await world.create(job)
        await world.wait_pods("job-launcher", *(f"job-worker-{i}" for i in range(workers)))
        await world.run()
        await world.wait_phase(job, "Running")
        await world.finish("job-launcher", code)
        await world.wait_phase(job, "Failed" if code else "Succeeded")

    play(cluster, f"{make.__name__}-{'fails' if code else 'succeeds'}", scene)


def test_pause_resume_and_debug(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = mpi()
        await world.create(job)
        names = ("job-launcher", "job-worker-0", "job-worker-1")
        await world.wait_pods(*names)
        await world.run()
        await world.wait_phase(job, "Running")
        await world.patch_job(job, {"runMode": {"pause": {"enabled": True}}})
        await world.wait_pods()
        await world.wait_job(job, _paused_reason("Stopped"), "Paused: Stopped")
        await world.patch_job(job, {"runMode": {"pause": {"enabled": False}}})
        pods = await world.wait_pods(*names)
        assert pods["job-launcher"]["metadata"]["annotations"]["bireme.dev/mode"] == "resume"
        await world.wait_phase(job, "Resuming")
        await world.run()
        await world.wait_phase(job, "Running")
        await world.patch_job(job, {"runMode": {"debug": {"enabled": True}}})

        async def debugging() -> bool:
            found = await world.pods()
            modes = {pod["metadata"]["annotations"]["bireme.dev/mode"] for pod in found.values()}
            return set(found) == set(names) and modes == {"debug"}

        await until(debugging)

    play(cluster, "pause", scene)


def _paused_reason(reason: str) -> Callable[[dict[str, Any]], bool]:
    def holds(job: dict[str, Any]) -> bool:
        conditions = {c["type"]: c for c in (job.get("status") or {}).get("conditions", ())}
        return bool(conditions.get("Paused", {}).get("reason") == reason)

    return holds


def test_a_lost_worker_restarts_the_whole_crew(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = mpi()
        await world.create(job)
        names = ("job-launcher", "job-worker-0", "job-worker-1")
        before = await world.wait_pods(*names)
        await world.run()
        await world.wait_phase(job, "Running")
        await world.evict("job-worker-1")

        async def renewed() -> bool:
            pods = await world.pods()
            return set(pods) == set(names) and all(
                pods[name]["metadata"]["uid"] != before[name]["metadata"]["uid"] for name in names
            )

        await until(renewed)
        assert (await world.job(job))["status"]["disruptions"] == 1

    play(cluster, "lost-worker", scene)


def test_deleting_a_job_leaves_nothing_behind(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        for job in (mpi("one"), generic("two", service={"ports": [{"port": 80}]}), kubeflow("three")):
            await world.create(job)
        await world.wait_pods(
            "one-launcher", "one-worker-0", "one-worker-1", "two-worker-0", "two-worker-1", "three-launcher",
            "three-worker-0",
        )  # fmt: skip
        for job in (mpi("one"), generic("two"), kubeflow("three")):
            await world.delete_job(job)
        for resource in (PODS, SERVICES, CONFIG_MAPS, SECRETS, ROLES):
            await world.wait_gone(resource)

    play(cluster, "deleted", scene)


def test_a_job_that_got_past_admission_fails_with_its_reasons(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = generic(successRules=[{"worker": [7]}])
        await world.create(job)
        done = await world.wait_phase(job, "Failed")
        conditions = {c["type"]: c for c in done["status"]["conditions"]}
        assert conditions["Failed"]["reason"] == "InvalidSpec"
        assert "successRules[0].worker[0]" in conditions["Failed"]["message"]
        assert await world.pods() == {}

    play(cluster, "invalid", scene)


def test_a_full_quota_is_said_and_survived(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-pods"},
            "spec": {"hard": {"pods": "0"}},
        }
        cluster.kubectl("-n", world.namespace, "apply", "-f", "-", input=json.dumps(quota))
        await until(lambda: _quota_is_known(world))
        job = generic()
        await world.create(job)

        await world.wait_job(job, _initialized_reason("QuotaExceeded"), "Initialized: QuotaExceeded")
        assert await world.wait_event("QuotaExceeded")
        cluster.kubectl("-n", world.namespace, "delete", "resourcequota", "no-pods")
        await world.wait_pods("job-worker-0", "job-worker-1")

    play(cluster, "quota", scene)


async def _quota_is_known(world: World) -> bool:
    quota = await world.client.get(RESOURCE_QUOTAS, world.namespace, "no-pods")
    return "hard" in (quota.get("status") or {})


def _initialized_reason(reason: str) -> Callable[[dict[str, Any]], bool]:
    def told(found: dict[str, Any]) -> bool:
        conditions = {c["type"]: c for c in (found.get("status") or {}).get("conditions", ())}
        return bool(conditions.get("Initialized", {}).get("reason") == reason)

    return told


def _refused_job(**pod: Any) -> dict[str, Any]:
    job = generic(replicas=1)
    job["spec"]["replicaSpecs"][0]["template"] = {"spec": {**TEMPLATE["spec"], **pod}}
    return job


async def _require_restricted(cluster: ControlPlane, world: World) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", world.namespace, level)


async def _require_limits(cluster: ControlPlane, world: World) -> None:
    metadata, spec = {"name": "no-pods"}, {"hard": {"limits.cpu": "8"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}
    cluster.kubectl("-n", world.namespace, "apply", "-f", "-", input=json.dumps(quota))
    await until(lambda: _quota_is_known(world))


async def _require_nothing(_cluster: ControlPlane, _world: World) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "require", "pod", "reason"),
    [
        ("pod-security", _require_restricted, {}, "PodSecurityViolation"),
        ("must-specify", _require_limits, {}, "QuotaMustSpecify"),
        ("no-account", _require_nothing, {"serviceAccountName": "absent"}, "ServiceAccountNotFound"),
    ],
)
def test_a_403_of_an_admission_plugin_is_not_said_to_be_a_lack_of_permissions(
    cluster: ControlPlane,
    name: str,
    require: Callable[[ControlPlane, World], Awaitable[None]],
    pod: dict[str, Any],
    reason: str,
) -> None:
    async def scene(world: World) -> None:
        await require(cluster, world)
        job = _refused_job(**pod)
        await world.create(job)
        await world.wait_job(job, _initialized_reason(reason), f"Initialized: {reason}")
        assert await world.wait_event(reason)

    play(cluster, name, scene)


def test_pods_that_a_policy_refuses_are_told_of_and_survived(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no-pods"},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["pods"],
                        }
                    ],
                },
                "validations": [{"expression": "false", "message": "no pods today"}],
            },
        }
        binding = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-pods"},
            "spec": {"policyName": "no-pods", "validationActions": ["Deny"]},
        }
        for obj in (policy, binding):
            cluster.kubectl("apply", "-f", "-", input=json.dumps(obj))
        try:
            await until(lambda: _is_refused(world))
            job = generic()
            await world.create(job)
            found = await world.wait_job(
                job, lambda found: "no pods today" in json.dumps(found), "the reason"
            )
            assert found["status"]["phase"] == "Pending"
        finally:
            cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-pods")
        await world.wait_pods("job-worker-0", "job-worker-1")

    play(cluster, "refused", scene)


async def _is_refused(world: World) -> bool:
    """A policy takes effect a moment after it is there."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, **TEMPLATE}
    try:
        await world.client.create(PODS, world.namespace, pod, dry_run=True)
    except ApiError:
        return True
    return False


def test_missing_permissions_are_told_of_and_survived(cluster: ControlPlane) -> None:
    """The controller may write statuses and Events, but for a while no pods."""
    if cluster.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: users are impersonated there")

    def role(name: str, rules: list[dict[str, Any]]) -> None:
        for kind, extra in (
            ("ClusterRole", {"rules": rules}),
            (
                "ClusterRoleBinding",
                {
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                    "subjects": [
                        {"kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io"}
                    ],
                },
            ),
        ):
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                **extra,
            }
            cluster.kubectl("apply", "-f", "-", input=json.dumps(body))

    read = ["get", "list", "watch"]
    groups = ["batch.tensorstack.dev", "scheduler.tensorstack.dev", "kubeflow.org"]
    role("limited-read", [
        {"apiGroups": groups, "resources": ["*"], "verbs": [*read, "update"]},
        {"apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": read},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ])  # fmt: skip

    async def main() -> None:
        kubeconfig = str(cluster.kubeconfig_for("limited", ()))
        async with (
            new_world(cluster, "no-rights") as world,
            connect(cluster, kubeconfig) as limited,
            controller_at_work(limited, "no-rights"),
        ):
            job = generic()
            await world.create(job)
            await world.wait_job(job, _initialized_reason("Forbidden"), "Initialized: Forbidden")
            assert await world.wait_event("Forbidden")
            role(
                "limited-write",
                [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "patch"]}],
            )
            await world.wait_pods("job-worker-0", "job-worker-1")

    asyncio.run(main())


def test_a_namespace_deleted_in_the_middle_takes_everything_along(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        await world.create(mpi())
        await world.create(generic("other"))
        await world.wait_pods(
            "job-launcher", "job-worker-0", "job-worker-1", "other-worker-0", "other-worker-1"
        )
        await world.client.delete(NAMESPACES, None, world.namespace)

        async def gone() -> bool:
            try:
                await world.client.get(NAMESPACES, None, world.namespace)
            except NotFound:
                return True
            return False

        await until(gone)

    play(cluster, "deleted-namespace", scene)


def test_idle_jobs_cost_no_writes(cluster: ControlPlane) -> None:
    """Jobs that run cost nothing while nothing happens: no object of the namespace gets a new version."""
    count, seconds = (200, 60) if os.environ.get("BIREME_LONG") else (10, 4)

    async def scene(world: World) -> None:
        for index in range(count):
            await world.create(generic(f"idle-{index}", replicas=1))
        await world.wait_pods(*(f"idle-{index}-worker-0" for index in range(count)))
        await world.run()
        for index in range(count):
            await world.wait_phase(generic(f"idle-{index}"), "Running")

        async def all_is_told() -> bool:
            """Events are written after the status that they tell of."""
            told = [
                each["involvedObject"]["name"] for each in await world.events() if each["reason"] == "Running"
            ]
            return len(set(told)) == count

        await until(all_is_told)
        before = await _versions(world)
        await asyncio.sleep(seconds)
        assert await _versions(world) == before

    play(cluster, "idle", scene)


async def _versions(world: World) -> dict[str, str]:
    found: dict[str, str] = {}
    for resource in (resource_of(GENERIC_JOB), PODS, SERVICES, CONFIG_MAPS, EVENTS):
        listing = await world.client.list(resource, world.namespace, type=dict)
        found |= {
            f"{resource.plural}/{o['metadata']['name']}": o["metadata"]["resourceVersion"]
            for o in listing.items
        }
    return found


def test_a_name_that_is_taken_is_said_and_survived(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-worker-1"}, **TEMPLATE}
        await world.client.create(PODS, world.namespace, pod)
        job = generic()
        await world.create(job)

        await world.wait_job(job, _initialized_reason("NameConflict"), "Initialized: NameConflict")

    play(cluster, "taken", scene)


def test_a_finished_job_costs_no_more_writes(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        job = generic(replicas=1)
        await world.create(job)
        await world.wait_pods("job-worker-0")
        await world.run()
        await world.finish("job-worker-0")
        done = await world.wait_phase(job, "Succeeded")
        await asyncio.sleep(2)
        assert (await world.job(job))["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]

    play(cluster, "no-writes", scene)


def test_two_controllers_make_no_pod_twice(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        async with connect(cluster) as client, controller_at_work(client, world.namespace):
            for index in range(5):
                await world.create(generic(f"job-{index}"))
            names = [f"job-{i}-worker-{j}" for i in range(5) for j in range(2)]
            pods = await world.wait_pods(*names)
            uids = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
            await world.run()
            for index in range(5):
                await world.wait_phase(generic(f"job-{index}"), "Running")
            assert {name: pod["metadata"]["uid"] for name, pod in (await world.pods()).items()} == uids

    play(cluster, "two-controllers", scene)


def test_each_job_has_a_network_policy_where_the_installation_asks(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        jobs = [generic("g"), mpi("m"), kubeflow("k")]
        for job in jobs:
            await world.create(job)

        async def are_there() -> bool:
            found = await world.client.list(NETWORK_POLICIES, world.namespace, type=dict)
            return {each["metadata"]["name"] for each in found.items} == {"g", "m", "k"}

        await until(are_there)
        policy = await world.client.get(NETWORK_POLICIES, world.namespace, "m")
        (owner,) = policy["metadata"]["ownerReferences"]
        own = {"matchLabels": {"bireme.dev/job-uid": owner["uid"]}}
        assert policy["spec"]["podSelector"] == own
        assert policy["spec"]["ingress"] == [{"from": [{"podSelector": own}]}]

    play(cluster, "network-policies", scene, settings=Settings(job_network_policies=True))
