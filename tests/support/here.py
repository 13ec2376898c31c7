"""The embedded mode in this process, in a thread of its own: jobs in, what becomes of them out.

here = Here(folder)
here.start()
job = here.create(generic("hello", replica("worker", "echo hello")))
assert here.end_of(job)["phase"] == "Succeeded"
here.stop()
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bireme.apiserver.inside import InsideTransport
from bireme.cli.sending import remove, versions
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import EVENTS, PODS, Resource, resource_for
from bireme.node.machine import Machine, look
from bireme.run.apiserver import Options
from bireme.run.embedded import Embedded, embedded
from bireme.run.jobs import is_finished
from bireme.testing.leftovers import processes_with
from support.reaper import watch_over

Object = dict[str, Any]
T = TypeVar("T")
BIN = Path(sys.executable).parent
PATH = f"{BIN}:/usr/bin:/bin"
PATIENCE_SECONDS = 240.0
"""For a machine that has much else to do."""
_PODMANS_OWN = "libpod"


def generic(name: str, *replicas: Object, **spec: Any) -> Object:
    """A GenericJob."""
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {**spec, "replicaSpecs": list(replicas)},
    }


def replica(kind: str, script: str, replicas: int = 1, *, restarts: int = 0, **more: Any) -> Object:
    """One of its replica types, whose container `main` runs a script; `more` goes into the pod's spec."""
    return {
        "type": kind,
        "replicas": replicas,
        "restartPolicy": {"policy": "OnFailure", "limit": restarts},
        "template": {"spec": {"containers": [shell("main", script)], **more}},
    }


def shell(name: str, script: str, **more: Any) -> Object:
    """A container that runs a script."""
    return {"name": name, "image": "none", "command": ["sh", "-c", script], **more}


class Here:
    """An embedded mode; what it keeps is below `folder`, and pods start in `folder/work`."""

    def __init__(self, folder: Path, machine: Machine | None = None) -> None:
        self.folder, self.work = folder / "data", folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self._machine = machine or look()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = contextlib.AsyncExitStack()
        self._created: list[Object] = []

    def start(self) -> None:
        watch_over(self.folder)
        self._memory = shared_memory()
        self._thread.start()
        self.running: Embedded = self.do(self._begin())
        self.client = Client(InsideTransport(self.running.server.backend))

    async def _begin(self) -> Embedded:
        options = Options(self.folder)
        return await self._stack.enter_async_context(
            embedded(options, directory=self.work, machine=self._machine)
        )

    def restart(self) -> None:
        """End it while jobs run, and begin anew: they are found again."""
        self.do(self._stack.aclose())
        self.running = self.do(self._begin())
        self.client = Client(InsideTransport(self.running.server.backend))

    def stop(self) -> None:
        """End it; all jobs were deleted before."""
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.assert_nothing_left()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in its thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS + 30)

    # ---- jobs

    def create(self, job: Object) -> Object:
        annotations = {"bireme.dev/path": PATH} | (job["metadata"].get("annotations") or {})
        body = job | {"metadata": job["metadata"] | {"annotations": annotations}}
        made = self.do(self.client.create(resource(job), "default", body))
        self._created.append(made)
        return made

    def clear(self) -> None:
        """Delete what a test has created and left: also one that failed must not be another's trouble."""
        while self._created:
            self.delete(self._created.pop())

    def play(self, job: Object) -> Object:
        """Run a job to its end; return its status."""
        return self.end_of(self.create(job))

    def change(self, job: Object, spec: Object) -> None:
        """Patch a job's spec."""
        self.do(self.client.patch(resource(job), "default", job["metadata"]["name"], {"spec": spec}))

    def end_of(self, job: Object) -> Object:
        """Wait until a job has ended; return its status."""
        status: Object = self.until(job, is_finished)["status"]
        return status

    def until(self, job: Object, holds: Callable[[Object], bool]) -> Object:
        """Wait until something can be said of a job, or of a pod; return it."""
        return self.do(self._until(resource(job), job["metadata"]["name"], holds))

    def until_pod(self, name: str, holds: Callable[[Object], bool]) -> Object:
        return self.do(self._until(PODS, name, holds))

    async def _until(self, kind: Resource, name: str, holds: Callable[[Object], bool]) -> Object:
        last: Object | None = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                async with contextlib.aclosing(versions(self.client, kind, "default", name)) as seen:
                    async for last in seen:
                        if last is not None and holds(last):
                            return last
        except TimeoutError:
            raise AssertionError(f"in vain: {last}") from None
        raise AssertionError("the versions of an object do not end")

    def delete(self, job: Object) -> None:
        """Delete a job, and wait until nothing of it is left."""
        name = job["metadata"]["name"]
        with contextlib.suppress(NotFound):
            there = self.do(self.client.get(resource(job), "default", name))
            self.do(remove(self.client, resource(job), "default", there))

    # ---- pods

    def pod(self, name: str) -> Object:
        return self.do(self.client.get(PODS, "default", name))

    def pods(self) -> list[str]:
        """The names of all pods that are there."""
        listing = self.do(self.client.list(PODS, "default", type=dict))
        return sorted(pod["metadata"]["name"] for pod in listing.items)

    def output(self, pod: str, container: str = "main") -> str:
        """What the attempts at a container have written so far, less a harmless word of mpirun.

        Its child may be too fast for its parent, which says so now and then.
        """
        uid = self.pod(pod)["metadata"]["uid"]
        files = sorted((self.folder / f"node/pods/{uid}/output/{container}").glob("*.log"))
        lines = [line for file in files for line in file.read_text().splitlines(keepends=True)]
        return "".join(line for line in lines if "Warning: setpgid" not in line)

    def events(self, reason: str) -> set[tuple[str, str]]:
        """About whom an Event with this reason was written, and what it says."""
        listing = self.do(self.client.list(EVENTS, "default", type=dict))
        return {
            (f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}", event["message"])
            for event in listing.items
            if event["reason"] == reason
        }

    def assert_nothing_left(self) -> None:
        """No process of a pod, and no shared memory of one; no pod may run."""
        eventually(lambda: not self._processes(), self._processes)
        self.assert_no_memory_left()

    def _processes(self) -> list[str]:
        return processes_with(str(self.folder))

    def assert_no_memory_left(self) -> None:
        """No file in shared memory that is newer than this, and that no living process uses."""
        eventually(lambda: not self._abandoned(), self._abandoned)

    def _abandoned(self) -> list[str]:
        new = {path for path in shared_memory() - self._memory if not path.name.startswith(_PODMANS_OWN)}
        return sorted(str(path) for path in new - in_use(new))


def resource(obj: Object) -> Resource:
    return resource_for(obj["kind"], obj["apiVersion"])


def eventually(holds: Callable[[], bool], why: Callable[[], Any] = lambda: "in vain") -> None:
    """Wait for what no watch tells."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def shared_memory() -> set[Path]:
    """The files of the machine's shared memory, which no pod may leave behind."""
    return set(Path("/dev/shm").iterdir())


def in_use(files: set[Path]) -> set[Path]:
    """Those of these files that a process has mapped or open."""
    used: set[Path] = set()
    for process in Path("/proc").glob("[0-9]*") if files else ():
        with contextlib.suppress(OSError):
            mapped = (process / "maps").read_text(errors="replace")
            opened = {fd.readlink() for fd in (process / "fd").iterdir()}
            used |= {path for path in files if path in opened or f" {path}\n" in mapped}
    return used
