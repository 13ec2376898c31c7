"""A place where jobs run, seen through its API: what a user can ask for, and what can be waited for."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from bireme.cli.sending import versions
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import NotFound
from bireme.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
    resource_for,
)
from bireme.kube.transport import HttpTransport

Object = dict[str, Any]
T = TypeVar("T")
PATIENCE_SECONDS: Final = 120.0
"""How long a test waits for what must happen; only a failing test waits that long."""
_PAUSE_SECONDS: Final = 0.05
_ENDS: Final = ("Succeeded", "Failed")
_MADE_FOR_A_JOB: Final = (
    PODS, SERVICES, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS,
)  # fmt: skip


class Program(NamedTuple):
    """Where a program runs, and the name by which it is told."""

    pod: str
    container: str
    name: str


class Programs(Protocol):
    """What runs in the containers of a place: each program goes on until it is told how to end."""

    image: str

    def command(self, name: str) -> list[str]:
        """A program that ends when `name` is told to."""
        ...

    def end(self, program: Program, code: int) -> None:
        """Tell a program to exit; it may have only just begun."""
        ...


class Place:
    """One namespace of an API server. Jobs that a test leaves are deleted by `clear`."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        programs: Programs,
        *,
        reviews: bool = True,
        runs_programs: bool = True,
        brings_access: bool = True,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """What is not the same everywhere:

        - `reviews`: whether jobs pass admission on their way in;
        - `runs_programs`: whether it does, or only pretends to;
        - `brings_access`: whether a launcher needs keys or rights of its own to reach its workers.
        """
        self.namespace, self.programs = namespace, programs
        self.reviews, self.runs_programs, self.brings_access = reviews, runs_programs, brings_access
        self._annotations = annotations or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = self.do(_connect(kubeconfig))
        self._created: list[Object] = []

    def close(self) -> None:
        self.do(self.client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the thread of the client."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS + 30)

    # ---- what a user does

    def create(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        annotations = self._annotations | (metadata.get("annotations") or {})
        body = obj | {"metadata": metadata | {"annotations": annotations}}
        made = self.do(self.client.create(resource(obj), self.namespace, body))
        self._created.append(made)
        return made

    def patch(self, obj: Object, spec: Object) -> None:
        self.do(self.client.patch(resource(obj), self.namespace, obj["metadata"]["name"], {"spec": spec}))

    def delete(self, obj: Object) -> None:
        """Ask for its deletion; what it owns goes after it."""
        self.do(
            self.client.delete(
                resource(obj), self.namespace, obj["metadata"]["name"], propagation="Background"
            )
        )

    def evict(self, pod: str) -> None:
        """Ask for an eviction, as `kubectl drain` does."""
        self.do(self.client.evict(self.namespace, pod))

    def clear(self) -> None:
        """Delete what a test has made and left."""
        while self._created:
            self.delete(self._created.pop())

    # ---- what a user sees

    def get(self, obj: Object) -> Object:
        return self.do(self.client.get(resource(obj), self.namespace, obj["metadata"]["name"]))

    def find(self, obj: Object) -> Object | None:
        try:
            return self.get(obj)
        except NotFound:
            return None

    def status(self, obj: Object) -> Object:
        status: Object = self.get(obj).get("status") or {}
        return status

    def pods(self, job: Object) -> dict[str, Object]:
        """The pods whose names are those of a job's replicas."""
        prefixes = tuple(f"{job['metadata']['name']}-{part}" for part in ("launcher", "worker-"))
        found = self._list(PODS)
        return {name: pod for name, pod in found.items() if name.startswith(prefixes)}

    def uids(self, job: Object) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(job).items()}

    def owned(self, job: Object) -> set[tuple[str, str]]:
        """Kind and name of every object that belongs to a job, as it was made."""
        uid = job["metadata"]["uid"]
        return {
            (kind.kind, name)
            for kind in _MADE_FOR_A_JOB
            for name, obj in self._list(kind).items()
            if any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences") or ())
        }

    def events(self, job: Object) -> set[tuple[str, str]]:
        """Type and reason of what was told of a job, as it was made."""
        uid = job["metadata"]["uid"]
        told = self._list(EVENTS).values()
        return {(each["type"], each["reason"]) for each in told if each["involvedObject"].get("uid") == uid}

    def _list(self, kind: Resource) -> dict[str, Object]:
        listing = self.do(self.client.list(kind, self.namespace, type=dict))
        return {obj["metadata"]["name"]: obj for obj in listing.items}

    # ---- waiting

    def wait(self, obj: Object, holds: Callable[[Object], bool]) -> Object:
        """Watch one object until it is as wanted; return it then."""
        return self.do(self._watch_until(resource(obj), obj["metadata"]["name"], holds))

    async def _watch_until(self, kind: Resource, name: str, holds: Callable[[Object], bool]) -> Object:
        last: Object | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                async with contextlib.aclosing(versions(self.client, kind, self.namespace, name)) as seen:
                    async for last in seen:
                        if last is not None and holds(last):
                            return last
        raise AssertionError(f"in vain: {last}")

    def wait_phase(self, job: Object, *phases: str) -> Object:
        """Wait until a job is in one of these phases; return its status. Another end fails at once."""

        def reached(found: Object) -> bool:
            now = phase_of(found)
            assert now in phases or now not in _ENDS, found["status"]
            return now in phases

        status: Object = self.wait(job, reached)["status"]
        return status

    def wait_running(self, job: Object) -> Object:
        """Wait until every replica runs; return the status."""
        return self.wait_phase(job, "Running")

    def wait_pods(self, job: Object, *names: str) -> None:
        """Wait until a job has exactly these replicas: `launcher`, `worker-0`, …; none on its way out."""
        wanted = {f"{job['metadata']['name']}-{name}" for name in names}

        def there() -> bool:
            pods = self.pods(job)
            return set(pods) == wanted and not any(
                "deletionTimestamp" in pod["metadata"] for pod in pods.values()
            )

        self.until(there, lambda: (sorted(self.pods(job)), self.find(job)))

    def wait_event(self, job: Object, type_: str, reason: str) -> None:
        self.until(lambda: (type_, reason) in self.events(job), lambda: self.events(job))

    def wait_owns_nothing(self, job: Object) -> None:
        self.until(lambda: self.find(job) is None and not self.owned(job), lambda: self.owned(job))

    def wait_gone(self, job: Object) -> None:
        """Wait until neither a job nor anything that was made for it is left."""
        self.until(
            lambda: self.find(job) is None and not self.owned(job) and not self.pods(job),
            lambda: (self.find(job), self.owned(job)),
        )

    def until(self, holds: Callable[[], bool], why: Callable[[], Any]) -> None:
        """Ask again and again; for what no single object tells."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, why()
            time.sleep(_PAUSE_SECONDS)

    # ---- programs

    def end(self, job: Object, replica: str, code: int = 0, *, container: str | None = None) -> None:
        """Have the program of a replica (`launcher`, `worker-0`) exit."""
        pod, main = self._where(job, replica)
        told = f"{job['metadata']['name']}-{replica}"
        name = f"{told}-{container}" if container else told
        self.programs.end(Program(pod, container or main, name), code)

    def _where(self, job: Object, replica: str) -> tuple[str, str]:
        """The pod and container in which the program of a replica runs: an MPI program is at a worker."""
        name = job["metadata"]["name"]
        if self.runs_programs and is_ours(job):
            return f"{name}-worker-0", "mpi-worker"
        kinds = {"launcher": "mpi-launcher", "worker": "mpi-worker"} if is_ours(job) else {}
        type_ = replica.split("-")[0]
        return f"{name}-{replica}", kinds.get(type_, type_)


def resource(obj: Object) -> Resource:
    return resource_for(obj["kind"], obj["apiVersion"])


def is_ours(job: Object) -> bool:
    """Whether it is the MPIJob of batch.tensorstack.dev, not Kubeflow's."""
    return str(job["apiVersion"]).startswith("batch.")


def conditions(status: Object) -> dict[str, Object]:
    return {each["type"]: each for each in status.get("conditions") or ()}


def is_true(status: Object, type_: str) -> bool:
    return bool(conditions(status).get(type_, {}).get("status") == "True")


def phase_of(job: Object) -> str:
    """The phase; of a kind that has none, the condition that counts most."""
    status: Object = job.get("status") or {}
    if is_ours(job):
        return str(status.get("phase", ""))
    told = ("Succeeded", "Failed", "Restarting", "Running", "Created")
    return next((type_ for type_ in told if is_true(status, type_)), "")


async def _connect(kubeconfig: Path) -> Client:
    return Client(HttpTransport(load_config(kubeconfig=str(kubeconfig), environ={})))


@contextlib.contextmanager
def closing(place: Place) -> Iterator[Place]:
    try:
        yield place
    finally:
        place.close()
