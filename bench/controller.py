"""How fast the controller brings jobs into being, beside the bare limit of the same API server.

The bare limit is a loop that posts the same objects, Events and statuses with the same client and does
nothing else. There are no nodes: nothing runs, and the time until all children exist is measured.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.measurement import BIN, Result

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

LIMIT = 2.0
CONCURRENCY = 64
SELECTOR = "app.kubernetes.io/managed-by=bireme"


class Shape(NamedTuple):
    """How many jobs of how many pods each."""

    jobs: int
    pods: int

    @property
    def name(self) -> str:
        return f"{self.jobs:,} jobs × {self.pods:,} pods"


class Run(NamedTuple):
    """What one run took."""

    seconds: float
    calls_per_job: float = 0.0
    rss_mb: float = 0.0
    cpu_ms_per_job: float = 0.0


def _job(name: str, pods: int) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "mpi-worker", "image": "registry.example/x:1"}]}}
    worker = {"replicas": pods - 1, "cmd": ["./x"], "template": template}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"worker": worker, "runPolicy": {"cleanUpWorkers": "all"}},
    }


async def _post(client: Any, namespace: str, bodies: list[tuple[Any, dict[str, Any]]]) -> None:
    """Create all of them, so many at a time."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def one(resource: Any, body: dict[str, Any]) -> None:
        async with limit:
            await client.create(resource, namespace, body)

    await asyncio.gather(*(one(resource, body) for resource, body in bodies))


async def _bare(client: Any, namespace: str, shape: Shape) -> Run:
    """Post what the controller would, in its order, and write two statuses and one Event per job."""
    from datetime import UTC, datetime

    import msgspec

    from bireme.api.kinds import MPI_JOB
    from bireme.control.keys import generate_keys
    from bireme.kube.resources import resource_for, resource_of
    from bireme.planning import Observed, plan
    from bireme.planning.actions import Create

    resource = resource_of(MPI_JOB)
    jobs = [_job(f"bare-{index}", shape.pods) for index in range(shape.jobs)]
    await _post(client, namespace, [(resource, job) for job in jobs])
    limit = asyncio.Semaphore(max(1, CONCURRENCY // 8) if shape.jobs > 1 else 1)
    prepared = []
    for job in jobs:
        stored = await client.get(resource, namespace, job["metadata"]["name"])
        typed: Any = msgspec.convert(stored, MPI_JOB.struct)
        made = plan(Observed(typed, keys=generate_keys()), datetime.now(UTC).replace(microsecond=0))
        children = [action.object for action in made.actions if isinstance(action, Create)]
        prepared.append((stored, children, msgspec.to_builtins(made.status)))

    async def one(stored: dict[str, Any], children: list[dict[str, Any]], status: dict[str, Any]) -> None:
        async with limit:
            await _post(client, namespace, [(resource_for(child["kind"]), child) for child in children])
            body = {**stored, "status": status}
            reply = await client.replace(
                resource, namespace, stored["metadata"]["name"], body, subresource="status"
            )
            reply["status"]["observedGeneration"] = 2
            await client.replace(resource, namespace, stored["metadata"]["name"], reply, subresource="status")

    start = time.perf_counter()
    await asyncio.gather(*(one(*item) for item in prepared))
    return Run(time.perf_counter() - start)


async def _ours(client: Any, plane: Any, namespace: str, shape: Shape) -> Run:
    """Start the controller, then create the jobs at once, and wait for the last pod and status."""
    from bireme.api.kinds import MPI_JOB
    from bireme.kube.resources import PODS, resource_of

    resource = resource_of(MPI_JOB)
    log = Path(tempfile.mkstemp(prefix="bireme-bench-")[1])
    command = [
        str(BIN / "bireme"), "controller", "--kubeconfig", str(plane.kubeconfig), "-n", namespace,
        "--no-leader-elect", "--health-port", "0",
    ]  # fmt: skip
    with log.open("w") as stream:
        process = subprocess.Popen(command, stderr=stream)
    try:
        await asyncio.to_thread(_wait_in_step, log)
        before = _cpu_seconds(process.pid)
        start = time.perf_counter()
        await _post(client, namespace, [(resource, _job(f"ours-{i}", shape.pods)) for i in range(shape.jobs)])
        wanted = shape.jobs * shape.pods
        while True:
            listing = await client.list(PODS, namespace, label_selector=SELECTOR, type=_Nothing)
            if len(listing.items) >= wanted:
                break
            await asyncio.sleep(0.1)
        seconds = time.perf_counter() - start
        await asyncio.sleep(2)
        cpu = (_cpu_seconds(process.pid) - before) * 1000 / shape.jobs
        return Run(seconds, rss_mb=_rss_mb(process.pid), cpu_ms_per_job=cpu)
    finally:
        process.terminate()
        process.wait(20)
        log.unlink()


def _wait_in_step(log: Path) -> None:
    for _ in range(600):
        if "in step" in log.read_text():
            return
        time.sleep(0.05)
    raise TimeoutError(log.read_text()[-2000:])


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class _Nothing:
    """Set below: a struct that decodes nothing but metadata."""


async def _measure(plane: Any, shape: Shape, index: int) -> tuple[Run, Run]:
    from support.cluster_world import connect

    async with connect(plane) as client:
        for name in (f"bare-{index}", f"ours-{index}"):
            plane.kubectl("create", "namespace", name)
            plane.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
        bare = await _bare(client, f"bare-{index}", shape)
        plane.kubectl("delete", "namespace", f"bare-{index}", "--wait=false")
        ours = await _ours(client, plane, f"ours-{index}", shape)
        plane.kubectl("delete", "namespace", f"ours-{index}", "--wait=false")
    return bare, ours


def measure(shapes: tuple[Shape, ...] = (Shape(500, 9), Shape(1, 1000))) -> list[Result]:
    """The controller's time as a multiple of the bare limit, shape by shape."""
    from bireme.api.core import Slice
    from bireme.api.meta import ObjectMeta
    from support.control_plane import ControlPlane

    class OnlyMetadata(Slice, frozen=True):
        metadata: ObjectMeta = ObjectMeta()

    globals()["_Nothing"] = OnlyMetadata
    plane = ControlPlane()
    plane.start()
    results = []
    try:
        for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
            plane.kubectl("apply", "-f", str(crd))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        for index, shape in enumerate(shapes):
            bare, ours = asyncio.run(_measure(plane, shape, index))
            note = (
                f"{ours.seconds:.1f} s against {bare.seconds:.1f} s; "
                f"RSS {ours.rss_mb:.0f} MB, {ours.cpu_ms_per_job:.1f} ms CPU per job"
            )
            results.append(
                Result(
                    f"controller ÷ bare limit, {shape.name}", ours.seconds / bare.seconds, LIMIT, "×", note
                )
            )
    finally:
        plane.stop()
    return results


if __name__ == "__main__":
    for shape_result in measure():
        print(json.dumps(shape_result._asdict()))
