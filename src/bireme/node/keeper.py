"""Keeps one pod: asks `life` what it needs, does it, and tells the API server what has become of it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.kube.resources import resource_for
from bireme.node import shims
from bireme.node.ailments import report_problem
from bireme.node.care import Care
from bireme.node.conditions import with_foreign
from bireme.node.driver import Origin, UnstartableError, message_file, read_origin
from bireme.node.drivers import Drivers
from bireme.node.environment import Sources
from bireme.node.fetching import fetch_node_labels, fetch_sources, find_missing
from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.ignored_fields import describe_missing
from bireme.node.last_words import read_last_words
from bireme.node.life import Step, step
from bireme.node.memory import explain_lack
from bireme.node.networks import NetworkError, Networks
from bireme.node.notices import announce, report
from bireme.node.nursery import Nursery
from bireme.node.obstacles import RETRY, Obstacles
from bireme.node.orders import (
    CheckShim,
    EndPod,
    KillContainer,
    Order,
    RunHook,
    RunProbe,
    SignalContainer,
    StartContainer,
)
from bireme.node.phase import FINISHED
from bireme.node.seen import ContainerSeen, Object, Problem, Seen, read_record
from bireme.node.shims import Shim, ShimError, State
from bireme.node.status import with_addresses
from bireme.node.telling import Teller, Told
from bireme.node.volumes import VolumeError, Volumes
from bireme.planning.timing import earliest

log = logging.getLogger("bireme.node")


class Keeper:
    """One pod of this node, from its binding until it is gone."""

    def __init__(
        self,
        pod: Object,
        client: Client,
        folder: NodeFolder,
        driver: Drivers,
        networks: Networks,
        nursery: Nursery,
        now: Callable[[], datetime],
        allocatable: dict[str, str],
    ) -> None:
        self._pod, self._client, self._driver, self._now = pod, client, driver, now
        self._node_folder, self._allocatable, self._networks = folder, allocatable, networks
        self._nursery = nursery
        self._network: dict[str, Any] | None = None
        self._pod_ips: tuple[str, ...] = ()
        metadata = pod["metadata"]
        self.uid, self.namespace, self.name = metadata["uid"], metadata["namespace"], metadata["name"]
        self.folder: PodFolder = folder.pod(self.uid)
        self._wake = asyncio.Event()
        self._listeners: set[asyncio.Event] = set()
        self._shim: Shim | None = None
        self._state: State | None = shims.read_state(self.folder)
        self._stopping: datetime | None = None
        self._obstacles = Obstacles(self._complain, now)
        self._volumes: dict[str, Path] | None = None
        self._sources: Sources | None = None
        self._origin = Origin()
        self._notices: tuple[str, ...] = ()
        self._teller = Teller(client, pod)
        self._care = Care(self, client, networks, now)
        self._errands: set[asyncio.Task[None]] = set()
        self._is_gone = False
        self._has_ended = False
        self.is_departed = False
        """Whether the pod had ended before it went: somebody may still ask for what it wrote."""

    # ---- what others tell it

    def update(self, pod: Object) -> None:
        """The pod has changed. Its status is ours, but for what others say of it."""
        self._pod = pod | {"status": with_foreign(self._pod.get("status") or {}, pod.get("status") or {})}
        self._wake.set()

    def forget(self) -> None:
        """The pod is gone from the API: whatever runs of it must go."""
        self._is_gone = True
        self._wake.set()

    @property
    def pod(self) -> Object:
        return self._pod

    def attempt_of(self, container: str) -> int | None:
        """The last attempt at a container; None if there was none."""
        record = ((self._state or {}).get("containers") or {}).get(container)
        return None if record is None else record["attempt"]

    def exit_code(self, container: str) -> int:
        """How the last attempt at a container ended; 0 if it has not."""
        record = ((self._state or {}).get("containers") or {}).get(container) or {}
        code: int = record.get("code", 0)
        return code

    def runs(self, container: str) -> bool:
        record = ((self._state or {}).get("containers") or {}).get(container)
        return record is not None and "finished" not in record and self._shim is not None

    @contextlib.contextmanager
    def changes(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever a container may have ended."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            yield changed
        finally:
            self._listeners.discard(changed)

    def wake(self) -> None:
        """Something may have changed."""
        self._wake.set()

    def message_file(self, name: str) -> Path:
        """Where the termination message of a container's present attempt is."""
        return message_file(self.folder, name, self.attempt_of(name) or 0)

    def container_spec(self, name: str) -> Object:
        spec = self._pod["spec"]
        every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        found: Object = next((each for each in every if each["name"] == name), {})
        return found

    def errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside all else; what is not done when the pod is left is given up."""
        task = asyncio.get_running_loop().create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    # ---- its life

    async def run(self) -> None:
        """Keep the pod until nothing is left of it."""
        try:
            await self._resume()
            while not self._is_gone:
                self._wake.clear()
                self._obstacles.forget()
                made = step(self._pod, self._seen(), self._now())
                self._stopping = made.stopping
                await self._do(made)
                await self._tell(made)
                if made.done:
                    self._driver.devices.release(self.uid)
                    self._networks.release(self._pod)
                if made.done and "deletionTimestamp" in self._pod["metadata"]:
                    await self._remove()
                if not self._is_gone:
                    await self._sleep(made.wake_at)
        finally:
            await self._leave()

    async def _resume(self) -> None:
        """Find what an earlier process has left."""
        self._shim = self._connect()
        if self._shim is not None:
            await self._take_up()
        elif self._state is not None and "ended" not in self._state:
            self._sweep()

    def _connect(self) -> Shim | None:
        return shims.find(self.folder, self._on_state, self._on_refusal)

    async def _take_up(self) -> None:
        """Be again what an earlier process was to a pod that still runs."""
        orders = shims.read_orders(self.folder)
        self._driver.devices.restore(self.uid, orders.get("devices", {}))
        if "network" in orders or self._state is not None:
            await self._join(await self._find_job())

    async def _do(self, made: Step) -> None:
        found: list[Problem] = []
        for order in made.orders:
            try:
                await self._obey(order)
            except UnstartableError as error:
                found.append(error.problem)
            except ShimError as error:
                found.append(Problem("RunContainerError", f"the pod can't be started: {error}"))
            except OSError as error:
                why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
                found.append(Problem("RunContainerError", f"the pod can't be started: {why}"))
        if found:
            self._meet(*found)

    def _meet(self, *problems: Problem) -> None:
        self._obstacles.meet(*problems)
        self._wake.set()

    def _complain(self, problem: Problem) -> None:
        said = report_problem(problem)
        self.errand(report(self._client, self._pod, problem.container, [said], self._now()))

    async def _sleep(self, wake_at: datetime | None) -> None:
        moment = earliest(wake_at, self._obstacles.retry_at)
        seconds = None if moment is None else max(0.0, (moment - self._now()).total_seconds())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _leave(self) -> None:
        for errand in list(self._errands):
            errand.cancel()
        if not self._is_gone:
            if self._shim is not None:
                self._shim.close()
            return
        if self._shim is not None:
            self._shim.send({"do": "end"})
            self._shim.close()
        self._networks.leave(self._pod)
        self._driver.devices.release(self.uid)
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        shims.clear(self.uid, self._state or shims.read_state(self.folder))
        self._driver.clear(self._pod, self.folder)
        self._node_folder.unlink(self.namespace, self.name, self.folder)
        folder = self.folder
        if self._pod["status"].get("phase") in FINISHED:
            self.folder, self.is_departed = self._node_folder.keep_output(folder), True
        self._driver.remove(folder)

    def open_output(self, container: str, attempt: int) -> tuple[Path, BinaryIO]:
        """What a container wrote, open, since it may be put aside at any time. Raises FileNotFoundError."""
        try:
            path = self.folder.output(container, attempt)
            return path, path.open("rb")
        except FileNotFoundError:
            path = self._node_folder.kept(self.uid).output(container, attempt)
            return path, path.open("rb")

    # ---- what is seen

    def _seen(self) -> Seen:
        records = (self._state or {}).get("containers") or {}
        alive = self._shim is not None and not self._shim.is_gone
        return Seen(
            containers={
                name: self._container(name, record) for name, record in records.items() if "started" in record
            },
            dealings=self._care.dealings,
            shim="alive" if alive else "lost" if self._state is not None else "absent",
            problems=self._obstacles.problems,
            stopping=self._stopping,
            host_ips=("127.0.0.1",),
            pod_ips=self._pod_ips,
            notices=self._notices,
            output_cut=self._describe_cut(records),
            rebooted=self._state is not None and not shims.is_of_this_boot(self._state),
        )

    def _describe_cut(self, records: dict[str, dict[str, Any]]) -> str:
        """Why output is missing; the same words for all pods, so that a user reads them once."""
        if not any(record.get("cut") for record in records.values()):
            return ""
        disk = self._node_folder.path.parent
        return f"output is cut: the disk of {disk} is full; `bireme delete JOB` frees the space of a job"

    def _container(self, name: str, record: dict[str, Any]) -> ContainerSeen:
        if "finished" not in record:
            return read_record(record)
        self._driver.complete(self.folder, name, record)
        said = read_last_words(self.folder, self._pod, self.container_spec(name), record)
        if record.get("code") and "why" not in record:
            record["why"] = self._explain(name, record["attempt"], said)
        return read_record(
            record, f"{said.rstrip()}\n{record['why']}".lstrip() if record.get("why") else said
        )

    def _explain(self, name: str, attempt: int, said: str) -> str:
        """Why a container failed, where it can't know that itself."""
        whys = (
            self._care.blame(name, attempt),
            self._networks.explain(self._pod, said),
            explain_lack(self._pod, self._networks.fellows(self._pod)),
        )
        return "\n".join(why for why in whys if why)

    def _on_state(self, state: State | None) -> None:
        if state is not None:
            self._state = state
        else:
            self._shim = None
            if self._state is not None and not self._has_ended:
                log.warning("the shim is gone", extra={"pod": self.name})
                self._sweep()
        for each in (self._wake, *self._listeners):
            each.set()

    def _sweep(self) -> None:
        """End what is left of a pod whose shim is gone."""
        shims.sweep(self.uid, self._state)
        self.errand(self._driver.sweep(self.folder))

    def _on_refusal(self, container: str, why: str) -> None:
        self._meet(Problem("RunContainerError", f"the container can't be started: {why}", container))

    # ---- what it does

    async def _obey(self, order: Order) -> None:
        match order:
            case StartContainer():
                await self._start(order)
                self._care.note(order)
            case SignalContainer():
                self._send({"do": "signal", "container": order.container, "signal": int(order.signum)})
                self._care.note(order)
            case KillContainer():
                self._send({"do": "kill", "container": order.container})
                self._care.note(order)
            case RunHook():
                self._care.note(order)
                self._care.run_hook(order)
            case RunProbe():
                self._care.note(order)
                self._care.run_probe(order)
            case CheckShim():
                self.errand(self._check_shim())
            case EndPod():
                self._send({"do": "end"})
                self._has_ended = True

    async def _check_shim(self) -> None:
        if not await shims.answers(self.folder):
            log.warning("a shim that does not answer is killed", extra={"pod": self.name})
            shims.kill_shim(self._state)

    def _send(self, order: dict[str, Any]) -> None:
        if self._shim is not None:
            self._shim.send(order)

    async def _start(self, order: StartContainer) -> None:
        container = self.container_spec(order.container)
        await self._prepare()
        assert self._volumes is not None
        assert self._sources is not None
        # A container may ask for the pod's address, which no status had to tell until now.
        pod = self._pod | {"status": with_addresses(self._pod.get("status") or {}, self._seen())}
        try:
            wanted = await self._driver.start_order(
                pod, container, order.attempt, self.folder, self._volumes, self._sources, self._origin
            )
        except UnstartableError:
            # What it refers to may come, or change: it is looked up again.
            self._volumes = None
            raise
        self._notice(wanted.pop("notices", []))
        self._write_orders()
        if self._shim is None:
            await self._nursery.start(self.folder)
            self._shim = self._connect()
        self._send(wanted)

    def _write_orders(self) -> None:
        """Say what a new shim is to make, and which devices the pod has by now: that outlives us."""
        known = shims.read_orders(self.folder) if self._shim is not None else None
        wanted = self._driver.pod_orders(self._pod, self._network) if known is None else known
        wanted = wanted | {"devices": self._driver.devices.held(self.uid)}
        if wanted != known:
            shims.write_orders(self.folder, wanted)

    def _notice(self, texts: list[str]) -> None:
        """Tell what is not as the manifest says; each thing once."""
        new = [text for text in texts if text not in self._notices]
        if new:
            self._notices += tuple(new)
            self.errand(self._announce(new))

    async def _announce(self, notices: list[str]) -> None:
        await announce(self._client, self._pod, await self._find_job(), notices, self._now())

    async def _prepare(self) -> None:
        """Folders, volumes and references; made once, before the first container."""
        if self._volumes is not None:
            return
        self.folder.make()
        self._node_folder.link(self.namespace, self.name, self.folder)
        sources = await fetch_sources(self._client, self._pod, self._allocatable)
        claims = self._node_folder.path / "claims"
        missing = list(describe_missing(await find_missing(self._client, self._pod, claims)))
        volumes = Volumes(self._pod, self.folder.volumes, claims, sources)
        try:
            made = await asyncio.to_thread(volumes.make_all)
        except VolumeError as error:
            raise UnstartableError(Problem("ContainerCreating", str(error), fatal=error.is_fatal)) from error
        except OSError as error:
            raise UnstartableError(
                Problem("ContainerCreating", f"{error.filename}: {error.strerror}")
            ) from error
        job = await self._find_job()
        self._origin = read_origin(job)
        try:
            self._network = await self._join(job)
        except NetworkError as error:
            raise UnstartableError(Problem("NetworkNotReady", str(error))) from error
        self._volumes, self._sources = made, sources
        labels = await fetch_node_labels(self._client, self._pod)
        self._notice([*self._driver.describe_ignored(self._pod, self._origin, labels), *missing])

    async def _join(self, job: Object | None) -> dict[str, Any] | None:
        """Give the pod its address; return what its shim needs for that."""
        entry = self._driver.entry(self._pod, read_origin(job))
        network = await self._networks.join(self._pod, self.folder, job, entry)
        self._pod_ips = (self._networks.address(self._pod),)
        return network

    async def _find_job(self) -> Object | None:
        """The job that the pod belongs to."""
        for owner in self._pod["metadata"].get("ownerReferences") or ():
            with contextlib.suppress(KubeError, LookupError):
                resource = resource_for(owner["kind"], owner["apiVersion"])
                job: Object = await self._client.get(resource, self.namespace, owner["name"])
                return job
        return None

    # ---- what it tells

    async def _tell(self, made: Step) -> None:
        self._pod = self._pod | {"status": made.status}
        self._heed(await self._teller.tell(made.status))

    async def _remove(self) -> None:
        """Take a pod away that was asked to go, and of which nothing runs."""
        self._heed(await self._teller.remove(self._pod["status"]))

    def _heed(self, told: Told) -> None:
        self._is_gone = self._is_gone or told == "gone"
        if told == "later":
            asyncio.get_running_loop().call_later(RETRY.total_seconds(), self._wake.set)
