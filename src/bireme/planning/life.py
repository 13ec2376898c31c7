"""The life of a tensorstack job, whatever its kind.

Pending ─► Running ─► Succeeded | Failed
   ▲          │ ▲
   │          ▼ │
 Paused ◄─────  Resuming
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

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
from bireme.planning.outcome import EVICTED, PREEMPTED
from bireme.planning.pause import RESUMED, is_paused, pause, resume, was_paused
from bireme.planning.replicas import Mode, Replica, has_run, is_final, pod_mode
from bireme.planning.stalls import Stall, describe_debug_exits, find_stall, find_stuck, next_look
from bireme.planning.timing import earliest
from bireme.planning.view import View
from bireme.planning.waiting import WAITING_FOR_REPLICAS, build_event, find_reason, hold_back
from bireme.planning.words import some

RESTARTING: Final = "Restarting"
DISRUPTED: Final = "Disrupted"
REPLICA_REPLACED: Final = "ReplicaReplaced"
_LOSSES: Final = (PREEMPTED, EVICTED, RESTARTING, DISRUPTED)
"""Reasons of a job that lost its pods; they stay until new ones are on nodes, or the queue says why not."""


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
        return _end_before_pause(view) or _with_stuck_pods(view, pause(view))
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


def _with_stuck_pods(view: View, paused: Plan) -> Plan:
    """The plan of a pause, whose condition names pods that do not end."""
    wake_at = earliest(paused.wake_at, next_look(view.observed.pods, view.now))
    stall = find_stuck(view.observed.pods, view.now)
    status = paused.status
    told = condition(status, c.PAUSED) if isinstance(status, JobStatus) else None
    if stall is None or told is None or not isinstance(status, JobStatus):
        return msgspec.structs.replace(paused, wake_at=wake_at)
    say = Say(True, told.reason, f"{told.message}; {stall.message}")
    before = condition(view.status, c.PAUSED)
    is_said = before is not None and stall.message in before.message
    events = () if is_said else (EmitEvent("Warning", stall.reason, stall.event),)
    conditions = c.update(status.conditions, {c.PAUSED: say}, view.now)
    status = msgspec.structs.replace(status, conditions=conditions)
    return msgspec.structs.replace(paused, actions=(*paused.actions, *events), status=status, wake_at=wake_at)


def _live(view: View) -> Plan:
    resuming = was_paused(view)
    records, says = resume(view) if resuming else (view.records(), {})
    replicas = view.replicas(records)
    advance = view.crew.advance(view.observed, replicas, _mode(view, says), view.now)
    if advance.verdict is not None:
        return end(view, replicas, advance, advance.verdict, says)
    wanted = view.children()
    missing = [
        *create_pod_group(view.job, replicas, view.observed.children, view.observed.settings.gang_engine),
        *missing_children(wanted, view.observed.children),
    ]
    complete = not missing and not any(isinstance(action, CreatePod) for action in advance.actions)
    if _lost_all(view, replicas, advance):
        advance = msgspec.structs.replace(advance, records=_waiting_again(advance))
    phase = _phase(view.status, advance, resuming=resuming)
    told = _tell_running(view, replicas, advance, phase)
    says |= _says(phase, advance, view.observed.troubles, complete=complete)
    says[c.RUNNING] = told.say
    status = view.next_status(advance.records, phase, says)
    status = msgspec.structs.replace(status, waiting_reported_at=told.reported_at)
    if advance.disrupted:
        status = _count_disruption(status, view.now)
    actions: list[Action] = [*missing, *stale_children(wanted, view.observed.children)]
    actions += shrink_pod_group(replicas, view.observed.children)
    actions += [*_surplus(view, replicas), *advance.actions]
    actions += [*_events(view.status, status, advance, replicas), *told.events]
    actions += [EmitEvent("Warning", reason, message) for reason, message in view.observed.troubles]
    wake_at = earliest(advance.wake_at, told.wake_at, next_look(view.observed.pods, view.now))
    # Pods that were made before it is on record that the job goes on would be taken for those that leave.
    return Plan(tuple(actions), status, wake_at, record_first=resuming)


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
    if status.phase == "Running":
        # A replica that has not run yet: the job lost all that ran.
        return "Pending"
    if status.phase == "Unknown":
        return "Pending"
    return "Resuming" if resuming else status.phase or "Pending"


def _says(
    phase: JobPhase, advance: Advance, troubles: Sequence[tuple[str, str]], *, complete: bool
) -> dict[str, Say]:
    records = advance.records.values()
    says = {
        c.REPLICA_FAILURE: replica_failure(records),
    }
    # What has run had all that it needs, though a new controller does not know yet of Secrets.
    if complete or phase == "Running":
        says[c.INITIALIZED] = INITIALIZED
    elif troubles:
        reason, message = troubles[0]
        says[c.INITIALIZED] = Say(False, reason, message)
    return says


class _Told(NamedTuple):
    """What the condition Running says, and what comes with it."""

    say: Say
    reported_at: datetime | None = None
    wake_at: datetime | None = None
    events: Sequence[Action] = ()


def _tell_running(view: View, replicas: Sequence[Replica], advance: Advance, phase: JobPhase) -> _Told:
    """Say whether the job runs; if not, why it does not."""
    old, reported_at = condition(view.status, c.RUNNING), view.status.waiting_reported_at
    stall = find_stall(view.observed.pods, view.now)
    if phase == "Running":
        return _tell_stalls_of_running(view, advance, stall)
    if phase == "Unknown":
        return _Told(Say(False, "Unknown", "nothing is heard of any replica"), reported_at)
    if lost := _new_loss(replicas, advance):
        return _Told(lost, reported_at)
    if found := find_reason(replicas, view.observed.children, stall):
        say, reported_at, wake_at = hold_back(old, found, reported_at, view.now)
        return _Told(say, reported_at, wake_at, build_event(old, say, stall))
    if old is not None and old.reason in _LOSSES and any(_is_to_come(replica) for replica in replicas):
        return _Told(Say(False, old.reason, old.message), reported_at)
    if advance.restarting:
        return _Told(Say(False, RESTARTING, "the whole job starts again"), reported_at)
    return _Told(Say(False, WAITING_FOR_REPLICAS, _waiting(advance.records.values())), reported_at)


def _tell_stalls_of_running(view: View, advance: Advance, stall: Stall | None) -> _Told:
    """Say that every replica has run, and which of them have stalled since; one Event for all that stall."""
    say = Say(True, "AllReplicasRan", "every replica has run")
    if _mode(view, {}) == "debug" and (exits := describe_debug_exits(advance.records.values())):
        say = say._replace(message=exits)
    if stall is None:
        return _Told(say)
    old = condition(view.status, c.RUNNING)
    is_said = old is not None and (old.reason == stall.reason or stall.message in old.message)
    events = () if is_said else (EmitEvent("Warning", stall.reason, stall.event),)
    return _Told(say._replace(message=f"{say.message}; {stall.message}"), events=events)


def _new_loss(replicas: Sequence[Replica], advance: Advance) -> Say | None:
    """Return which pod this pass saw lost, and why."""
    for replica in replicas:
        is_lost = replica.ended is not None and replica.ended.end == "disrupted"
        if replica.record.replacing or not (is_lost or replica.pod is None):
            continue
        for text in advance.events:
            if text.startswith(f"{replica.name} "):
                return Say(
                    False, _loss_reason(replica, RESTARTING if advance.restarting else DISRUPTED), text
                )
    return None


def _loss_reason(replica: Replica, otherwise: str) -> str:
    reason = replica.ended.reason if replica.ended is not None else ""
    return reason if reason in (PREEMPTED, EVICTED) else otherwise


def _is_to_come(replica: Replica) -> bool:
    """Whether the replica has no pod on a node that stands for it."""
    pod = replica.pod
    return not replica.is_final and (pod is None or replica.record.replacing or not pod.spec.node_name)


def _lost_all(view: View, replicas: Sequence[Replica], advance: Advance) -> bool:
    """Whether no replica of a job that ran is left running because pods were lost.

    Restarts by policy and a change of mode do not make a job Pending.
    """
    mode = _mode(view, {})
    is_flipped = any(replica.pod is not None and pod_mode(replica.pod) != mode for replica in replicas)
    if view.status.phase != "Running" or advance.restarting or mode == "debug" or is_flipped:
        return False
    unfinished = [record for record in advance.records.values() if not is_final(record)]
    runs = any(record.phase in ("Running", "Unknown") and not record.replacing for record in unfinished)
    lost = any(record.disrupted_at is not None and record.finished_at is None for record in unfinished)
    return lost and not runs


def _waiting_again(advance: Advance) -> dict[tuple[str, int], ReplicaStatus]:
    """Let every unfinished replica run again before the job counts as running."""
    return {
        member: record if is_final(record) else msgspec.structs.replace(record, waiting=True)
        for member, record in advance.records.items()
    }


def _waiting(records: Iterable[ReplicaStatus]) -> str:
    waiting = [record.name for record in records if not has_run(record)]
    return f"{some(waiting)} not running yet" if waiting else ""


def _surplus(view: View, replicas: Sequence[Replica]) -> list[Action]:
    """Pods of replicas that the job no longer has."""
    wanted = {replica.name for replica in replicas}
    return [
        DeletePod(pod.metadata.name, pod.metadata.uid, "the job has no such replica any more")
        for pod in view.observed.pods
        if pod.metadata.name not in wanted and pod.metadata.deletion_timestamp is None
    ]


def _events(old: JobStatus, new: JobStatus, advance: Advance, replicas: Sequence[Replica]) -> list[Action]:
    reasons = {replica.name: _loss_reason(replica, REPLICA_REPLACED) for replica in replicas}
    events: list[Action] = [
        EmitEvent("Warning", reasons.get(text.partition(" ")[0], REPLICA_REPLACED), text)
        for text in advance.events
    ]
    if new.phase != old.phase and new.phase == "Running":
        events.append(EmitEvent("Normal", "Running", "every replica has run"))
    if new.phase != old.phase and new.phase == "Resuming":
        events.append(EmitEvent("Normal", "Resuming", "the job goes on after its pause"))
    return events
