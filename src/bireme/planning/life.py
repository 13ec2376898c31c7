"""The life of a tensorstack job, whatever its kind.

Pending ─► Running ─► Succeeded | Failed
   ▲          │ ▲
   │          ▼ │
 Paused ◄─────  Resuming
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from bireme.api.job import JobPhase, JobStatus, ReplicaStatus, condition
from bireme.planning import conditions as c
from bireme.planning.actions import Action, CreatePod, DeletePod, EmitEvent
from bireme.planning.backoff import count_disruption
from bireme.planning.children import missing_children, stale_children
from bireme.planning.conditions import Say
from bireme.planning.conflict import find_conflicts, report_conflicts
from bireme.planning.crew import Advance, Crew
from bireme.planning.ending import INITIALIZED, after_the_end, end, refuse, replica_failure
from bireme.planning.gang import create_pod_group, shrink_pod_group
from bireme.planning.observed import BatchJob, Observed, Plan
from bireme.planning.outcome import STARTING
from bireme.planning.pause import RESUMED, is_paused, pause, resume, was_paused
from bireme.planning.replicas import Mode, Replica, has_run
from bireme.planning.view import View
from bireme.planning.words import some


def plan_batch(job: BatchJob, observed: Observed, crew: Crew, now: datetime) -> Plan:
    """Plan a GenericJob, MPIJob or ColossalAIJob."""
    view = View(job, observed, crew, now)
    if job.metadata.deletion_timestamp is not None:
        return Plan((), view.status)
    if view.status.phase in ("Succeeded", "Failed"):
        return after_the_end(view)
    if observed.invalid:
        return refuse(view)
    if is_paused(view):
        return _end_before_pause(view) or pause(view)
    if taken := find_conflicts(view):
        return report_conflicts(view, taken)
    return _live(view)


def _end_before_pause(view: View) -> Plan | None:
    """A job that has ended before it was paused has ended."""
    if was_paused(view) or not view.observed.pods:
        return None
    replicas = view.replicas(view.records())
    advance = view.crew.advance(view.observed, replicas, _mode(view, {}), view.now)
    return end(view, replicas, advance, advance.verdict) if advance.verdict is not None else None


def _live(view: View) -> Plan:
    resuming = was_paused(view)
    records, says = resume(view) if resuming else (view.records(), {})
    replicas = view.replicas(records)
    advance = view.crew.advance(view.observed, replicas, _mode(view, says), view.now)
    if advance.verdict is not None:
        return end(view, replicas, advance, advance.verdict, says)
    wanted = view.crew.children(view.observed)
    missing = [
        *create_pod_group(view.job, replicas, view.observed.children, view.observed.settings.gang_engine),
        *missing_children(wanted, view.observed.children),
    ]
    complete = not missing and not any(isinstance(action, CreatePod) for action in advance.actions)
    phase = _phase(view.status, advance, resuming=resuming)
    says |= _says(phase, advance, view.observed.troubles, complete=complete)
    status = view.next_status(advance.records, phase, says)
    if advance.disrupted:
        status = _count_disruption(status, view.now)
    actions: list[Action] = [*missing, *stale_children(wanted, view.observed.children)]
    actions += shrink_pod_group(replicas, view.observed.children)
    actions += [*_surplus(view, replicas), *advance.actions, *_events(view.status, status, advance)]
    actions += [EmitEvent("Warning", reason, message) for reason, message in view.observed.troubles]
    # Pods that were made before it is on record that the job goes on would be taken for those that leave.
    return Plan(tuple(actions), status, advance.wake_at, record_first=resuming)


def _count_disruption(status: JobStatus, now: datetime) -> JobStatus:
    number = count_disruption(status.disruptions, status.disrupted_at, now)
    return msgspec.structs.replace(status, disruptions=number, disrupted_at=now)


def _mode(view: View, says: dict[str, Say]) -> Mode:
    debug = view.run_mode.debug
    if debug is not None and debug.on:
        return "debug"
    before = condition(view.status, c.PAUSED)
    reason = says[c.PAUSED].reason if c.PAUSED in says else before.reason if before is not None else ""
    return "resume" if reason == RESUMED else "run"


def _phase(status: JobStatus, advance: Advance, *, resuming: bool) -> JobPhase:
    if advance.restarting:
        resumes = (resuming or status.phase == "Resuming") and not advance.disrupted
        return "Resuming" if resumes else "Pending"
    records = advance.records.values()
    if records and all(record.phase == "Unknown" for record in records):
        return "Unknown"
    if all(has_run(record) for record in records):
        return "Running"
    if status.phase == "Unknown":
        return "Running" if status.start_time is not None else "Pending"
    return "Resuming" if resuming else status.phase or "Pending"


def _says(
    phase: JobPhase, advance: Advance, troubles: Sequence[tuple[str, str]], *, complete: bool
) -> dict[str, Say]:
    records = advance.records.values()
    running = Say(False, "WaitingForReplicas", _waiting(records))
    if phase == "Running":
        running = Say(True, "AllReplicasRan", "every replica has run")
    elif advance.restarting:
        running = Say(False, "Restarting", "the whole job starts again")
    elif phase == "Unknown":
        running = Say(False, "Unknown", "nothing is heard of any replica")
    says = {
        c.RUNNING: running,
        c.REPLICA_FAILURE: replica_failure(records),
    }
    # What has run had all that it needs, though a new controller does not know yet of Secrets.
    if complete or phase == "Running":
        says[c.INITIALIZED] = INITIALIZED
    elif troubles:
        reason, message = troubles[0]
        says[c.INITIALIZED] = Say(False, reason, message)
    return says


def _waiting(records: Iterable[ReplicaStatus]) -> str:
    waiting = [record for record in records if not has_run(record)]
    containers = [each for record in waiting for each in record.containers]
    reasons = sorted({each.reason for each in containers if each.container_phase == "Waiting"} - STARTING)
    why = f" ({', '.join(reasons)})" if reasons else ""
    return f"{some([record.name for record in waiting])} not running yet{why}" if waiting else ""


def _surplus(view: View, replicas: Sequence[Replica]) -> list[Action]:
    """Pods of replicas that the job no longer has."""
    wanted = {replica.name for replica in replicas}
    return [
        DeletePod(pod.metadata.name, pod.metadata.uid, "the job has no such replica any more")
        for pod in view.observed.pods
        if pod.metadata.name not in wanted and pod.metadata.deletion_timestamp is None
    ]


def _events(old: JobStatus, new: JobStatus, advance: Advance) -> list[Action]:
    events: list[Action] = [EmitEvent("Warning", "ReplicaReplaced", text) for text in advance.events]
    if new.phase != old.phase and new.phase == "Running":
        events.append(EmitEvent("Normal", "Running", "every replica has run"))
    if new.phase != old.phase and new.phase == "Resuming":
        events.append(EmitEvent("Normal", "Resuming", "the job goes on after its pause"))
    return events
