"""A namespace of a cluster, and what a user does in it with kubectl."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bireme.api.kinds import find_kind
from support.cluster import Cluster
from support.fixtures import unavailable
from support.kubectl import Result

Object = dict[str, Any]
SECONDS: Final = 180.0
"""How long a test waits for what must happen; only a failing test waits that long."""
POLL_SECONDS: Final = 0.3
ENDED: Final = ("Succeeded", "Failed")


class Stage:
    """Everything is in one namespace; calls fail the test where kubectl fails."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def image(self, name: str) -> str:
        """An image's name; the test is skipped where the cluster has none."""
        found = self.cluster.image(name)
        if found is None:
            raise unavailable(f"no image: set BIREME_TEST_IMAGE_{name.upper()}")
        return found

    def try_kubectl(self, *arguments: str, stdin: str = "", seconds: float = SECONDS) -> Result:
        """Run kubectl, whatever comes of it."""
        return self.cluster.kubectl.run(["-n", self.namespace, *arguments], stdin=stdin, seconds=seconds)

    def kubectl(self, *arguments: str, stdin: str = "", seconds: float = SECONDS) -> str:
        result = self.try_kubectl(*arguments, stdin=stdin, seconds=seconds)
        assert result.code == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def create(self, manifest: Object) -> None:
        self.kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def patch(self, manifest: Object, spec: Object) -> None:
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", *_reference(manifest), "--type=merge", "-p", patch)

    def delete(self, manifest: Object) -> None:
        """Delete, and return when it is gone."""
        self.kubectl("delete", *_reference(manifest), "--wait")

    def evict(self, pod: str) -> None:
        """Ask for the eviction of a pod, as `kubectl drain` does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def get(self, kind: str, name: str) -> Object:
        found: Object = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def names(self, kind: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.items(kind)]

    def items(self, kind: str) -> list[Object]:
        found: list[Object] = json.loads(self.kubectl("get", kind, "-o", "json"))["items"]
        return found

    def logs(self, pod: str, *arguments: str) -> str:
        return self.kubectl("logs", pod, *arguments)

    def execute(self, pod: str, *command: str) -> str:
        return self.kubectl("exec", pod, "--", *command)

    # ---- waiting

    def wait(
        self, reference: tuple[str, str], holds: Callable[[Object], bool], seconds: float = SECONDS
    ) -> Object:
        """Watch one object until it is as wanted."""
        seen: Object = {}
        for seen in self._watch(reference, seconds):
            if holds(seen):
                return seen
        raise AssertionError(f"{'/'.join(reference)} never was as wanted:\n{self._tell(seen)}")

    def wait_phase(self, manifest: Object, *phases: str, seconds: float = SECONDS) -> Object:
        """Wait until a job is in one of the phases, and return its status; another end fails at once."""
        status: Object = self.wait(_reference(manifest), self._reached(*phases), seconds)["status"]
        return status

    def _reached(self, *phases: str) -> Callable[[Object], bool]:
        def reached(found: Object) -> bool:
            phase = _phase(found)
            assert phase in phases or phase not in ENDED, f"it has {phase}:\n{self._tell(found)}"
            return phase in phases

        return reached

    def wait_pod(self, name: str, phase: str, seconds: float = SECONDS) -> Object:
        """Wait until a pod is in that phase; another end fails at once."""
        return self.wait(("pod", name), self._reached(phase), seconds)

    def wait_output(self, pod: str, holds: Callable[[str], bool], seconds: float = SECONDS) -> None:
        """Follow what a pod prints until a line is as wanted."""
        self.wait_pod(pod, "Running", seconds)
        arguments = ["-n", self.namespace, "logs", "--follow", pod]
        with self.cluster.kubectl.stream(arguments) as process, _killed_after(process, seconds):
            assert process.stdout is not None
            if any(holds(line) for line in process.stdout):
                return
        raise AssertionError(f"{pod} never printed what was wanted:\n{self._tell({})}")

    def until(self, holds: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        """Ask again and again; for what no single object tells."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"never: {what}\n{self._tell({})}"
            time.sleep(POLL_SECONDS)

    def _watch(self, reference: tuple[str, str], seconds: float) -> Iterator[Object]:
        """Every state of an object; ends after `seconds`."""
        self.kubectl("wait", "--for=create", "/".join(reference), f"--timeout={seconds:.0f}s")
        arguments = ["-n", self.namespace, "get", *reference, "--watch", "-o", "json"]
        with self.cluster.kubectl.stream(arguments) as process, _killed_after(process, seconds):
            assert process.stdout is not None
            yield from _documents(process.stdout.readline)

    def _tell(self, job: Object) -> str:
        """What helps to find out why."""
        parts = [json.dumps(job.get("status"), indent=1)]
        parts += [self.try_kubectl("get", "pods", "-o", "wide").stdout]
        parts += [self.try_kubectl("get", "events", "--sort-by=.lastTimestamp").stdout[-4000:]]
        for pod in self.try_kubectl("get", "pods", "-o", "name").stdout.split():
            parts += [pod, self.try_kubectl("logs", pod, "--all-containers", "--tail=15").stdout]
        return "\n".join(parts)


@contextmanager
def stage(cluster: Cluster, namespace: str) -> Iterator[Stage]:
    """A new namespace; it goes away in the background afterwards."""
    new = Stage(cluster, namespace)
    new.kubectl("create", "namespace", namespace)
    try:
        new.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield new
    finally:
        new.kubectl("delete", "namespace", namespace, "--wait=false")


def _reference(manifest: Object) -> tuple[str, str]:
    """How kubectl is told of it."""
    kind = find_kind(manifest["apiVersion"], manifest["kind"])
    return kind.crd_name if kind else manifest["kind"].lower(), manifest["metadata"]["name"]


def _phase(found: Object) -> str:
    """The phase, or the last true condition where a kind has no phases."""
    status = found.get("status") or {}
    if "phase" in status:
        return str(status["phase"])
    true = [each["type"] for each in status.get("conditions") or () if each["status"] == "True"]
    return str(true[-1]) if true else ""


def _documents(read_line: Callable[[], str]) -> Iterator[Object]:
    """The JSON objects of a stream, as kubectl prints them: the last line of each is a brace."""
    text = ""
    while line := read_line():
        text += line
        if line.rstrip("\n") == "}":
            yield json.loads(text)
            text = ""


@contextmanager
def _killed_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()
