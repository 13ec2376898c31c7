"""The embedded API server, and beside it the same load on a real kube-apiserver with etcd.

The load comes from one process with our own client, over TLS; server and client share the machine's cores.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.measurement import BIN, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CONCURRENCY = 32
SECONDS = 4.0
PODS = 10_000
WATCHERS = 50
WRITES_PER_SECOND = 200
PATH = "/api/v1/namespaces/default"


class Server(NamedTuple):
    """A server under measurement."""

    kubeconfig: Path
    pids: list[int]


class Figures(NamedTuple):
    reads: float
    writes: float
    list_seconds: float
    rss_mb: float
    watch_ms: float
    start_ms: float = 0.0


@contextlib.contextmanager
def embedded() -> Iterator[tuple[Server, float]]:
    """Ours, and how many milliseconds it took until it was ready."""
    with tempfile.TemporaryDirectory(prefix="bireme-bench-") as folder:
        start_ms = min(_start_once(Path(folder) / str(number)) for number in range(3))
        path = Path(folder) / "0"
        process = _start(path)
        try:
            yield Server(path / "kubeconfig", [process.pid]), start_ms
        finally:
            process.terminate()
            process.wait()


def _start(path: Path) -> subprocess.Popen[bytes]:
    command = [str(BIN / "bireme"), "apiserver", "--data-dir", str(path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not (path / "kubeconfig").exists():
        assert process.poll() is None, "the server ended"
        time.sleep(0.002)
    return process


def _start_once(path: Path) -> float:
    """From nothing, certificate and database included, to a kubeconfig of a server that is ready."""
    start = time.perf_counter()
    process = _start(path)
    took = (time.perf_counter() - start) * 1000
    process.terminate()
    process.wait()
    return took


@contextlib.contextmanager
def real() -> Iterator[Server]:
    from support.control_plane import ControlPlane

    plane = ControlPlane()
    plane.start(("etcd", "kube-apiserver"))
    try:
        yield Server(plane.kubeconfig, list(plane.pids.values()))
    finally:
        plane.stop()


@contextlib.asynccontextmanager
async def connect(server: Server) -> AsyncIterator[Any]:
    from bireme.kube.config import load_config
    from bireme.kube.transport import HttpTransport

    transport = HttpTransport(load_config(kubeconfig=str(server.kubeconfig), environ={}))
    try:
        yield transport
    finally:
        await transport.close()


def make_pod() -> dict[str, Any]:
    """A worker of an MPIJob, as the controller makes it."""
    import msgspec

    from bireme.admission import default
    from bireme.api.kinds import MPI_JOB
    from bireme.control.keys import generate_keys
    from bireme.planning import Observed, plan
    from bireme.planning.actions import CreatePod

    template = {"spec": {"containers": [{"name": "mpi-worker", "image": "registry.example/x:1"}]}}
    job = {
        "apiVersion": MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": "job", "namespace": "default", "uid": "0c7c5c1e-0000-4000-8000-000000000000"},
        "spec": {"worker": {"replicas": 2, "cmd": ["./x"], "template": template}},
    }
    typed: Any = msgspec.convert(default(job), MPI_JOB.struct)
    made = plan(Observed(typed, keys=generate_keys()), datetime(2026, 1, 1, tzinfo=UTC))
    pod: dict[str, Any] = [each.object for each in made.actions if isinstance(each, CreatePod)][-1]
    metadata = {"labels": pod["metadata"]["labels"]}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("hostname", "subdomain")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def rate(call: Callable[[int], Awaitable[Any]], seconds: float = SECONDS) -> float:
    """How many calls a second are answered, so many at a time."""
    done = 0
    numbers = iter(range(10**9))
    deadline = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        while time.perf_counter() < deadline:
            await call(next(numbers))
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONCURRENCY)))
    return done / (time.perf_counter() - start)


async def measure_server(server: Server) -> Figures:
    import msgspec

    pod = make_pod()
    async with connect(server) as transport:

        async def expect(code: int, *arguments: Any, **options: Any) -> Any:
            response = await transport.request(*arguments, **options)
            assert response.status == code, response.body[:500]
            return response

        await _wait_for_account(transport)

        async def create(number: int) -> None:
            named = pod | {"metadata": pod["metadata"] | {"name": f"pod-{number:06}"}}
            await expect(201, "POST", f"{PATH}/pods", body=msgspec.json.encode(named))

        limit = asyncio.Semaphore(CONCURRENCY)

        async def limited(number: int) -> None:
            async with limit:
                await create(number)

        start = time.perf_counter()
        await asyncio.gather(*(limited(number) for number in range(PODS)))
        writes = PODS / (time.perf_counter() - start)
        rss = sum(_rss_mb(pid) for pid in server.pids)
        reads = await rate(lambda number: expect(200, "GET", f"{PATH}/pods/pod-{number % PODS:06}"))
        start = time.perf_counter()
        listed = await expect(200, "GET", f"{PATH}/pods", timeout_seconds=60)
        list_seconds = time.perf_counter() - start
        assert len(listed.body) > PODS * 1000
        watch = await _watch_latency(transport, expect)
    return Figures(reads, writes, list_seconds, rss, watch)


async def _wait_for_account(transport: Any) -> None:
    """A real server without controllers has no service account, and refuses pods without one."""
    body = b'{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}'
    await transport.request("POST", f"{PATH}/serviceaccounts", body=body)


async def _watch_latency(transport: Any, expect: Any) -> float:
    """The 99th percentile, in milliseconds, from a write's begin to its arrival at each of many watchers."""
    import msgspec

    sent: dict[str, float] = {}
    delays: list[float] = []
    expected = 5 * WRITES_PER_SECOND
    ready = asyncio.Event()
    waiting = WATCHERS

    async def watcher() -> None:
        nonlocal waiting
        seen = 0
        params = {"watch": "true", "resourceVersion": version}
        async with transport.stream(f"{PATH}/configmaps", params=params) as chunks:
            waiting -= 1
            if not waiting:
                ready.set()
            rest = b""
            async for chunk in chunks:
                now = time.perf_counter()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    name = msgspec.json.decode(line)["object"]["metadata"]["name"]
                    if name in sent:
                        delays.append(now - sent[name])
                        seen += 1
                if seen >= expected:
                    return

    listed = msgspec.json.decode((await expect(200, "GET", f"{PATH}/configmaps")).body)
    version = listed["metadata"]["resourceVersion"]
    watchers = [asyncio.create_task(watcher()) for _ in range(WATCHERS)]
    await ready.wait()
    start = time.perf_counter()
    writes = []
    for number in range(expected):
        await asyncio.sleep(max(0.0, start + number / WRITES_PER_SECOND - time.perf_counter()))
        name = f"watched-{number}"
        sent[name] = time.perf_counter()
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        writes.append(asyncio.create_task(expect(201, "POST", f"{PATH}/configmaps", body=body)))
    await asyncio.gather(*writes)
    async with asyncio.timeout(30):
        await asyncio.gather(*watchers)
    assert len(delays) == WATCHERS * expected
    return sorted(delays)[int(len(delays) * 0.99)] * 1000


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure() -> list[Result]:
    """Ours against the limits, with the real server's figure of the same run in the note."""
    import uvloop

    with embedded() as (server, start_ms):
        ours = uvloop.run(measure_server(server))
    with real() as server:
        theirs = uvloop.run(measure_server(server))
    note = "kube-apiserver + etcd: {:.0f}"
    return [
        Result("embedded: reads", ours.reads, 2000, "/s", note.format(theirs.reads), at_least=True),
        Result(
            "embedded: durable pod creates", ours.writes, 800, "/s", note.format(theirs.writes), at_least=True
        ),
        Result(
            "embedded: list of 10,000 pods",
            ours.list_seconds * 1000,
            1500,
            "ms",
            note.format(theirs.list_seconds * 1000),
        ),
        Result(
            "embedded: watch delivery p99, 50 watchers", ours.watch_ms, 50, "ms", note.format(theirs.watch_ms)
        ),
        Result("embedded: from nothing to ready", start_ms, 900, "ms", ""),
        Result("embedded: RSS with 10,000 pods", ours.rss_mb, 200, "MB", note.format(theirs.rss_mb)),
    ]


if __name__ == "__main__":
    for result in measure():
        print(result)
