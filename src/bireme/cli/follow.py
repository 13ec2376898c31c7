"""Follows a job to its end: its status, its pods, and what they print."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bireme.api.meta import ObjectMeta
from bireme.cli.endings import is_launcher, short_name
from bireme.cli.rank_tags import split_ranks
from bireme.cli.remedies import find_remedy
from bireme.cli.screen import Lines, Screen
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, KubeError, NotFound
from bireme.kube.resources import PODS, Resource
from bireme.planning.identity import TAG_ANNOTATION
from bireme.run.jobs import Object, is_finished, phase

if TYPE_CHECKING:
    from bireme.cli.stdin import Forwarder

_QUIET_SECONDS: Final = 0.12
"""How long the output of pods that go on after the end of their job is still listened to."""
_PATIENCE_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
_BAD_REQUEST: Final = 400
_OURS: Final = "bireme-"
_NOTICES: Final = ("bireme.dev/RunsAsWritten", "bireme.dev/OutputComplete")
"""Conditions of a pod whose messages are for whoever follows the job."""
_JOB_CREATED: Final = "JobCreated"
_ON_ITS_WAY: Final = ("ContainerCreating", "PodInitializing", "")


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    """A job or a pod, as far as it is looked at."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    def object(self) -> Object:
        metadata: Object = {
            "name": self.metadata.name,
            "namespace": self.metadata.namespace,
            "annotations": dict(self.metadata.annotations or {}),
        }
        if self.metadata.creation_timestamp is not None:
            metadata["creationTimestamp"] = self.metadata.creation_timestamp.isoformat()
        return {"metadata": metadata, "spec": self.spec, "status": self.status}


class JobFollower:
    """One job. `title` stands before the names of its replicas where several jobs are followed.

    Without `container` the output of all is shown; `options` say which part of it, as Client.log has them.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        job: Object,
        screen: Screen,
        *,
        title: str = "",
        container: str | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
        on_change: Callable[[], None] = lambda: None,
        stdin: "Forwarder | None" = None,
        on_output: Callable[[list[bytes]], None] = lambda _lines: None,
    ) -> None:
        metadata = job["metadata"]
        self.resource, self.namespace, self.name = resource, metadata["namespace"], metadata["name"]
        self.uid: str = metadata["uid"]
        self.job = job
        self.is_gone = False
        self._client, self._screen, self._on_change = client, screen, on_change
        self._stdin, self._on_output = stdin, on_output
        self._title = f"{title}/" if title else ""
        self._is_tagged = (metadata.get("annotations") or {}).get(TAG_ANNOTATION) == "true"
        self._container, self._options = container, {**options, "follow": True}
        self._over = asyncio.Event()
        self._streams: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._heard = 0.0
        self._told: set[str] = set()
        self._ended: set[str] = set()
        self._broken: OSError | None = None
        self._selector = f"bireme.dev/job-uid={self.uid}"
        self._jobs: Cache[Seen] = Cache(
            client,
            resource,
            Seen,
            namespace=self.namespace,
            field_selector=f"metadata.name={self.name}",
            index_by_owner=False,
            on_change=self._on_job,
        )
        self._pods: Cache[Seen] = Cache(
            client,
            PODS,
            Seen,
            namespace=self.namespace,
            label_selector=self._selector,
            index_by_owner=False,
            on_change=self._on_pod,
        )

    async def run(self) -> None:
        """Show what the job's replicas print until it has ended, or is gone.

        Raises OSError where that can't be written any more.
        """
        caches = [asyncio.create_task(cache.run()) for cache in (self._jobs, self._pods)]
        over = asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait((*caches, over), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._hear_the_rest()
            if self._broken is not None:
                raise self._broken
        finally:
            tasks = (*caches, over, *self._streams.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def count_running(self) -> tuple[int, int]:
        """How many of its pods run, of how many."""
        pods = self._pods.all()
        return sum(pod.status.get("phase") == "Running" for pod in pods), len(pods)

    # ---- the job

    def _on_job(self, old: Seen | None, new: Seen | None) -> None:
        if new is None or new.metadata.uid != self.uid:
            self.is_gone = old is None or old.metadata.uid == self.uid
            self._over.set()
        else:
            self.job = new.object()
            self._tell_pause()
            self._tell_once(_obstacles(self.name, self.job))
            if is_finished(self.job):
                self._over.set()
        self._on_change()

    def _tell_pause(self) -> None:
        if phase(self.job) != "Paused":
            self._told.discard("Paused")
        elif "Paused" not in self._told:
            self._told.add("Paused")
            self._screen.say(f"{self.name} is paused: it goes on after `bireme resume {self.name}`")

    # ---- its pods

    def _on_pod(self, old: Seen | None, new: Seen | None) -> None:  # noqa: ARG002 - the cache's signature
        if new is not None:
            if _has_ended(new):
                self._ended.add(new.metadata.uid)
            self._screen.add_name(self._label(new.metadata.name))
            for container in _started(new):
                if self._container in (None, container):
                    self._listen(new, container)
            self._send_stdin(new)
            self._tell_trouble(new)
            self._tell_notices(new)
        self._on_change()

    def _send_stdin(self, pod: Seen) -> None:
        """Tell the forwarder about the containers that read standard input."""
        if self._stdin is None:
            return
        reading = {each["name"] for each in pod.spec.get("containers") or () if each.get("stdin")}
        metadata = pod.metadata
        for name, state in _containers(pod):
            if name in reading:
                runs = "running" in state
                self._stdin.update(self.namespace, metadata.name, metadata.uid, name, runs=runs)

    def _label(self, pod: str) -> str:
        return self._title + short_name(pod, self.name)

    def _tell_trouble(self, pod: Seen) -> None:
        """Say once why a replica does not start."""
        name, reasons = self._label(pod.metadata.name), list(_troubles(pod))
        self._tell_once(f"{name}: {reason}" for reason in reasons)
        self._tell_once(f"hint: {remedy}" for remedy in map(find_remedy, reasons) if remedy)

    def _tell_once(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text not in self._told:
                self._told.add(text)
                self._screen.say(text)

    def _tell_notices(self, pod: Seen) -> None:
        """Say once what this machine does not do as a cluster would, however many replicas it concerns."""
        self._tell_once(f"note: {text}" for text in _notices(pod))

    def _listen(self, pod: Seen, container: str) -> None:
        key = (pod.metadata.uid, container)
        if key not in self._streams:
            name = self._label(pod.metadata.name)
            if container != _main_container(pod):
                name = f"{name}/{container}"
            # One that has ended without a word has no output, and won't have any.
            runs = "running" in dict(_containers(pod))[container]
            lines = Lines(of_mpirun=is_launcher(pod.metadata.labels))
            tries = len(_PATIENCE_SECONDS) if runs else 1
            work = self._stream(pod.metadata.name, container, name, lines, tries=tries)
            self._streams[key] = asyncio.get_running_loop().create_task(work)

    async def _stream(self, pod: str, container: str, name: str, lines: Lines, tries: int) -> None:
        try:
            for pause in _PATIENCE_SECONDS[:tries]:
                if await self._read(pod, container, name, lines):
                    break
                await self._client.clock.sleep(pause)
            self._write(name, lines.end())
        except KubeError as error:
            self._screen.say(f"the output of {name} is cut off: {error}")
        except OSError as error:
            self._give_up(error)

    def _write(self, name: str, lines: list[bytes]) -> None:
        """Show lines with the name of their replica or, if mpirun was asked for it, of their rank."""
        if not self._is_tagged:
            self._screen.write(name, lines)
            return
        for rank, run in split_ranks(lines):
            label = name if rank is None else f"{self._title}rank {rank}"
            self._screen.add_name(label)
            self._screen.write(label, run)

    async def _read(self, pod: str, container: str, name: str, lines: Lines) -> bool:
        """Show a container's output to its end; False if the node does not know the container yet."""
        output = self._client.log(self.namespace, pod, **self._options | {"container": container})
        try:
            async with contextlib.aclosing(output):
                async for chunk in output:
                    self._heard = asyncio.get_running_loop().time()
                    whole = lines.feed(chunk)
                    self._on_output(whole)
                    self._write(name, whole)
                    self._screen.show_progress(name, lines.progress)
        except NotFound:
            return True
        except ApiError as error:
            if error.code != _BAD_REQUEST:
                raise
            return False
        return True

    def _give_up(self, error: OSError) -> None:
        """Nobody reads any more what replicas print."""
        self._broken = error
        self._over.set()

    async def _hear_the_rest(self) -> None:
        """The output of pods that have ended, to its end; of others until it is quiet."""
        if self.is_gone or self._broken is not None:
            return
        await self._look_again()
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        while pending := [task for task in self._streams.values() if not task.done()]:
            left = self._heard + _QUIET_SECONDS - loop.time()
            if left <= 0 and not any(self._must_hear(uid) for uid, _ in self._unheard()):
                return
            await asyncio.wait(pending, timeout=max(left, 0.05), return_when=asyncio.FIRST_COMPLETED)

    def _unheard(self) -> Iterator[tuple[str, str]]:
        return (key for key, task in self._streams.items() if not task.done())

    def _must_hear(self, uid: str) -> bool:
        return uid in self._ended

    async def _look_again(self) -> None:
        """Listen to all pods there are: the end of a job may be heard of before that of its pods."""
        with contextlib.suppress(KubeError):
            listing = await self._client.list(PODS, self.namespace, type=Seen, label_selector=self._selector)
            for pod in listing.items:
                self._on_pod(None, pod)


def _containers(pod: Seen) -> Iterator[tuple[str, Object]]:
    """Name and state of each container that is the user's."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for status in pod.status.get(field) or ():
            if not status["name"].startswith(_OURS):
                yield status["name"], status.get("state") or {}


def _started(pod: Seen) -> list[str]:
    return [name for name, state in _containers(pod) if "running" in state or "terminated" in state]


def _has_ended(pod: Seen) -> bool:
    """Whether all containers have; of those of a new pod nothing is known."""
    states = [state for _, state in _containers(pod)]
    return bool(states) and all("terminated" in state for state in states)


def _main_container(pod: Seen) -> str:
    containers: list[Object] = pod.spec.get("containers") or [{}]
    return str(containers[0].get("name", ""))


def _notices(pod: Seen) -> Iterator[str]:
    for condition in pod.status.get("conditions") or ():
        if condition.get("type") in _NOTICES:
            yield from (condition.get("message") or "").splitlines()


def _obstacles(name: str, job: Object) -> Iterator[str]:
    """Why the pods of a job can't be made."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if _is_obstacle(condition) and condition.get("message"):
            yield f"{name} waits: {condition.get('reason')}: {condition['message']}"


def _is_obstacle(condition: Object) -> bool:
    if condition.get("type") == "Initialized":
        return condition.get("status") == "False"
    # Kubeflow's MPIJob is Created whatever becomes of its pods: the reason tells.
    return condition.get("type") == "Created" and condition.get("reason") != _JOB_CREATED


def _troubles(pod: Seen) -> Iterator[str]:
    for name, state in _containers(pod):
        waiting = state.get("waiting") or {}
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        words = [*([reason] if reason not in _ON_ITS_WAY else ()), *([message] if message else ())]
        if words:
            yield f"{name} waits: {': '.join(words)}"
    for condition in pod.status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"not scheduled: {condition.get('message') or condition.get('reason')}"
