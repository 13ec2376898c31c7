"""`bireme controller` as a process: it starts, serves, stops cleanly, and can be killed at any moment."""

import asyncio
import os
import random
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from bireme.kube.errors import ApiError
from bireme.kube.resources import LEASES, PODS
from support.cluster_process import cluster_process, get
from support.cluster_world import World, new_world, until
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT = Path(__file__).parents[2]
KILLS = 100 if os.environ.get("BIREME_LONG") else 8
COUNTED = (
    "controller_runtime_reconcile_total", "workqueue_depth", "rest_client_requests_total",
    "bireme_jobs", "bireme_job_start_seconds_count", "leader_election_master_status",
)  # fmt: skip
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1", "command": ["x"]}]}}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        control_plane.kubectl("apply", "-f", str(crd))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    return control_plane


def controller(
    plane: ControlPlane, namespace: str, *options: str
) -> AbstractContextManager[tuple[subprocess.Popen[str], int]]:
    return cluster_process(plane, "controller", "-n", namespace, *options)


async def wait_ready(port: int) -> None:
    async def ready() -> bool:
        return (await asyncio.to_thread(get, port, "/readyz"))[0] == 200

    await until(ready)


def generic(name: str, replicas: int = 2, limit: int = 5) -> dict[str, Any]:
    replica = {
        "type": "worker",
        "replicas": replicas,
        "restartPolicy": {"policy": "OnFailure", "limit": limit},
        "template": TEMPLATE,
    }
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [replica]},
    }


def test_it_serves_health_and_metrics_and_gives_its_lease_back_on_sigterm(cluster: ControlPlane) -> None:
    async def scene(world: World) -> None:
        with controller(cluster, world.namespace) as (process, port):
            await wait_ready(port)
            job = generic("job")
            await world.create(job)
            await world.wait_pods("job-worker-0", "job-worker-1")
            await world.run()
            await world.wait_phase(job, "Running")

            async def all_is_counted() -> bool:
                """What a pass has come to is counted at its very end, after its status can be seen."""
                status, text = await asyncio.to_thread(get, port, "/metrics")
                return status == 200 and all(f"\n{name}" in text for name in COUNTED)

            await until(all_is_counted)
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.to_thread(process.communicate, None, 120)
            assert process.returncode == 0, log
            assert "Traceback" not in log
            lease = await world.client.get(LEASES, world.namespace, "bireme-controller")
            assert not lease["spec"].get("holderIdentity")

    play(cluster, "process", scene)


def play(cluster: ControlPlane, namespace: str, scene: Any) -> None:
    async def main() -> None:
        async with new_world(cluster, namespace) as world:
            await scene(world)

    asyncio.run(main())


class Kubelet:
    """Runs every pod of a namespace; the first few attempts of some of them fail."""

    def __init__(self, world: World, failures: dict[str, int]) -> None:
        self._world = world
        self._left = dict(failures)
        self.ends: dict[str, list[str]] = {}

    async def run(self) -> None:
        while True:
            for name, pod in (await self._world.pods()).items():
                await self._tend(name, pod)
            await asyncio.sleep(0.05)

    async def _tend(self, name: str, pod: dict[str, Any]) -> None:
        phase = pod["status"].get("phase")
        uid = pod["metadata"]["uid"]
        try:
            if phase == "Pending":
                await self._world.run(name)
            elif phase == "Running" and uid not in self.ends.get(name, ()):
                failing = self._left.get(name, 0) > 0
                await self._world.finish(name, 1 if failing else 0)
                self._left[name] = self._left.get(name, 0) - 1
                self.ends.setdefault(name, []).append(uid)
        except ApiError:
            # The pod was replaced in between; the next round sees the new one.
            return


def test_killed_at_random_moments_every_job_still_ends_right(cluster: ControlPlane) -> None:
    """Restarts are charged once each, no pod is made twice, and every job comes to its end."""
    moments = random.Random(7)

    async def scene(world: World) -> None:
        jobs = [generic(f"job-{index}") for index in range(6)]
        failures = {"job-0-worker-0": 2, "job-3-worker-1": 1}
        kubelet = Kubelet(world, failures)
        tending = asyncio.create_task(kubelet.run())
        for kill in range(KILLS):
            with controller(cluster, world.namespace, "--no-leader-elect") as (process, _):
                if kill < len(jobs):
                    await world.create(jobs[kill])
                await asyncio.sleep(moments.uniform(0.2, 1.5))
                process.kill()
        with controller(cluster, world.namespace, "--no-leader-elect"):
            for job in jobs:
                done = await world.wait_phase(job, "Succeeded")
                for record in done["status"]["tasks"][0]["replicas"]:
                    expected = failures.get(record["name"], 0)
                    assert record.get("restarts", 0) == expected, record
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        assert all(len(uids) == failures.get(name, 0) + 1 for name, uids in kubelet.ends.items())
        assert len((await world.client.list(PODS, world.namespace, type=dict)).items) == 12

    play(cluster, "killed", scene)
