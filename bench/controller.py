"""How fast the controller brings jobs into being, beside the bare limit of the same API server.

The bare limit is a loop that posts the same objects, Events and statuses with the same client and does
nothing else. There are no nodes: nothing runs, and the time until all children exist is measured.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import cache
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


Make = Callable[[str, int], dict[str, Any]]


def _generic_job(name: str, pods: int) -> dict[str, Any]:
    """A job with no children but its pods, for runs of very many jobs."""
    template = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1"}]}}
    replica = {"type": "worker", "replicas": pods, "template": template}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [replica]},
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
    from bireme.planning.actions import Create, CreatePod

    resource = resource_of(MPI_JOB)
    jobs = [_job(f"bare-{index}", shape.pods) for index in range(shape.jobs)]
    await _post(client, namespace, [(resource, job) for job in jobs])
    limit = asyncio.Semaphore(max(1, CONCURRENCY // 8) if shape.jobs > 1 else 1)
    prepared = []
    for job in jobs:
        stored = await client.get(resource, namespace, job["metadata"]["name"])
        typed: Any = msgspec.convert(stored, MPI_JOB.struct)
        made = plan(Observed(typed, keys=generate_keys()), datetime.now(UTC).replace(microsecond=0))
        children = [action.object for action in made.actions if isinstance(action, Create | CreatePod)]
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


async def _ours(client: Any, plane: Any, namespace: str, shape: Shape, make: Make = _job) -> Run:
    """Start the controller, then create the jobs at once, and wait for the last pod and status."""
    from bireme.kube.resources import PODS, resource_for

    jobs = [make(f"ours-{index}", shape.pods) for index in range(shape.jobs)]
    resource = resource_for(jobs[0]["kind"], jobs[0]["apiVersion"])
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
        await _post(client, namespace, [(resource, job) for job in jobs])
        await _wait_pods(client, PODS, namespace, shape.jobs * shape.pods, SELECTOR)
        seconds = time.perf_counter() - start
        await asyncio.sleep(2)
        cpu = (_cpu_seconds(process.pid) - before) * 1000 / shape.jobs
        return Run(seconds, rss_mb=_rss_mb(process.pid), cpu_ms_per_job=cpu)
    finally:
        process.terminate()
        process.wait(20)
        log.unlink()


PEER_LIFTED = (
    "--kube-api-qps=10000", "--kube-api-burst=10000", "--controller-queue-rate-limit=10000",
    "--controller-queue-burst=10000", "--threadiness=32",
)  # fmt: skip


def _peer_job(name: str, pods: int) -> dict[str, Any]:
    """The same shape in the API of mpi-operator."""
    template = {"spec": {"containers": [{"name": "main", "image": "registry.example/x:1"}]}}
    specs = {
        "Launcher": {"replicas": 1, "template": template},
        "Worker": {"replicas": pods - 1, "template": template},
    }
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


async def _peer(client: Any, plane: Any, namespace: str, shape: Shape, flags: tuple[str, ...]) -> Run:
    """mpi-operator on the same API server; launcher pods come from the Jobs that it creates."""
    from bench import peers
    from bireme.kube.resources import PODS, Resource

    resource = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
    program = peers.build("mpi-operator", f"{peers.MPI_OPERATOR}/cmd/mpi-operator")
    command = [str(program), f"--kubeConfig={plane.kubeconfig}", f"--namespace={namespace}", *flags]
    process = subprocess.Popen(
        [*command, f"--lock-namespace={namespace}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await asyncio.sleep(8)
        before = _cpu_seconds(process.pid)
        start = time.perf_counter()
        jobs = [_peer_job(f"peer-{index}", shape.pods) for index in range(shape.jobs)]
        await _post(client, namespace, [(resource, job) for job in jobs])
        await _wait_pods(client, PODS, namespace, shape.jobs * shape.pods, "")
        seconds = time.perf_counter() - start
        await asyncio.sleep(2)
        cpu = (_cpu_seconds(process.pid) - before) * 1000 / shape.jobs
        return Run(seconds, rss_mb=_rss_mb(process.pid), cpu_ms_per_job=cpu)
    finally:
        process.kill()
        process.wait(20)


async def _wait_pods(client: Any, resource: Any, namespace: str, wanted: int, selector: str) -> None:
    while True:
        listing = await client.list(resource, namespace, label_selector=selector, type=_only_metadata())
        if len(listing.items) >= wanted:
            return
        await asyncio.sleep(0.1)


@cache
def _only_metadata() -> type[Any]:
    from bireme.api.core import Slice
    from bireme.api.meta import ObjectMeta

    class OnlyMetadata(Slice, frozen=True):
        metadata: ObjectMeta = ObjectMeta()

    return OnlyMetadata


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


async def _in_namespace(plane: Any, name: str, run: Callable[[Any, str], Awaitable[Run]]) -> Run:
    """One run in a namespace of its own, which is gone before the next one starts."""
    from support.cluster_world import connect

    plane.kubectl("create", "namespace", name)
    plane.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    try:
        async with connect(plane) as client:
            return await run(client, name)
    finally:
        # So that the next run has the machine to itself; a namespace of very many pods may take longer.
        plane.kubectl("delete", "namespace", name, "--timeout=120s", timeout_seconds=140, check=False)


def _result(name: str, ours: Run, other: Run, limit: float) -> Result:
    note = (
        f"{ours.seconds:.1f} s against {other.seconds:.1f} s; "
        f"RSS {ours.rss_mb:.0f} against {other.rss_mb:.0f} MB, "
        f"CPU per job {ours.cpu_ms_per_job:.0f} against {other.cpu_ms_per_job:.0f} ms"
    )
    return Result(name, ours.seconds / other.seconds, limit, "×", note)


SHAPES = (Shape(500, 9), Shape(1, 1000))
SMALL = Shape(20, 9)
"""What the peer does at its default rate limits in about a minute."""


def measure(shapes: tuple[Shape, ...] = SHAPES, *, with_peer: bool = True) -> list[Result]:
    """The controller's time as a multiple of the bare limit and of mpi-operator's, shape by shape."""
    from support.control_plane import ControlPlane

    plane = ControlPlane()
    plane.start()
    try:
        _install(plane, with_peer=with_peer)
        return [
            result
            for index, shape in enumerate(shapes)
            for result in _compare(plane, shape, index, with_peer)
        ]
    finally:
        plane.stop()


FEW, MOST = Shape(100, 2), Shape(5000, 2)
RSS_LIMIT_MB, GROWTH_LIMIT = 150.0, 1.2


def measure_growth(few: Shape = FEW, most: Shape = MOST) -> list[Result]:
    """CPU per job from few jobs to very many, and memory with all their pods."""
    from support.control_plane import ControlPlane

    plane = ControlPlane()
    plane.start()
    try:
        _install(plane, with_peer=False)
        runs = []
        for shape in (few, most):

            async def run(client: Any, name: str, shape: Shape = shape) -> Run:
                return await _ours(client, plane, name, shape, _generic_job)

            runs.append(asyncio.run(_in_namespace(plane, f"jobs-{shape.jobs}", run)))
    finally:
        plane.stop()
    first, last = runs
    growth = last.cpu_ms_per_job / first.cpu_ms_per_job
    note = f"{last.cpu_ms_per_job:.1f} against {first.cpu_ms_per_job:.1f} ms; {last.seconds:.0f} s"
    pods = most.jobs * most.pods
    return [
        Result(f"controller CPU per job, {most.jobs:,} ÷ {few.jobs:,} jobs", growth, GROWTH_LIMIT, "×", note),
        Result(f"controller RSS with {pods:,} pods", last.rss_mb, RSS_LIMIT_MB, "MB"),
    ]


def _install(plane: Any, *, with_peer: bool) -> None:
    """Our CRDs, but for the one that the peer brings itself."""
    crds = [path for path in sorted((ROOT / "deploy/crds").glob("*.yaml")) if "kubeflow" not in path.name]
    for crd in crds:
        plane.kubectl("apply", "-f", str(crd))
    if with_peer:
        from bench import peers

        folder = peers.module_folder("mpi-operator", peers.MPI_OPERATOR)
        plane.kubectl("create", "-f", str(folder / "manifests/base/kubeflow.org_mpijobs.yaml"))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")


def _compare(plane: Any, shape: Shape, index: int, with_peer: bool) -> list[Result]:
    def run(name: str, what: Callable[[Any, str], Awaitable[Run]]) -> Run:
        return asyncio.run(_in_namespace(plane, f"{name}-{index}", what))

    bare = run("bare", lambda client, name: _bare(client, name, shape))
    ours = run("ours", lambda client, name: _ours(client, plane, name, shape))
    results = [_result(f"controller ÷ bare limit, {shape.name}", ours, bare, LIMIT)]
    if with_peer:
        lifted = run("lifted", lambda client, name: _peer(client, plane, name, shape, PEER_LIFTED))
        results.append(
            _result(f"controller ÷ mpi-operator without rate limits, {shape.name}", ours, lifted, 1.0)
        )
    if with_peer and index == 0:
        small = run("small", lambda client, name: _ours(client, plane, name, SMALL))
        default = run("default", lambda client, name: _peer(client, plane, name, SMALL, ()))
        results.append(
            _result(f"controller ÷ mpi-operator at its defaults, {SMALL.name}", small, default, 1.0)
        )
    return results


if __name__ == "__main__":
    for row in (*measure(), *measure_growth()):
        print(f"{row.name}: {row.measured:.2f} {row.unit} (limit {row.limit:g}) {row.note}", flush=True)
