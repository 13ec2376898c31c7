"""The embedded API server, and beside it the same load on a real kube-apiserver with etcd.

The load comes from one process with our own client, over TLS; server and client share the machine's cores.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.measurement import BIN, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CONCURRENCY = 32
PATH = "/api/v1/namespaces/default"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """How much is asked of a server."""

    pods: int = 10_000
    read_seconds: float = 4.0
    watchers: int = 50
    watched_writes: int = 1_000
    writes_per_second: int = 200


_FULL = Load()


class Server(NamedTuple):
    """A server under measurement."""

    kubeconfig: Path
    pids: list[int]

    def rss_mb(self) -> float:
        return sum(_rss_mb(pid) for pid in self.pids)

    def cpu_seconds(self) -> float:
        return sum(_cpu_seconds(pid) for pid in self.pids)


class Figures(NamedTuple):
    reads: float
    writes: float
    write_cpu_ms: float
    """Of the server, for each write."""
    list_seconds: float
    rss_mb: float
    watch_ms: float


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


class Client:
    """One who puts load on a server."""

    def __init__(self, transport: Any, load: Load) -> None:
        self._transport, self._load = transport, load
        self._pod = make_pod()

    async def expect(self, code: int, *arguments: Any, **options: Any) -> bytes:
        response = await self._transport.request(*arguments, **options)
        assert response.status == code, response.body[:500]
        body: bytes = response.body
        return body

    async def make_account(self) -> None:
        """A real server without controllers has no service account, and refuses pods without one."""
        body = b'{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}'
        await self._transport.request("POST", f"{PATH}/serviceaccounts", body=body)

    async def create(self, number: int) -> None:
        pod = self._pod | {"metadata": self._pod["metadata"] | {"name": f"pod-{number:06}"}}
        await self.expect(201, "POST", f"{PATH}/pods", body=msgspec.json.encode(pod))

    async def creates_per_second(self) -> float:
        numbers = iter(range(self._load.pods))
        start = time.perf_counter()
        await asyncio.gather(*(self._create_all(numbers) for _ in range(CONCURRENCY)))
        return self._load.pods / (time.perf_counter() - start)

    async def _create_all(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self.create(number)

    async def reads_per_second(self) -> float:
        start = time.perf_counter()
        deadline = start + self._load.read_seconds
        done = await asyncio.gather(*(self._read_until(deadline, first) for first in range(CONCURRENCY)))
        return sum(done) / (time.perf_counter() - start)

    async def _read_until(self, deadline: float, first: int) -> int:
        done = 0
        while time.perf_counter() < deadline:
            number = (first + done * CONCURRENCY) % self._load.pods
            await self.expect(200, "GET", f"{PATH}/pods/pod-{number:06}")
            done += 1
        return done

    async def list_seconds(self) -> float:
        start = time.perf_counter()
        listed = await self.expect(200, "GET", f"{PATH}/pods", timeout_seconds=60)
        assert len(listed) > self._load.pods * 1000
        return time.perf_counter() - start

    async def watch_ms(self) -> float:
        """The 99th percentile from a write's begin to its arrival at each of many watchers."""
        listed = msgspec.json.decode(await self.expect(200, "GET", f"{PATH}/configmaps"))
        race = Race(self._load.watchers, self._load.watched_writes)
        params = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        watchers = [asyncio.create_task(self._watch(race, params)) for _ in range(self._load.watchers)]
        await race.ready.wait()
        await self._write_steadily(race)
        async with asyncio.timeout(60):
            await asyncio.gather(*watchers)
        return sorted(race.delays)[int(len(race.delays) * 0.99)] * 1000

    async def _watch(self, race: "Race", params: dict[str, str]) -> None:
        seen, rest = 0, b""
        async with self._transport.stream(f"{PATH}/configmaps", params=params) as chunks:
            race.arrive()
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                seen += race.note(lines, time.perf_counter())
                if seen >= self._load.watched_writes:
                    return

    async def _write_steadily(self, race: "Race") -> None:
        start = time.perf_counter()
        writes = []
        for number in range(self._load.watched_writes):
            due = start + number / self._load.writes_per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            name = f"watched-{number}"
            race.sent[name] = time.perf_counter()
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            call = self.expect(201, "POST", f"{PATH}/configmaps", body=msgspec.json.encode(body))
            writes.append(asyncio.create_task(call))
        await asyncio.gather(*writes)


class Race:
    """Writes on their way to those who watch."""

    def __init__(self, watchers: int, writes: int) -> None:
        self._missing = watchers
        self._expected = watchers * writes
        self.ready = asyncio.Event()
        self.sent: dict[str, float] = {}
        self.delays: list[float] = []

    def arrive(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.ready.set()

    def note(self, lines: list[bytes], now: float) -> int:
        """Write down how long each event took; return how many of ours there were."""
        names = [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in lines]
        delays = [now - self.sent[name] for name in names if name in self.sent]
        self.delays += delays
        return len(delays)


async def measure_server(server: Server, load: Load) -> Figures:
    async with connect(server) as transport:
        client = Client(transport, load)
        await client.make_account()
        before = server.cpu_seconds()
        writes = await client.creates_per_second()
        write_cpu_ms = (server.cpu_seconds() - before) / load.pods * 1000
        rss_mb = server.rss_mb()
        reads = await client.reads_per_second()
        list_seconds = await client.list_seconds()
        return Figures(reads, writes, write_cpu_ms, list_seconds, rss_mb, await client.watch_ms())


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def measure(load: Load = _FULL, *, with_peer: bool = True) -> list[Result]:
    """Ours against the limits, with the real server's figure of the same run in the note."""
    import uvloop

    with embedded() as (server, start_ms):
        ours = uvloop.run(measure_server(server, load))
    if not with_peer:
        return list(_results(ours, None, start_ms, load))
    with real() as server:
        theirs = uvloop.run(measure_server(server, load))
    return list(_results(ours, theirs, start_ms, load))


def _results(ours: Figures, theirs: Figures | None, start_ms: float, load: Load) -> Iterator[Result]:
    def note(figure: Callable[[Figures], float], unit: str) -> str:
        return "" if theirs is None else f"kube-apiserver + etcd: {figure(theirs):.4g} {unit}"

    def per_second(name: str, limit: float, figure: Callable[[Figures], float]) -> Result:
        return Result(f"embedded: {name}", figure(ours), limit, "/s", note(figure, "/s"), at_least=True)

    def at_most(name: str, limit: float, unit: str, figure: Callable[[Figures], float]) -> Result:
        return Result(f"embedded: {name}", figure(ours), limit, unit, note(figure, unit))

    pods, watchers = f"{load.pods:,} pods", load.watchers
    yield per_second("reads", 2000, lambda each: each.reads)
    yield per_second("durable pod creates", 800, lambda each: each.writes)
    yield at_most("the server's CPU for a pod create", 1.3, "ms", lambda each: each.write_cpu_ms)
    yield at_most(f"list of {pods}", 1500, "ms", lambda each: each.list_seconds * 1000)
    yield at_most(f"watch delivery p99, {watchers} watchers", 50, "ms", lambda each: each.watch_ms)
    yield Result("embedded: from nothing to ready", start_ms, 900, "ms")
    yield at_most(f"RSS with {pods}", 200, "MB", lambda each: each.rss_mb)


if __name__ == "__main__":
    for result in measure():
        print(result.line)
