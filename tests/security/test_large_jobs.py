"""A tenant's job that is as large as it may be, or larger: the controller goes on serving the others."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

from bireme.admission import default, validate
from bireme.admission.total_size import MAX_TOTAL_BYTES
from bireme.kube.resources import PODS
from support.cluster_world import connect, controller_at_work, new_world, until
from support.control_plane import ControlPlane
from support.measure import Cost

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT: Final = Path(__file__).parents[2]

MOST_LOOP_SECONDS: Final = 0.1
MOST_BYTES: Final = 100 << 20
RANKS: Final = "$(rank) " * 5


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        control_plane.kubectl("apply", "-f", str(crd))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return control_plane


def build_job(argument: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/x:1", "command": ["x", argument]}
    replica = {"type": "worker", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "large"},
        "spec": {"replicaSpecs": [replica], "cleanUpPolicy": "None"},
    }


REFUSED: Final = {
    "1 MB for each of 5,000 replicas": build_job("x" * 1_000_000 + RANKS, 5000),
    "variables that grow": build_job("$(type)" * 140_000, 5000),
    "a template of 27 KB": build_job("x" * 27_000, 5000),
}
ACCEPTED: Final = {
    "1 MB for each of 100 replicas": (build_job("x" * 1_000_000 + RANKS, 100), 100),
    "140,000 variables": (build_job("$(rank)" * 140_000, 20), 20),
    "2,000 small replicas": (build_job(RANKS, 2000), 2000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_admission_refuses_a_job_whose_pods_are_too_large_together(name: str) -> None:
    errors = [problem for problem in validate(default(REFUSED[name])) if problem.severity == "error"]
    assert [problem.rule for problem in errors] == ["too-large"]
    assert f"at most {MAX_TOTAL_BYTES >> 20} MiB" in errors[0].message


@pytest.mark.parametrize("name", REFUSED)
def test_the_controller_fails_a_refused_job_at_little_cost(plane: ControlPlane, name: str) -> None:
    """Where the webhooks are not installed, or are down."""
    job = REFUSED[name]

    async def play() -> dict[str, Any]:
        async with new_world(plane, f"large-{uuid.uuid4().hex[:8]}") as world:
            await world.create(job)
            async with connect(plane) as client, controller_at_work(client, world.namespace):
                return await world.wait_phase(job, "Failed")

    cost = Cost()
    conditions = {each["type"]: each for each in cost.run(play())["status"]["conditions"]}
    assert conditions["Failed"]["reason"] == "InvalidSpec"
    assert cost.loop_seconds < MOST_LOOP_SECONDS
    assert cost.grown_bytes < MOST_BYTES


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_controller_creates_the_pods_of_a_large_job_at_little_cost(
    plane: ControlPlane, name: str
) -> None:
    job, replicas = ACCEPTED[name]

    async def play() -> None:
        async with new_world(plane, f"large-{uuid.uuid4().hex[:8]}") as world:
            await world.create(job)
            async with connect(plane) as client, controller_at_work(client, world.namespace) as work:

                async def are_there() -> bool:
                    return bool(work.statistics()["pods"] == replicas)

                await until(are_there)
            last = await world.client.get(PODS, world.namespace, f"large-worker-{replicas - 1}")
            command = json.dumps(last["spec"]["containers"][0]["command"])
            assert "$(" not in command
            assert str(replicas - 1) in command

    cost = Cost()
    cost.run(play())
    assert cost.loop_seconds < MOST_LOOP_SECONDS
    assert cost.grown_bytes < MOST_BYTES


def test_a_controller_that_starts_lists_large_pods_in_small_pages(plane: ControlPlane) -> None:
    job, replicas, namespace = build_job("x" * 1_000_000, 110), 110, f"large-{uuid.uuid4().hex[:8]}"

    async def work_until_all_pods_are_known() -> None:
        async with connect(plane) as client, controller_at_work(client, namespace) as work:

            async def are_known() -> bool:
                return work.is_ready() and bool(work.statistics()["pods"] == replicas)

            await until(are_known)

    async def play() -> None:
        async with new_world(plane, namespace) as world:
            await world.create(job)
            await work_until_all_pods_are_known()
            await asyncio.to_thread(cost.run, work_until_all_pods_are_known())

    cost = Cost()
    asyncio.run(play())
    assert cost.grown_bytes < MOST_BYTES
