"""A hostile pod near the webhooks: the real process stays small and answers, whatever it is sent."""

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from bireme.control.quotas import quota_warning
from bireme.control.webhooks.certificates import make_authority
from bireme.control.webhooks.reviews import LARGEST_OBJECT, answer_default, answer_validate, judge
from bireme.kube.clock import utc_now
from support.jobs import MAIN, generic
from support.ports import free_port

BIREME = Path(sys.executable).parent / "bireme"
CLIENT = Path(__file__).parents[1] / "support/hostile/webhook_client.py"
MOST_GROWTH = 100 * 1024 * 1024
LONGEST_LAG_SECONDS = 1.5
"""On a machine whose two cores others use too; alone, it is a tenth of that."""
MOST_SECONDS = 0.5
ATTACKS = ("large_reviews", "unfinished_bodies", "half_headers")
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "current-context": "none",
}
"""Nobody need be asked about a job without a queue."""


class Server:
    """The process, and how it is."""

    def __init__(
        self, process: subprocess.Popen[bytes], port: int, health_port: int, authority: bytes
    ) -> None:
        self.process, self.port, self.health_port = process, port, health_port
        self._context = ssl.create_default_context(cadata=authority.decode())

    def memory(self, field: str) -> int:
        """VmRSS, or VmHWM: the most that it ever was, in bytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = [each for each in lines if each.startswith(f"{field}:")]
        return int(line.split()[1]) * 1024

    def health(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=30)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def judge(self, obj: dict[str, Any]) -> bool:
        """Ask as an API server does, with a connection of its own; whether the object is let in."""
        request = {"uid": "1", "operation": "CREATE", "object": obj, "userInfo": {"username": "ann"}}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self._context)
        try:
            connection.request("POST", "/validate", json.dumps(body))
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            return bool(json.loads(reply.read())["response"]["allowed"])
        finally:
            connection.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    authority = make_authority(utc_now())
    (tmp_path / "ca.crt").write_bytes(authority.certificates)
    (tmp_path / "ca.key").write_bytes(authority.key)
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    port, health_port = free_port(), free_port()
    command = [
        str(BIREME), "webhooks", f"--certificates={tmp_path}", f"--kubeconfig={tmp_path / 'kubeconfig'}",
        "--host=127.0.0.1", f"--port={port}", "--name=127.0.0.1", f"--health-port={health_port}",
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    served = Server(process, port, health_port, authority.certificates)
    try:
        end = time.monotonic() + 60
        while served.health() != 200:
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < end, "never ready"
        # What is loaded with the first review is not the attack's.
        assert served.judge(generic())
        yield served
    finally:
        process.terminate()
        process.wait(60)
        log_text = (tmp_path / "log").read_text()
        assert "Traceback" not in log_text, log_text[:3000]
        assert len(log_text.splitlines()) < 200, "each connection of a stranger left a line"


class Watch:
    """Asks the process how it is, again and again, and how long each answer takes: the lag of its loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.lags: list[float] = []
        self.answers: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(0.02):
            begun = time.monotonic()
            self.answers.add(self._server.health())
            self.lags.append(time.monotonic() - begun)


@contextlib.contextmanager
def attack(name: str, port: int) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A hostile process whose attack stands; it goes on until the block ends."""
    command = [sys.executable, str(CLIENT), name, str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_costs_bounded_memory_and_no_lag(server: Server, name: str) -> None:
    before = server.memory("VmRSS")
    with Watch(server) as watch, attack(name, server.port) as (_, outcome):
        assert server.judge(generic()), "an API server got no answer during the attack"
        assert not server.judge(generic(successRules=[{}]))
    growth = server.memory("VmHWM") - before
    lag = max(watch.lags)
    print(f"{name}: {outcome}, grew by {growth / 1e6:.0f} MB, lag {lag:.2f} s of {len(watch.lags)} looks")
    assert watch.answers == {200}
    assert growth <= MOST_GROWTH
    assert lag <= LONGEST_LAG_SECONDS


@pytest.mark.parametrize("name", ["unfinished_bodies", "half_headers"])
def test_slow_connections_are_closed(server: Server, name: str) -> None:
    """At most 256 at any time, and none 10 s after it was begun; then all memory is free for others."""
    with attack(name, server.port) as (process, _):
        end = time.monotonic() + 60
        while established(server.port) > 2:
            assert time.monotonic() < end, f"{established(server.port)} connections are open"
            time.sleep(0.5)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["open"] == 0


def test_connections_are_never_more_than_their_limit(server: Server) -> None:
    with attack("half_headers", server.port):
        assert established(server.port) <= 256 + 16


def established(port: int) -> int:
    """Connections of the server that are established, by the kernel's table."""
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        found += state == "01" and int(local.rpartition(":")[2], 16) == port
    return found


# ---- how long one object takes


def hostile_objects() -> dict[str, dict[str, Any]]:
    """Objects of about 3 MB, each with much of one thing."""
    size = LARGEST_OBJECT - 100_000

    def with_spec(**spec: Any) -> dict[str, Any]:
        job = generic()
        job["spec"]["replicaSpecs"][0]["template"]["spec"] = {"containers": [MAIN], **spec}
        return job

    def many(element: Any) -> list[Any]:
        return [element] * (size // (len(json.dumps(element)) + 2))

    lists: dict[str, Any] = {
        "containers": with_spec(containers=many({"name": "a", "image": "b"})),
        "distinct containers": with_spec(
            containers=[{"name": f"c{index}", "image": "b"} for index in range(60_000)]
        ),
        "environment": with_spec(containers=[{**MAIN, "env": many({"name": "A", "value": "b"})}]),
        "unknown fields": with_spec(**{f"field{index}": 1 for index in range(100_000)}),
        "numbers": with_spec(tolerations=many(1)),
        "empty lists": with_spec(volumes=many([])),
        "empty objects": with_spec(volumes=many({})),
        "one long text": with_spec(hostname="x" * size),
        "variables": with_spec(containers=[{**MAIN, "args": ["$(rank)" * (size // 7)]}]),
        "unicode": with_spec(hostname="\U0001f600" * (size // 4)),
        "replica types": {
            **generic(),
            "spec": {"replicaSpecs": many({"type": "w", "replicas": 1, "template": {"spec": {}}})},
        },
        "labels": generic() | {"metadata": {"name": "a", "labels": {f"l{n}": "v" for n in range(150_000)}}},
    }
    return lists


@pytest.mark.parametrize("name", hostile_objects())
def test_any_object_is_judged_or_refused_in_time(name: str) -> None:
    """Time of the processor: others use the machine."""
    obj = hostile_objects()[name]
    text = json.dumps({"uid": "1", "operation": "CREATE", "object": obj}, ensure_ascii=False)
    body = f'{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{text}}}'.encode()
    for answer in (answer_default, answer_validate):
        begun = time.thread_time()
        judge(answer, body)
        seconds = time.thread_time() - begun
        assert seconds < MOST_SECONDS, f"{answer.__name__}: {seconds:.2f} s"


def test_quota_of_a_large_job_is_compared_in_time() -> None:
    """300 containers in each of 5000 replicas: more would be refused."""
    container = {"image": "x", "resources": {"requests": {"cpu": "1"}}}
    job = generic(replicas=5000, scheduler={"t9kScheduler": {"queue": "small"}})
    containers = [{**container, "name": f"c{index}"} for index in range(300)]
    job["spec"]["replicaSpecs"][0]["template"] = {"spec": {"containers": containers}}
    queue = {"metadata": {"name": "small"}, "spec": {"quota": {"requests": {"cpu": "1"}}}}
    begun = time.thread_time()
    warning = quota_warning(job, queue)
    assert time.thread_time() - begun < MOST_SECONDS
    assert warning is not None
    assert "1500k of cpu (quota 1)" in warning
