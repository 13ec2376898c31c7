"""Gangs that come at once to a thousand nodes, beside kube-scheduler on the same pods without gangs.

The nodes are KWOK's, the API server is real. Both schedulers run without a limit of their own calls; the time
runs from the first object that is created until the last pod is bound.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import peers
from bench.measurement import BIN, Result

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

NODES, GANGS, GANG = 1000, 2000, 4
LIMIT = 2.0
CONCURRENCY = 64
QUEUE = "bench"
KWOK = "sigs.k8s.io/kwok"
LABEL = "scheduler.tensorstack.dev/group-name"
FLAGS = {
    "kube-apiserver": ["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"],
    "kube-scheduler": ["--kube-api-qps=10000", "--kube-api-burst=10000"],
}


class Run(NamedTuple):
    """What one run took; `cpu_seconds` are those of the scheduler alone."""

    seconds: float
    cpu_seconds: float
    rss_mb: float


def measure(nodes: int = NODES, gangs: int = GANGS) -> list[Result]:
    """Our time as a multiple of kube-scheduler's, and our pods per second."""
    from support.control_plane import START_ORDER, ControlPlane

    plane = ControlPlane()
    plane.start(START_ORDER, flags=FLAGS, deadline_seconds=180)
    try:
        for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
            plane.kubectl("apply", "-f", str(crd))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        with _kwok(plane):
            theirs, ours = asyncio.run(_both(plane, nodes, gangs))
    finally:
        plane.stop()
    pods = gangs * GANG
    what = f"{gangs:,} gangs of {GANG} on {nodes:,} nodes"
    note = (
        f"{ours.seconds:.1f} s against {theirs.seconds:.1f} s; CPU of the scheduler {ours.cpu_seconds:.1f} "
        f"against {theirs.cpu_seconds:.1f} s, RSS {ours.rss_mb:.0f} against {theirs.rss_mb:.0f} MB"
    )
    return [
        Result(
            f"scheduler ÷ kube-scheduler without gangs, {what}",
            ours.seconds / theirs.seconds,
            LIMIT,
            "×",
            note,
        ),
        Result(f"pods bound per second, {what}", pods / ours.seconds, 1, "pods/s", at_least=True),
    ]


@contextmanager
def _kwok(plane: Any) -> Iterator[None]:
    """Kubelets of all nodes, without containers."""
    program = peers.build("kwok", f"{KWOK}/cmd/kwok")
    stages = peers.module_folder("kwok", KWOK) / "kustomize/stage"
    # How nodes and pods behave. Nodes tell that they live by their leases, which KWOK renews by itself.
    files = ("node/fast/node-initialize.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml")
    command = [str(program), "--kubeconfig", str(plane.kubeconfig), "--manage-all-nodes=true"]
    command += ["--node-lease-duration-seconds=40", *(f"--config={stages / file}" for file in files)]
    with _running(command):
        yield


@contextmanager
def _running(command: list[str]) -> Iterator[tuple[int, Path]]:
    """The process' id, and what it writes."""
    with tempfile.NamedTemporaryFile(prefix="bireme-bench-") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process.pid, Path(log.name)
        finally:
            process.terminate()
            process.wait(30)


async def _both(plane: Any, nodes: int, gangs: int) -> tuple[Run, Run]:
    from support.cluster_world import connect

    async with connect(plane) as client:
        await _add_nodes(client, nodes)
        await _add_queue(client)
        pid = plane.pids["kube-scheduler"]
        theirs = await _run(plane, client, "theirs", gangs, pid)
        await _clear(plane, client, "theirs")
        command = [
            str(BIN / "bireme"), "scheduler", "--kubeconfig", str(plane.kubeconfig), "--no-leader-elect",
            "--health-port", "0",
        ]  # fmt: skip
        with _running(command) as (own_pid, log):
            await _until(lambda: _is_in_step(log))
            ours = await _run(plane, client, "ours", gangs, own_pid)
    return theirs, ours


async def _is_in_step(log: Path) -> bool:
    return "in step" in log.read_text()


async def _add_nodes(client: Any, count: int) -> None:
    from bireme.kube.resources import NODES as RESOURCE

    has = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    bodies = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:04}"},
            "status": {"allocatable": has, "capacity": has},
        }
        for number in range(count)
    ]
    await _at_once([partial(client.create, RESOURCE, None, body) for body in bodies])

    async def all_ready() -> bool:
        listed = (await client.list(RESOURCE, type=dict)).items
        return not any(each["spec"].get("taints") for each in listed) and all(map(_is_ready, listed))

    await _until(all_ready)


def _is_ready(node: dict[str, Any]) -> bool:
    found = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


async def _add_queue(client: Any) -> None:
    from bireme.api.kinds import QUEUE as KIND
    from bireme.kube.resources import resource_of

    spec: dict[str, Any] = {"namespaceSelector": {}}
    body = {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": {"name": QUEUE}, "spec": spec}
    await client.create(resource_of(KIND), None, body)


async def _run(plane: Any, client: Any, namespace: str, gangs: int, pid: int) -> Run:
    """Create all groups and pods at once; wait until the last pod is bound."""
    from bench.controller import _cpu_seconds, _rss_mb

    plane.kubectl("create", "namespace", namespace)
    plane.kubectl("-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    before, start = _cpu_seconds(pid), time.perf_counter()
    await _at_once(list(_creations(client, namespace, gangs)))
    await _until(lambda: _all_bound(client, namespace, gangs))
    return Run(time.perf_counter() - start, _cpu_seconds(pid) - before, _rss_mb(pid))


async def _clear(plane: Any, client: Any, namespace: str) -> None:
    """Delete all pods in one call, which a namespace's deletion would do one by one."""
    from bireme.kube.resources import PODS

    path = f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0"

    async def is_empty() -> bool:
        # A call that takes too long has deleted a part.
        await asyncio.to_thread(plane.kubectl, "delete", "--raw", path, check=False, timeout_seconds=120)
        return not (await client.list(PODS, namespace, type=dict)).items

    await _until(is_empty)


def _creations(client: Any, namespace: str, gangs: int) -> Iterator[Callable[[], Awaitable[Any]]]:
    from bireme.api.kinds import POD_GROUP
    from bireme.kube.resources import PODS, resource_of

    is_ours = namespace == "ours"
    for number in range(gangs):
        name = f"gang-{number:04}"
        if is_ours:
            spec = {"minMember": GANG, "queue": QUEUE}
            kind = {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind}
            group = {**kind, "metadata": {"name": name}, "spec": spec}
            yield partial(client.create, resource_of(POD_GROUP), namespace, group)
        for index in range(GANG):
            pod = _pod(f"{name}-{index}", name, "t9k-scheduler" if is_ours else "default-scheduler")
            yield partial(client.create, PODS, namespace, pod)


def _pod(name: str, group: str, scheduler: str) -> dict[str, Any]:
    requests = {"requests": {"cpu": "4", "memory": "8Gi"}}
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "registry.example/x:1", "resources": requests}],
    }
    metadata = {"name": name, "labels": {LABEL: group}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _all_bound(client: Any, namespace: str, gangs: int) -> bool:
    """Whether all pods are on nodes; then no gang may lack one."""
    from bireme.kube.resources import PODS
    from bireme.scheduling.objects import Pod

    waiting = await client.list(PODS, namespace, field_selector="spec.nodeName=", type=Pod)
    if waiting.items:
        return False
    listed = (await client.list(PODS, namespace, type=Pod)).items
    counts = Counter(pod.metadata.labels[LABEL] for pod in listed if pod.spec.node_name)
    assert set(counts.values()) == {GANG}, "a gang is there in part"
    return len(counts) == gangs


async def _at_once(works: list[Callable[[], Awaitable[Any]]]) -> None:
    limit = asyncio.Semaphore(CONCURRENCY)

    async def one(work: Callable[[], Awaitable[Any]]) -> None:
        async with limit:
            await work()

    await asyncio.gather(*map(one, works))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(1800):
        while not await condition():
            await asyncio.sleep(0.25)


if __name__ == "__main__":
    sizes = [int(each) for each in sys.argv[1:3]] or [NODES, GANGS]
    for result in measure(*sizes):
        print(result.line)
