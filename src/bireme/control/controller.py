"""The controller: watch, decide, act, converge.

One pass over one job: read the caches, plan, do the actions, write the status if it differs. It keeps
nothing that a new process could not find out again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec

from bireme.api.colossalai import ColossalAIJob
from bireme.api.core import Pod
from bireme.api.kinds import JOB_KINDS, Kind
from bireme.api.mpi import MPIJob
from bireme.control.events import EventRecorder
from bireme.control.executor import Done, Executor, NotLeadingError, limit_pods
from bireme.control.expectations import Expectations, Written, metadata_of, version_number
from bireme.control.followed import Followed
from bireme.control.groups import group_resource
from bireme.control.jobs import JobKey, JobObject, UnreadableJobError, Verdicts, decode_job
from bireme.control.keys import generate_keys
from bireme.control.metrics import Metrics
from bireme.control.queue import WorkQueue
from bireme.control.releases import Releases
from bireme.control.times import Clock, WallClock
from bireme.control.unwatched import Unwatched
from bireme.kube.cache import Cache
from bireme.kube.cancelling import raise_if_cancelled
from bireme.kube.client import Client
from bireme.kube.errors import Conflict, KubeError, NotAllowedError, NotFound
from bireme.kube.resources import resource_of
from bireme.planning import Observed, Plan, Settings, plan
from bireme.planning.actions import CreatePod, EmitEvent
from bireme.planning.engines import finalizer, has_groups, members_of
from bireme.planning.observed import Job, Keys, NameConflict

log = logging.getLogger("bireme.controller")

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 32
INLINE_BYTES = 64 << 10
"""The largest job, spec and status, that is planned on the event loop; that takes some milliseconds."""
REPLICA_BYTES = 256
"""What a replica adds to the cost of a plan, as bytes of the job."""
PAUSE = 4.0
"""How many times the length of its last pass a job rests before it is looked at for its children's sake."""
LONGEST_PAUSE_SECONDS = 1.0
BEHIND_SECONDS = 10.0
"""How long a job waits for its caches to show what was written before it is looked at all the same."""
SHORTEST_WAIT_SECONDS = 0.02
"""So that a plan which asks to be woken at once can't keep a core busy."""


class OutdatedError(Exception):
    """The job is no longer as the cache shows it."""


class Decided(NamedTuple):
    """One look at a job, and what came of it."""

    job: Job
    observed: Observed
    made: Plan
    now: datetime
    size: int

    @property
    def makes_pods(self) -> bool:
        return any(isinstance(action, CreatePod) for action in self.made.actions)


class Controller:
    """Runs the jobs of a cluster, or of one namespace."""

    def __init__(
        self,
        client: Client,
        settings: Settings | None = None,
        *,
        kinds: Sequence[Kind] = JOB_KINDS,
        namespace: str | None = None,
        clock: Clock | None = None,
        make_keys: Callable[[], Keys] = generate_keys,
        may_write: Callable[[], bool] = lambda: True,
        with_pod_groups: bool = True,
        workers: int = WORKERS,
        inline_bytes: int = INLINE_BYTES,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client = client.guarded(may_write)
        self._settings = settings or Settings()
        self._kinds = {kind.crd_name: kind for kind in kinds}
        self._clock = clock or WallClock()
        self._make_keys = make_keys
        self._may_write = may_write
        self._workers = workers
        self._inline_bytes = inline_bytes
        # One thread: large jobs wait for one another, and the event loop shares the interpreter with one.
        self._thread = ThreadPoolExecutor(1, "planner")
        self.queue: WorkQueue[JobKey] = WorkQueue()
        self._expectations = Expectations()
        engine = self._settings.gang_engine
        self._groups = group_resource(engine)
        self._executor = Executor(client, self._expectations, may_write=may_write, groups=self._groups)
        self._events = EventRecorder(client)
        self._verdicts = Verdicts()
        self._unwatched = Unwatched(client)
        self._taken: dict[str, tuple[NameConflict, ...]] = {}
        self._running_since: set[str] = set()
        self._pass_seconds: dict[JobKey, float] = {}
        self._memories: tuple[Sized, ...] = (
            self._expectations, self._verdicts, self._unwatched, self._taken, self._running_since,
            self._pass_seconds,
        )  # fmt: skip
        self.metrics = metrics or Metrics()
        self._followed = Followed(
            client,
            self._kinds,
            self._groups if with_pod_groups and has_groups(engine) else None,
            namespace,
            job_changed=self._job_changed,
            pod_changed=self._pod_changed,
            child_changed=self._child_changed,
        )
        self._releases = Releases(client, finalizer(engine), self._followed.pods.get, may_write)
        self.metrics.watch_queue("jobs", self.queue.statistics)
        self.metrics.watch_jobs(self._followed.phases)

    # ---- running

    async def run(self) -> None:
        """Work until cancelled. Caches first: no job is looked at before all of them are in step."""
        caches = self.caches()
        async with asyncio.TaskGroup() as tasks:
            for cache in caches:
                tasks.create_task(cache.run())
            await asyncio.gather(*(cache.wait_synced() for cache in caches))
            log.info("caches are in step", extra={"jobs": sum(map(len, self._followed.jobs.values()))})
            tasks.create_task(self._releases.run())
            for _ in range(self._workers):
                tasks.create_task(self._work())

    def is_ready(self) -> bool:
        """Whether every cache is in step with the API server."""
        return not self.not_ready()

    def not_ready(self) -> list[str]:
        """The caches that are not in step yet, each with what is in its way."""
        return self._followed.not_ready()

    def caches(self) -> list[Cache[Any]]:
        """Everything that is followed."""
        return self._followed.caches()

    def statistics(self) -> dict[str, Any]:
        """Figures for people and tests; `remembered` counts what is kept of all jobs, beside the caches."""
        return {
            "remembered": sum(map(len, self._memories)),
            "queue": self.queue.statistics(),
            "jobs": sum(map(len, self._followed.jobs.values())),
            "pods": len(self._followed.pods),
            "expecting": len(self._expectations),
            "lostEvents": self._events.failures,
        }

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                await self._pass(key)
            finally:
                self.queue.done(key)
            raise_if_cancelled()
            # A pass with nothing to do waits for nobody: thousands of them would hold up the lease's renewal.
            await asyncio.sleep(0)

    async def _pass(self, key: JobKey) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        result = "success"
        try:
            if await self.reconcile(key):
                self.queue.forget(key)
            else:
                result = "requeue"
        except NotLeadingError:
            result = "not-leading"
        except OutdatedError:
            # While the cache is behind, another try ends the same; its news calls us earlier.
            result = "requeue"
            self.queue.retry(key)
        except (KubeError, TimeoutError) as error:
            result = "error"
            seconds = self.queue.retry(key)
            log.warning("pass failed: %s", error, extra={**self._words(key), "retryInSeconds": seconds})
        except Exception:
            # A bug in one job's plan must not stop the others.
            result = "error"
            seconds = self.queue.retry(key)
            log.exception("pass failed", extra={**self._words(key), "retryInSeconds": seconds})
        if self._uid_of(key):
            self._pass_seconds[key] = loop.time() - start
        self.metrics.reconciles.labels(key.kind, result).inc()
        self.metrics.reconcile_seconds.labels(key.kind).observe(loop.time() - start)

    def _uid_of(self, key: JobKey) -> str:
        """The UID of the job that has the name; none if nobody has it."""
        obj = self._followed.job(key)
        return obj.metadata.uid if obj is not None else ""

    def _words(self, key: JobKey) -> dict[str, str]:
        """What a line of the log says of the job that it is about."""
        return {"kind": key.kind, "namespace": key.namespace, "job": key.name, "uid": self._uid_of(key)}

    # ---- one pass

    async def reconcile(self, key: JobKey) -> bool:
        """Look at a job once; False if something went wrong that time may heal."""
        decided = await self._decide(key)
        if decided is not None and decided.makes_pods and self._unwatched.are_in_doubt(decided.job):
            await self._unwatched.look_again(decided.job)
            # That took a while, in which a pod may have gone.
            decided = await self._decide(key)
        if decided is None:
            return True
        try:
            return await self._make_so(key, decided)
        finally:
            # What was learned of a job that went meanwhile would be kept for ever.
            if self._uid_of(key) != (uid := decided.job.metadata.uid):
                self._forget(uid)

    async def _decide(self, key: JobKey) -> Decided | None:
        """What is to be done, as far as the caches tell; None if that is nothing, or not for now."""
        obj = self._followed.job(key)
        if obj is None or not self._may_write():
            return None
        uid = obj.metadata.uid
        if not self._expectations.are_met(uid, self._followed.look):
            # The cache that is behind calls us when it has caught up, unless what we wrote is gone by then.
            self.queue.add_after(key, BEHIND_SECONDS)
            return None
        size = len(obj.spec) + len(obj.status)
        try:
            job = await self._compute(size, decode_job, self._kinds[key.kind], obj)
            invalid = await self._compute(size, self._verdicts.errors, obj)
        except UnreadableJobError as error:
            log.warning("unreadable job: %s", error, extra=self._words(key))
            return None
        size += REPLICA_BYTES * sum(members_of(job).values())
        observed, now = self._observe(job, invalid), self._clock.now()
        return Decided(job, observed, await self._compute(size, plan, observed, now), now, size)

    async def _compute(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a pure function, for large jobs in a thread: the event loop has a lease to renew."""
        if size <= self._inline_bytes:
            return function(*args, **kwargs)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(function, *args, **kwargs))

    def _observe(self, job: Job, invalid: tuple[str, ...]) -> Observed:
        uid = job.metadata.uid
        return Observed(
            job,
            self._followed.pods_of(uid),
            (*self._followed.children_of(uid), *self._unwatched.children(job)),
            self._keys(job),
            invalid,
            self._taken.get(uid, ()),
            self._settings,
        )

    def _keys(self, job: Job) -> Keys:
        """Fresh keys for a job whose Secret we have not seen; a Secret that is there wins over them."""
        needed = isinstance(job, MPIJob | ColossalAIJob) and not self._unwatched.has(
            job.metadata.uid, "Secret"
        )
        return self._make_keys() if needed else Keys()

    async def _make_so(self, key: JobKey, decided: Decided) -> bool:
        job, observed, made, now, size = decided
        uid = job.metadata.uid
        self._taken.pop(uid, None)
        if made.record_first:
            job = await self._write_status(key, job, made)
        actions = limit_pods(made.actions)
        done = await self._executor.apply(job, actions)
        self._unwatched.remember(uid, done.created)
        if done.troubles or done.taken:
            self._taken[uid] = done.taken
            again = with_troubles(observed, done)
            replanned = await self._compute(size, plan, again, now)
            made = msgspec.structs.replace(replanned, record_first=made.record_first)
        if not made.record_first:
            job = await self._write_status(key, job, made)
        for event in made.actions:
            if isinstance(event, EmitEvent):
                await self._events.record(job, event, now)
        if done.troubles:
            self.queue.retry(key)
            return False
        if len(actions) < len(made.actions):
            self.queue.add_after(key, SHORTEST_WAIT_SECONDS)
        if made.wake_at is not None:
            seconds = max(SHORTEST_WAIT_SECONDS, self._clock.seconds_until(made.wake_at))
            self.queue.add_after(key, seconds)
        self._count_start(key, job, made)
        return True

    async def _write_status(self, key: JobKey, job: Job, made: Plan) -> Job:
        """Write the status if it differs; OutdatedError if the job has changed meanwhile, or is gone."""
        if made.status == job.status:
            return job
        if not self._may_write():
            raise NotLeadingError
        kind = self._kinds[key.kind]
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": job.metadata.name,
                "namespace": job.metadata.namespace,
                "uid": job.metadata.uid,
                "resourceVersion": job.metadata.resource_version,
            },
            "spec": {},
            "status": msgspec.to_builtins(made.status),
        }
        try:
            reply = await self._client.replace(
                resource_of(kind), job.metadata.namespace, job.metadata.name, body, subresource="status"
            )
        except NotAllowedError as error:
            raise NotLeadingError from error
        except (Conflict, NotFound) as error:
            raise OutdatedError from error
        seen = metadata_of(reply)
        version = version_number(seen.resource_version)
        written = Written(key.kind, seen.namespace, seen.name, seen.uid, version)
        self._expectations.add(job.metadata.uid, written)
        return msgspec.structs.replace(job, metadata=seen, status=made.status)

    def _count_start(self, key: JobKey, job: Job, made: Plan) -> None:
        start = made.status.start_time
        created = job.metadata.creation_timestamp
        if start is None or created is None or job.metadata.uid in self._running_since:
            return
        self._running_since.add(job.metadata.uid)
        self.metrics.start_seconds.labels(key.kind).observe(max(0.0, (start - created).total_seconds()))

    # ---- what has changed

    def _job_changed(self, kind: str, old: JobObject | None, new: JobObject | None) -> None:
        obj = new or old
        assert obj is not None
        key = JobKey(kind, obj.metadata.namespace, obj.metadata.name)
        if old is not None and new is not None and _is_status_alone(old, new):
            self._look_soon(key)
        else:
            self.queue.add(key)
        if new is None:
            self._forget(obj.metadata.uid)
            self._pass_seconds.pop(key, None)

    def _forget(self, uid: str) -> None:
        """A job is gone."""
        self._expectations.forget(uid)
        self._verdicts.forget(uid)
        self._unwatched.forget(uid)
        self._taken.pop(uid, None)
        self._running_since.discard(uid)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._releases.hear(new)
        self._child_changed(old, new)

    def _child_changed(self, old: Any, new: Any) -> None:
        child = new if new is not None else old
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        for owner in child.metadata.owner_references:
            if owner.controller:
                key = self._key_of(owner.api_version, owner.kind, child.metadata.namespace, owner.name)
                if key is not None:
                    if is_gone:
                        self._unwatched.doubt(owner.uid)
                        # A name that a job waits for, as after the deletion of an earlier job of its name.
                        self._taken.pop(self._uid_of(key), None)
                    self._look_soon(key)

    def _look_soon(self, key: JobKey) -> None:
        """Children of a large job change by the hundred: one pass, and one status, then speaks for many."""
        self.queue.add_after(key, min(LONGEST_PAUSE_SECONDS, PAUSE * self._pass_seconds.get(key, 0)))

    def _key_of(self, api_version: str, kind: str, namespace: str, name: str) -> JobKey | None:
        for crd, known in self._kinds.items():
            if known.kind == kind and known.api_version == api_version:
                return JobKey(crd, namespace, name)
        return None


def with_troubles(observed: Observed, done: Done) -> Observed:
    """Return what a pass saw together with the actions that failed, so that the job's status reports them."""
    troubles = tuple((trouble.reason, trouble.message) for trouble in done.troubles[:1])
    return msgspec.structs.replace(observed, taken=(*observed.taken, *done.taken), troubles=troubles)


def _is_status_alone(old: JobObject, new: JobObject) -> bool:
    """Whether nothing but the status has changed, which is ours to write."""
    same_version = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return same_version == old.metadata
