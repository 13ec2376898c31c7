"""What MPI and ColossalAI jobs have in common: one launcher, and workers that it logs in to.

The launcher proves that it can reach every worker before it starts anything, so launcher and workers are
created together. If one pod of the crew is lost, the whole crew starts again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Final

import msgspec

from bireme.api.job import (
    FirstFailure,
    JobStatus,
    PodTemplate,
    ReplicaDebugSet,
    ReplicaStatus,
    ResumeSpec,
    RunMode,
)
from bireme.api.names import LAUNCHER_TYPE, WORKER_TYPE
from bireme.planning import backoff
from bireme.planning.actions import Action, CreatePod, DeletePod, Manifest
from bireme.planning.cause import first_failure
from bireme.planning.crew import Advance
from bireme.planning.identity import STDIN_ANNOTATION
from bireme.planning.observed import BatchJob, Observed
from bireme.planning.outcome import INCOMPLETE_RUN, describe_loss, is_incomplete
from bireme.planning.pods import (
    PodBuilder,
    complete_spec,
    idle_others,
    in_debug,
    main_container_name,
    resumed,
)
from bireme.planning.replicas import Mode, Replica, gone, is_final, pod_mode, seen, step
from bireme.planning.rules import Verdict
from bireme.planning.site import Site, build_worker_spec, without_init
from bireme.planning.timing import earliest

LAUNCHER_SUCCEEDED: Final = "LauncherSucceeded"
LAUNCHER_FAILED: Final = "LauncherFailed"
WORKER_FAILED: Final = "WorkerFailed"
INPUT_LOST: Final = "InputLost"
LAUNCHER_WORDS: Final = (LAUNCHER_TYPE, "master")
SETTLE: Final = timedelta(seconds=2)

Records = dict[tuple[str, int], ReplicaStatus]


class LaunchCrew(ABC):
    """A launcher and its workers; the kinds say how their pods look."""

    main_container: str
    launcher_container: str

    def __init__(self, job: BatchJob, workers: int, template: PodTemplate, slots: int) -> None:
        self._job = job
        self._workers = workers
        self._template = template
        self._slots = slots

    def types(self) -> Sequence[tuple[str, int]]:
        return [(LAUNCHER_TYPE, 1), (WORKER_TYPE, self._workers)]

    def main(self, replica_type: str) -> str:
        if replica_type == LAUNCHER_TYPE:
            return self.launcher_container
        return main_container_name(self._template, self.main_container)

    @abstractmethod
    def children(self, observed: Observed) -> list[Manifest]:
        """All that must be there before the pods, in the order of creation."""

    @abstractmethod
    def launcher_spec(self, observed: Observed, mode: Mode) -> Manifest:
        """The launcher's pod spec, before what every pod gets."""

    @abstractmethod
    def site(self, observed: Observed) -> Site:
        """Where the job's files are, and how its launcher reaches its workers."""

    def cause(
        self, replicas: Sequence[Replica], verdict: Verdict, now: datetime, *, keep_message: bool
    ) -> FirstFailure | None:
        names = [replica.name for replica in replicas if replica.type == WORKER_TYPE]
        decisive = [replica for replica in replicas if replica.name in verdict.culprits]
        return first_failure(
            decisive,
            now,
            keep_message=keep_message,
            workers=names,
            worker_of=self.worker_of,
            slots=self._workers * self._slots,
        )

    def worker_of(self, rank: int) -> int | None:
        """The index of the worker that a rank runs on, None where that is not known."""
        del rank
        return None

    def advance(self, observed: Observed, replicas: Sequence[Replica], mode: Mode, now: datetime) -> Advance:
        create = self._creator(observed, mode)
        if mode == "debug":
            return _each_for_itself(replicas, create, now)
        records = {(replica.type, replica.index): seen(replica) for replica in replicas}
        lost = _lost(replicas)
        verdict, judged = _judge(replicas, records, now)
        if verdict is not None and (verdict.end == "Succeeded" or not lost):
            return _settled(verdict, judged, records, now)
        if lost and reads_stdin(self._job):
            message = f"{lost}, and the standard input of the job can't be read again"
            return Advance(records, verdict=Verdict("Failed", INPUT_LOST, message))
        if lost:
            return _start_again(replicas, records, lost, disrupted=True)
        if flipped := _made_in_another_mode(replicas, mode):
            return _start_again(replicas, records, flipped, disrupted=False)
        if any(replica.record.replacing and replica.pod is not None for replica in replicas):
            return Advance(records, _deletes(replicas), restarting=True)
        return self._create_missing(replicas, records, create, now)

    def _create_missing(
        self,
        replicas: Sequence[Replica],
        records: Records,
        create: Callable[[Replica], CreatePod],
        now: datetime,
    ) -> Advance:
        missing = [replica for replica in replicas if replica.pod is None]
        records = {**records, **{(r.type, r.index): gone(r.record) for r in missing}}
        status = self._job.status or JobStatus()
        ready = backoff.ready_at(status.disrupted_at, status.disruptions)
        if missing and ready is not None and now < ready:
            return Advance(records, wake_at=ready)
        return Advance(records, tuple(create(replica) for replica in missing))

    def _creator(self, observed: Observed, mode: Mode) -> Callable[[Replica], CreatePod]:
        site = self.site(observed)

        @cache
        def builder(replica_type: str) -> PodBuilder:
            made = (
                self.launcher_spec(observed, mode)
                if replica_type == LAUNCHER_TYPE
                else self._worker_spec(site, mode)
            )
            return PodBuilder(self._job, replica_type, self._template, mode, complete_spec(self._job, made))

        def create(replica: Replica) -> CreatePod:
            return builder(replica.type).create(replica.index, lambda spec: site.network(spec, replica.name))

        return create

    def _worker_spec(self, site: Site, mode: Mode) -> Manifest:
        spec = self._template.get("spec") or {}
        run_mode = self._job.spec.run_mode
        main = self.main(WORKER_TYPE)
        if mode == "debug" and run_mode is not None and run_mode.debug is not None:
            for debug in run_mode.debug.replica_specs:
                if debug.type == WORKER_TYPE:
                    built = build_worker_spec(site, without_init(spec, skip=debug.skip_init_container), main)
                    return in_debug(built, debug.command, skip_init=False)
        if mode == "resume" and run_mode is not None and run_mode.pause is not None:
            for resume in run_mode.pause.resume_specs:
                if resume.type == WORKER_TYPE:
                    built = build_worker_spec(site, without_init(spec, skip=resume.skip_init_container), main)
                    return resumed(built, resume.command, resume.args, main, skip_init=False)
        built = build_worker_spec(site, spec, main)
        return idle_others(built, main) if mode == "debug" else built


def reads_stdin(job: BatchJob) -> bool:
    """Whether the client that sent a job also sends the standard input of rank 0."""
    return job.metadata.annotations.get(STDIN_ANNOTATION) == "true"


def launcher_debug(mode: RunMode | None) -> ReplicaDebugSet:
    """What debug mode says of the launcher, which the manual also calls master."""
    sets = mode.debug.replica_specs if mode is not None and mode.debug is not None else ()
    return next(
        (entry for entry in sets if entry.type in LAUNCHER_WORDS), ReplicaDebugSet(type=LAUNCHER_TYPE)
    )


def launcher_resume(mode: RunMode | None) -> ResumeSpec | None:
    """What is set for the launcher of a resumed job."""
    specs = mode.pause.resume_specs if mode is not None and mode.pause is not None else ()
    return next((entry for entry in specs if entry.type in LAUNCHER_WORDS), None)


def _each_for_itself(
    replicas: Sequence[Replica], create: Callable[[Replica], CreatePod], now: datetime
) -> Advance:
    """In debug mode nobody depends on another: a replica that exits comes back alone."""
    steps = {
        (replica.type, replica.index): step(
            replica, now, mode="debug", create=create, restarts=lambda _ended, _record: False
        )
        for replica in replicas
    }
    return Advance(
        {member: taken.record for member, taken in steps.items()},
        tuple(action for taken in steps.values() for action in taken.actions),
        earliest(*(taken.wake_at for taken in steps.values())),
        events=tuple(
            f"{replica.name} {taken.event}"
            for replica, taken in zip(replicas, steps.values(), strict=True)
            if taken.event
        ),
    )


def _judge(replicas: Sequence[Replica], records: Records, now: datetime) -> tuple[Verdict | None, Records]:
    """Success if the launcher exited with 0 and no worker failed before it; any other end is a failure."""
    ended = {
        (replica.type, replica.index): replica
        for replica in replicas
        if replica.ended is not None and replica.ended.end != "disrupted" and not replica.record.replacing
    }
    finished = {member: _finished(records[member], replica, now) for member, replica in ended.items()}
    launcher = ended.get((LAUNCHER_TYPE, 0))
    limit = finished[LAUNCHER_TYPE, 0].finished_at if launcher is not None else None
    workers = [
        replica
        for member, replica in ended.items()
        if replica.type == WORKER_TYPE
        and _came_first(replica, finished[member].finished_at or now, launcher, limit)
    ]
    verdict = _verdict(launcher, workers)
    if verdict is not None and launcher is not None and launcher.ended is not None:
        verdict = msgspec.structs.replace(verdict, time=launcher.ended.finished_at)
    return verdict, {**records, **finished}


def _came_first(worker: Replica, time: datetime, launcher: Replica | None, limit: datetime | None) -> bool:
    """Whether a worker ended before its launcher.

    Times are whole seconds, and an end that nobody saw has none. So a worker that failed about when its
    launcher did is what the launcher failed of: on its own it would have gone on. A success is not doubted.
    """
    if launcher is None or limit is None or time <= limit:
        return True
    assert worker.ended is not None
    assert launcher.ended is not None
    both_failed = worker.ended.end == launcher.ended.end == "failed"
    return both_failed and (worker.ended.finished_at is None or time <= limit + SETTLE)


def _settled(verdict: Verdict, judged: Records, records: Records, now: datetime) -> Advance:
    """The verdict, once it can't be overtaken.

    A launcher fails when one of its workers is evicted, and is often seen first: its failure is held for a
    moment, in which the eviction may still show. One whose end nobody saw has no time to hold it from.
    """
    is_held = verdict.reason in (LAUNCHER_FAILED, INCOMPLETE_RUN)
    if not is_held or verdict.time is None or now >= verdict.time + SETTLE:
        return Advance(judged, verdict=verdict)
    return Advance(records, wake_at=verdict.time + SETTLE)


def _finished(record: ReplicaStatus, replica: Replica, now: datetime) -> ReplicaStatus:
    assert replica.ended is not None
    time = record.finished_at or replica.ended.finished_at or now
    return msgspec.structs.replace(record, finished_at=time)


def _verdict(launcher: Replica | None, workers: Sequence[Replica]) -> Verdict | None:
    if workers:
        names = tuple(replica.name for replica in workers)
        return Verdict(
            "Failed", WORKER_FAILED, f"worker {names[0]} ended before the launcher", culprits=names
        )
    if launcher is None or launcher.ended is None:
        return None
    if launcher.ended.end == "succeeded":
        return Verdict("Succeeded", LAUNCHER_SUCCEEDED, "the launcher succeeded")
    if is_incomplete(launcher.ended):
        return Verdict("Failed", INCOMPLETE_RUN, launcher.ended.message.strip(), culprits=(launcher.name,))
    return Verdict("Failed", LAUNCHER_FAILED, "the launcher failed", culprits=(launcher.name,))


def _lost(replicas: Sequence[Replica]) -> str:
    """Which pod was lost through no fault of its program, in words; empty if none was."""
    for replica in replicas:
        if replica.record.replacing or is_final(replica.record):
            continue
        if replica.pod is None and replica.record.uid:
            return f"{replica.name} was deleted by somebody else"
        if replica.ended is not None and replica.ended.end == "disrupted":
            return f"{replica.name} {describe_loss(replica.ended)}"
    return ""


def _made_in_another_mode(replicas: Sequence[Replica], mode: Mode) -> str:
    for replica in replicas:
        if replica.pod is not None and not replica.record.replacing and pod_mode(replica.pod) != mode:
            return f"{replica.name} was made in mode {pod_mode(replica.pod)}"
    return ""


def _start_again(replicas: Sequence[Replica], records: Records, why: str, *, disrupted: bool) -> Advance:
    taken = {member: _replaced(record) for member, record in records.items()}
    event = f"{why}; the whole job starts again"
    return Advance(taken, _deletes(replicas), events=(event,), restarting=True, disrupted=disrupted)


def _replaced(record: ReplicaStatus) -> ReplicaStatus:
    return msgspec.structs.replace(record, waiting=True, finished_at=None, replacing=bool(record.uid))


def _deletes(replicas: Sequence[Replica]) -> tuple[Action, ...]:
    return tuple(
        DeletePod(replica.name, replica.pod.metadata.uid, "the whole job starts again")
        for replica in replicas
        if replica.pod is not None and replica.pod.metadata.deletion_timestamp is None
    )
