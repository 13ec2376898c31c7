"""MPIJob of Kubeflow, v1alpha2: mpirun in the user's launcher, which reaches workers through pod exec."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bireme.api.job import FirstFailure, ReplicaStatus
from bireme.api.kubeflow import (
    DEFAULT_BACKOFF_LIMIT,
    LAUNCHER,
    WORKER,
    JobCondition,
    MPIJob,
    MPIJobStatus,
    ReplicaCounts,
    ReplicaSpec,
    RunPolicy,
)
from bireme.api.mpirun import worker_of
from bireme.api.names import LAUNCHER_TYPE, WORKER_TYPE
from bireme.planning import backoff
from bireme.planning.actions import Action, CreatePod, DeleteJob, DeletePod, EmitEvent
from bireme.planning.cause import first_failure
from bireme.planning.children import missing_children
from bireme.planning.cleanup import Policy, clean_up
from bireme.planning.conditions import Say
from bireme.planning.conflict import NAME_CONFLICT, describe_conflicts
from bireme.planning.ending import INVALID_SPEC, MAX_MESSAGE, last_seen, tell
from bireme.planning.gang import create_pod_group, delete_pod_group, shrink_pod_group
from bireme.planning.identity import queue_place, replica_name
from bireme.planning.kubeflow_pods import RIGHTS, build_children, mpirun_options, pod_creator
from bireme.planning.observed import NameConflict, Observed, Plan
from bireme.planning.outcome import (
    DEADLINE_EXCEEDED,
    EVICTED,
    INCOMPLETE_RUN,
    PREEMPTED,
    Outcome,
    describe_loss,
    is_incomplete,
)
from bireme.planning.pods import main_container_name
from bireme.planning.replicas import FINISHED, Replica, gone, has_run, observe, seen, stop
from bireme.planning.rules import Verdict
from bireme.planning.stalls import find_stall, next_look
from bireme.planning.status import build_tasks, records_of
from bireme.planning.timing import earliest
from bireme.planning.waiting import WAITING_FOR_REPLICAS, build_event, find_reason, hold_back
from bireme.planning.words import some

CREATED: Final = "Created"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DISRUPTED: Final = "Disrupted"
WORKER_EXITED: Final = "WorkerExited"
_EXITED_EARLY: Final = "a worker must run until the launcher has ended: without a command it does"
_CLEAN: Final[dict[str, Policy]] = {"None": "none", "Running": "unfinished", "All": "all"}
_PERMANENT_EXIT_CODES: Final = range(1, 128)
_JOB_CREATED: Final = (True, "JobCreated", "the job has been created")

Records = dict[tuple[str, int], ReplicaStatus]


def plan_kubeflow(job: MPIJob, observed: Observed, now: datetime) -> Plan:
    """Plan a Kubeflow MPIJob."""
    return _Pass(job, observed, now).plan()


class _Pass:
    """One pass over one job."""

    def __init__(self, job: MPIJob, observed: Observed, now: datetime) -> None:
        self.job = job
        self.observed = observed
        self.now = now
        self.status = job.status or MPIJobStatus()
        self.policy = job.spec.run_policy or RunPolicy()
        self.launcher = job.spec.mpi_replica_specs.get(LAUNCHER, ReplicaSpec())
        self.workers = job.spec.mpi_replica_specs.get(WORKER, ReplicaSpec())
        self.types = [(LAUNCHER_TYPE, 1), (WORKER_TYPE, self.workers.replicas)]

    def plan(self) -> Plan:
        if self.job.metadata.deletion_timestamp is not None:
            return Plan((), self.status)
        if self._is(SUCCEEDED) or self._is(FAILED):
            return self._after_the_end()
        if self.observed.invalid:
            message = "; ".join(self.observed.invalid)[:MAX_MESSAGE]
            return self._end([], {}, Verdict("Failed", INVALID_SPEC, message))
        replicas = self._replicas()
        if taken := self._conflicts(replicas):
            return self._report_conflict(replicas, taken)
        return self._live(replicas)

    # ---- what is set

    @property
    def backoff_limit(self) -> int:
        limit = self.explicit_backoff_limit
        return DEFAULT_BACKOFF_LIMIT if limit is None else limit

    @property
    def explicit_backoff_limit(self) -> int | None:
        own = self.policy.backoff_limit
        return self.job.spec.backoff_limit if own is None else own

    @property
    def clean_policy(self) -> Policy:
        return _CLEAN[self.policy.clean_pod_policy or self.job.spec.clean_pod_policy or "None"]

    @property
    def deadline(self) -> datetime | None:
        """When the job has been active for too long; it binds with OnFailure and Always."""
        return self._deadline_from(self.status.start_time) if self.status.start_time is not None else None

    def _deadline_from(self, start: datetime) -> datetime | None:
        seconds = self.policy.active_deadline_seconds or self.job.spec.active_deadline_seconds
        if seconds is None or self.launcher.restart_policy not in ("OnFailure", "Always"):
            return None
        return start + timedelta(seconds=seconds)

    def _is(self, type_: str) -> bool:
        return any(c.type == type_ and c.status == "True" for c in self.status.conditions)

    def _replicas(self) -> list[Replica]:
        records = records_of(self.status.tasks)
        pods = {pod.metadata.name: pod for pod in self.observed.pods}
        mains = {
            LAUNCHER_TYPE: main_container_name(self.launcher.template),
            WORKER_TYPE: main_container_name(self.workers.template, self.job.spec.main_container),
        }
        found = []
        for type_, count in self.types:
            for index in range(count):
                name = replica_name(self.job, type_, index)
                found.append(observe(type_, index, name, records.get(name), pods.get(name), mains[type_]))
        return found

    # ---- running

    def _live(self, replicas: Sequence[Replica]) -> Plan:
        records = {(replica.type, replica.index): seen(replica) for replica in replicas}
        if self.deadline is not None and self.now >= self.deadline:
            message = "the job was active for longer than activeDeadlineSeconds"
            return self._end(replicas, records, Verdict("Failed", DEADLINE_EXCEEDED, message))
        launcher = replicas[0]
        if _ended_well(launcher):
            if doubt := self._doubt(launcher, replicas):
                ended_early = [replica for replica in replicas[1:] if self._ended_before(replica, launcher)]
                return self._failed(replicas, records, [launcher, *ended_early], doubt=doubt)
            finished = self._finished(launcher, records)
            return self._end(
                replicas, finished, Verdict("Succeeded", "LauncherSucceeded", "the launcher succeeded")
            )
        if lost := _lost(replicas):
            return self._start_again(replicas, records, *lost)
        failed = [replica for replica in replicas if _has_failed(replica)]
        if failed:
            return self._failed(replicas, records, failed)
        if any(record.replacing for record in records.values()):
            return self._replace(replicas, records)
        return self._create(replicas, records)

    def _doubt(self, launcher: Replica, replicas: Sequence[Replica]) -> str:
        """Return why the launcher's exit code 0 is not a success; empty if it is.

        mpirun of Open MPI 5 exits with 0 after it has lost a worker. Under `supervise` its exit code can be
        believed, but the workers' own ends contradict it in any case.
        """
        if launcher.record.doubted:
            return "the launcher exited with 0, but a worker was replaced while it ran"
        for replica in replicas[1:]:
            if replica.record.replacing:
                return f"the launcher exited with 0, but {replica.name} was replaced while it ran"
            if self._ended_before(replica, launcher):
                return f"the launcher exited with 0, but {replica.name} had ended before it"
        return ""

    def _ended_before(self, worker: Replica, launcher: Replica) -> bool:
        """Whether a worker had ended when its launcher did."""
        if not _has_failed(worker):
            return False
        assert worker.ended is not None
        assert launcher.ended is not None
        return (worker.ended.finished_at or self.now) <= (launcher.ended.finished_at or self.now)

    def _finished(self, replica: Replica, records: Records) -> Records:
        time = (replica.ended.finished_at if replica.ended is not None else None) or self.now
        record = msgspec.structs.replace(records[replica.type, replica.index], finished_at=time)
        return {**records, (replica.type, replica.index): record}

    def _failed(
        self, replicas: Sequence[Replica], records: Records, failed: Sequence[Replica], doubt: str = ""
    ) -> Plan:
        """Retry what may be retried, up to the limit; every retry is charged before the pod is deleted.

        `doubt` says why a launcher that exited with 0 has not succeeded.
        """
        for replica in failed:
            records = self._finished(replica, records)
        # A launcher that exited with 0 is the cause only where no worker is known to be.
        names = tuple(r.name for r in failed if r.type == WORKER_TYPE or not _ended_well(r))
        names = names or (replicas[0].name,)
        permanent = [replica for replica in failed if not self._may_retry(replica)]
        if permanent and not doubt and all(_has_exited_early(replica) for replica in permanent):
            message = f"{some([r.name for r in permanent])} exited with code 0 before the launcher had ended"
            return self._end(replicas, records, Verdict("Failed", WORKER_EXITED, message, culprits=names))
        if permanent:
            doubt = doubt or next(
                (r.ended.message for r in permanent if r.ended and is_incomplete(r.ended)), ""
            )
            message = doubt or f"{some([replica.name for replica in permanent])} failed for good"
            reason = INCOMPLETE_RUN if doubt else "ReplicaFailed"
            return self._end(replicas, records, Verdict("Failed", reason, message, culprits=names))
        if self._retries(records) + 1 > self.backoff_limit:
            message = f"the backoffLimit of {self.backoff_limit} is used up"
            message = f"{doubt}, and {message}" if doubt else message
            return self._end(
                replicas, records, Verdict("Failed", BACKOFF_LIMIT_EXCEEDED, message, culprits=names)
            )
        # Whatever failed together was one mishap, and is charged once.
        for number, replica in enumerate(failed):
            member = replica.type, replica.index
            record = records[member]
            records[member] = msgspec.structs.replace(
                record, restarts=record.restarts + (number == 0), replacing=True, waiting=True
            )
        if replicas[0] not in failed:
            launcher = records[LAUNCHER_TYPE, 0]
            records[LAUNCHER_TYPE, 0] = msgspec.structs.replace(launcher, doubted=bool(launcher.uid))
        retried = some([replica.name for replica in failed])
        text = f"{doubt}; {retried} is started again" if doubt else f"{retried} failed and is started again"
        event = EmitEvent("Warning", RESTARTING, text)
        says = {RESTARTING: (True, "ReplicaFailed", event.message), RUNNING: (False, RESTARTING, "")}
        status = self._status(records, says)
        return Plan((event,), status, earliest(self._ready_at(records), self.deadline))

    def _may_retry(self, replica: Replica) -> bool:
        assert replica.ended is not None
        if _has_exited_early(replica):
            return self.workers.restart_policy == "Always"
        if replica.type == WORKER_TYPE:
            return may_retry(self.workers, replica.ended)
        if self.launcher.restart_policy == "Never" and self.explicit_backoff_limit is not None:
            return not replica.ended.final
        return may_retry(self.launcher, replica.ended)

    def _retries(self, records: Records) -> int:
        return sum(record.restarts for record in records.values())

    def _ready_at(self, records: Records) -> datetime | None:
        waits = [
            backoff.ready_at(record.finished_at, self._retries(records))
            for record in records.values()
            if record.replacing and record.finished_at is not None
        ]
        lost = backoff.ready_at(self.status.disrupted_at, self.status.disruptions)
        return max((wait for wait in (*waits, lost) if wait is not None), default=None)

    def _replace(self, replicas: Sequence[Replica], records: Records) -> Plan:
        """Take away what is to be replaced, once its back-off is over; create anew once it is gone."""
        ready = self._ready_at(records)
        if ready is not None and self.now < ready:
            return Plan((), self._status(records, {}), earliest(ready, self.deadline))
        leaving = [r for r in replicas if r.record.replacing and r.pod is not None]
        if leaving:
            actions: list[Action] = [
                _delete(r) for r in leaving if r.pod and r.pod.metadata.deletion_timestamp is None
            ]
            says, events = self._stall(RESTARTING)
            wake_at = earliest(self.deadline, next_look(self.observed.pods, self.now))
            return Plan((*actions, *events), self._status(records, says), wake_at)
        cleared = {member: gone(record) if record.replacing else record for member, record in records.items()}
        return self._create(replicas, cleared)

    def _start_again(self, replicas: Sequence[Replica], records: Records, reason: str, why: str) -> Plan:
        """A pod was lost through no fault of the program: all go, uncharged, and come back together."""
        taken = {
            member: msgspec.structs.replace(
                record, replacing=bool(record.uid), finished_at=None, waiting=True
            )
            for member, record in records.items()
        }
        actions: list[Action] = [
            _delete(r) for r in replicas if r.pod is not None and r.pod.metadata.deletion_timestamp is None
        ]
        event = RESTARTING if reason == DISRUPTED else reason
        actions.append(EmitEvent("Warning", event, f"{why}; the whole job starts again"))
        status = self._status(taken, {RESTARTING: (True, reason, why), RUNNING: (False, RESTARTING, "")})
        number = backoff.count_disruption(self.status.disruptions, self.status.disrupted_at, self.now)
        status = msgspec.structs.replace(status, disruptions=number, disrupted_at=self.now)
        return Plan(tuple(actions), status, self.deadline)

    def _create(self, replicas: Sequence[Replica], records: Records) -> Plan:
        wanted = build_children(self.job, self.observed)
        making = missing = [r for r in replicas if r.pod is None]
        if self._may_meet_strangers(missing):
            wanted = [manifest for manifest in wanted if manifest["kind"] not in RIGHTS]
            making = [replica for replica in missing if replica.type == WORKER_TYPE]
        engine = self.observed.settings.gang_engine
        children: list[Action] = [
            *create_pod_group(self.job, replicas, self.observed.children, engine),
            *shrink_pod_group(replicas, self.observed.children),
            *missing_children(wanted, self.observed.children),
        ]
        create = pod_creator(self.job, self.observed, self._deadline_from(self.status.start_time or self.now))
        pods: list[CreatePod] = [create(replica) for replica in making]
        says: dict[str, tuple[bool, str, str]] = {CREATED: _JOB_CREATED}
        events: list[Action] = []
        for reason, message in self.observed.troubles:
            says[CREATED] = (True, reason, message)
            events.append(EmitEvent("Warning", reason, message))
        running = all(has_run(record) for record in records.values()) and not missing
        if running:
            says[RUNNING] = (True, "AllReplicasRan", "every replica has run")
            says[RESTARTING] = (False, "AllReplicasRan", "")
        wake_at, old = self.deadline, self._condition(RUNNING)
        stall = find_stall(self.observed.pods, self.now)
        if not running and (found := find_reason(replicas, self.observed.children, stall)):
            told, retry_at = self._renewed(found)
            says[RUNNING] = told
            wake_at = earliest(wake_at, retry_at)
            events += build_event(old, told, stall)
        elif not running and old is not None and old.status == "False" and old.reason != RESTARTING:
            says[RUNNING] = (False, WAITING_FOR_REPLICAS, "")
        status = self._status(records, says)
        if running and not self._is(RUNNING):
            events.append(EmitEvent("Normal", RUNNING, "every replica has run"))
        return Plan(
            (*children, *pods, *events), status, earliest(wake_at, next_look(self.observed.pods, self.now))
        )

    def _renewed(self, found: Say) -> tuple[Say, datetime | None]:
        """Return what Running says while the job waits, and when that may next change."""
        old = self._condition(RUNNING)
        # What followed a restart is no reason of a queue's, and does not hold one back.
        reported_at = old.last_update_time if old is not None and old.reason != RESTARTING else None
        say, _, wake_at = hold_back(old, found, reported_at, self.now)
        return say, wake_at

    def _condition(self, type_: str) -> JobCondition | None:
        return next((c for c in self.status.conditions if c.type == type_), None)

    def _stall(self, type_: str) -> tuple[dict[str, tuple[bool, str, str]], list[Action]]:
        """What is in the way of the pods, for a condition of this type, and an Event the first time."""
        stall = find_stall(self.observed.pods, self.now)
        if stall is None:
            return {}, []
        is_said = any(c.type == type_ and c.reason == stall.reason for c in self.status.conditions)
        events: list[Action] = [] if is_said else [EmitEvent("Warning", stall.reason, stall.event)]
        return {type_: (True, stall.reason, stall.message)}, events

    def _may_meet_strangers(self, missing: Sequence[Replica]) -> bool:
        """Whether what has a worker's name may be somebody else's: a launcher could run commands in it."""
        asks_the_server = self.observed.settings.profile.agent is None
        return asks_the_server and any(replica.type == WORKER_TYPE for replica in missing)

    # ---- the end

    def _end(self, replicas: Sequence[Replica], records: Records, verdict: Verdict) -> Plan:
        succeeded = verdict.end == "Succeeded"
        first = None
        if not succeeded:
            names = [replica.name for replica in replicas if replica.type == WORKER_TYPE]
            decisive = [replica for replica in replicas if replica.name in verdict.culprits]
            keep = self.observed.settings.keep_messages
            first = first_failure(
                decisive,
                self.now,
                keep_message=keep,
                workers=names,
                worker_of=self._worker_of,
                slots=self.job.spec.slots_per_worker * self.workers.replicas,
            )
            first = _with_reason(first, verdict)
        message = verdict.message if first is None else f"{verdict.message}; first failure: {tell(first)}"
        says = {
            verdict.end: (True, verdict.reason, message),
            RUNNING: (False, verdict.end, ""),
            RESTARTING: (False, verdict.end, ""),
        }
        # It can end before anybody had the time to say so, or while a trouble long past is still told of.
        if replicas and all(replica.pod is not None or has_run(replica.record) for replica in replicas):
            says = {CREATED: _JOB_CREATED, **says}
        status = self._status(records or {}, says)
        status = msgspec.structs.replace(status, completion_time=self.now, first_failure=first)
        event = EmitEvent("Normal" if succeeded else "Warning", verdict.end, message)
        rest = _Pass(msgspec.structs.replace(self.job, status=status), self.observed, self.now).plan()
        return Plan((event, *rest.actions), rest.status, rest.wake_at, record_first=True)

    def _worker_of(self, rank: int) -> int | None:
        options = mpirun_options(self.launcher)
        if options is None:
            return None
        return worker_of(options, rank, self.workers.replicas, self.job.spec.slots_per_worker)

    def _after_the_end(self) -> Plan:
        replicas = self._replicas()
        actions = clean_up(self.clean_policy, self.observed.pods, replicas)
        if not any(isinstance(a, DeletePod) and a.name == replicas[0].name for a in actions):
            actions += stop(replicas[0])
        if self._exceeded_deadline():
            # Ranks run in the workers: whatever is not deleted is stopped, so that they get SIGTERM.
            leaving = {action.name for action in actions if isinstance(action, DeletePod)}
            actions += [action for r in replicas[1:] if r.name not in leaving for action in stop(r)]
        if all(pod.status.phase in FINISHED for pod in self.observed.pods):
            actions += delete_pod_group(self.observed.children)
        ttl, ended = self.policy.ttl_seconds_after_finished, self.status.completion_time
        wake_at = None
        if ttl is not None and ended is not None:
            wake_at = ended + timedelta(seconds=ttl)
            if self.now >= wake_at:
                return Plan((*actions, DeleteJob(self.job.metadata.uid)), self.status)
        records = {(replica.type, replica.index): last_seen(replica) for replica in replicas}
        return Plan(tuple(actions), self._status(records, {}), wake_at)

    def _exceeded_deadline(self) -> bool:
        return any(c.type == FAILED and c.reason == DEADLINE_EXCEEDED for c in self.status.conditions)

    # ---- names

    def _conflicts(self, replicas: Sequence[Replica]) -> list[NameConflict]:
        if not self.observed.taken:
            return []
        wanted = {("Pod", replica.name) for replica in replicas}
        wanted |= {(m["kind"], m["metadata"]["name"]) for m in build_children(self.job, self.observed)}
        if queue_place(self.job) is not None:
            wanted.add(("PodGroup", self.job.metadata.name))
        return [conflict for conflict in self.observed.taken if (conflict.kind, conflict.name) in wanted]

    def _report_conflict(self, replicas: Sequence[Replica], conflicts: Sequence[NameConflict]) -> Plan:
        report = describe_conflicts(self.job, conflicts)
        message = report.message
        known = any(c.reason == NAME_CONFLICT and c.message == message for c in self.status.conditions)
        records = {(replica.type, replica.index): seen(replica) for replica in replicas}
        status = self._status(records, {CREATED: (True, NAME_CONFLICT, message)})
        return Plan(() if known else (report.event,), status, self.now + report.retry)

    # ---- status

    def _status(self, records: Records, says: dict[str, tuple[bool, str, str]]) -> MPIJobStatus:
        tasks = build_tasks(self.types, records) if records else self.status.tasks
        counts = {
            LAUNCHER: _counts([r for (type_, _), r in records.items() if type_ == LAUNCHER_TYPE]),
            WORKER: _counts([r for (type_, _), r in records.items() if type_ == WORKER_TYPE]),
        }
        old = self.status
        new = msgspec.structs.replace(
            old,
            conditions=_update(old.conditions, says, self.now),
            tasks=tasks,
            replica_statuses=counts if records else old.replica_statuses,
            start_time=old.start_time or self.now,
        )
        return new if new == old else msgspec.structs.replace(new, last_reconcile_time=self.now)


def may_retry(spec: ReplicaSpec, ended: Outcome) -> bool:
    """Whether the policy starts a failed replica again."""
    if ended.final or spec.restart_policy == "Never":
        return False
    if spec.restart_policy == "ExitCode":
        return ended.exit_code is not None and ended.exit_code not in _PERMANENT_EXIT_CODES
    return True


def _ended_well(launcher: Replica) -> bool:
    return launcher.ended is not None and launcher.ended.end == "succeeded" and not launcher.record.replacing


def _has_failed(replica: Replica) -> bool:
    """A worker that ended while its launcher runs has failed, whatever its exit code."""
    if replica.ended is None or replica.ended.end == "disrupted" or replica.record.replacing:
        return False
    return replica.ended.end == "failed" or replica.type == WORKER_TYPE


def _has_exited_early(replica: Replica) -> bool:
    """Whether a worker has ended well although its launcher still runs."""
    return replica.type == WORKER_TYPE and replica.ended is not None and replica.ended.end == "succeeded"


def _with_reason(first: FirstFailure | None, verdict: Verdict) -> FirstFailure | None:
    """Return the first failure with a reason that explains the exit code 0."""
    if first is None or first.exit_code != 0:
        return first
    if verdict.reason == WORKER_EXITED:
        return msgspec.structs.replace(first, reason=WORKER_EXITED, message=_EXITED_EARLY)
    return msgspec.structs.replace(first, reason=INCOMPLETE_RUN, message=verdict.message)


def _lost(replicas: Sequence[Replica]) -> tuple[str, str] | None:
    """Return which pod was lost through no fault of its program: the reason, and a sentence."""
    for replica in replicas:
        if replica.record.replacing:
            continue
        if replica.pod is None and replica.record.uid:
            return DISRUPTED, f"{replica.name} was deleted by somebody else"
        if replica.ended is not None and replica.ended.end == "disrupted":
            reason = replica.ended.reason
            word = reason if reason in (PREEMPTED, EVICTED) else DISRUPTED
            return word, f"{replica.name} {describe_loss(replica.ended)}"
    return None


def _delete(replica: Replica) -> DeletePod:
    assert replica.pod is not None
    return DeletePod(replica.name, replica.pod.metadata.uid, "to be started again")


def _counts(records: Sequence[ReplicaStatus]) -> ReplicaCounts:
    phases = [record.phase for record in records]
    return ReplicaCounts(
        active=sum(phase not in (*FINISHED, "Deleted") for phase in phases),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )


def _update(
    old: tuple[JobCondition, ...], says: dict[str, tuple[bool, str, str]], now: datetime
) -> tuple[JobCondition, ...]:
    """Conditions in the order in which they were first said, as this API has them."""
    by_type = {condition.type: condition for condition in old}
    for type_, (value, reason, message) in says.items():
        status = "True" if value else "False"
        before = by_type.get(type_)
        if before is None and not value and not message:
            continue
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            continue
        moved = before is None or before.status != status
        by_type[type_] = JobCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=now if moved or before is None else before.last_transition_time,
            last_update_time=now,
        )
    return tuple(by_type.values())
