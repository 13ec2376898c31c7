"""How a job ends, and what happens after it has."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from bireme.api.generic import GenericJob
from bireme.api.job import ContainerStatus, FirstFailure, JobStatus, ReplicaStatus
from bireme.api.names import LAUNCHER_TYPE
from bireme.planning import conditions as c
from bireme.planning.actions import DeletePod, EmitEvent
from bireme.planning.children import spare_services
from bireme.planning.cleanup import clean_up, policy_of
from bireme.planning.conditions import Say
from bireme.planning.crew import Advance
from bireme.planning.gang import delete_pod_group
from bireme.planning.observed import Plan
from bireme.planning.replicas import FINISHED, Replica, has_run, is_final, seen, stop, stop_the_rest
from bireme.planning.rules import Verdict
from bireme.planning.status import aggregate, build_tasks
from bireme.planning.view import View
from bireme.planning.words import some

INVALID_SPEC: Final = "InvalidSpec"
MAX_MESSAGE: Final = 1024
INITIALIZED: Final = Say(True, "ChildrenCreated", "all children have been created")


def end(
    view: View,
    replicas: Sequence[Replica],
    advance: Advance,
    verdict: Verdict,
    resumed: Mapping[str, Say] = MappingProxyType({}),
) -> Plan:
    """Record the end, then clean up as it says.

    `resumed` is what a job says that goes on after its pause: it can end before anybody has said it.
    """
    succeeded = verdict.end == "Succeeded"
    first = None
    if not succeeded:
        keep = view.observed.settings.keep_messages
        first = view.crew.cause(replicas, verdict, view.now, keep_message=keep)
    message = verdict.message if first is None else f"{verdict.message}; first failure: {tell(first)}"
    says = {
        **resumed,
        c.RUNNING: Say(False, verdict.end),
        c.REPLICA_FAILURE: replica_failure(advance.records.values()),
        c.COMPLETED: Say(succeeded, verdict.reason, message),
        c.FAILED: Say(not succeeded, verdict.reason, message),
    }
    # A job can end before anybody had the time to say so; pods come after all other children.
    if all(replica.pod is not None or has_run(replica.record) for replica in replicas):
        says[c.INITIALIZED] = INITIALIZED
    status = view.next_status(advance.records, verdict.end, says)
    status = msgspec.structs.replace(status, completion_time=view.now, first_failure=first)
    return _then_clean_up(view, status, EmitEvent("Normal" if succeeded else "Warning", verdict.end, message))


def _then_clean_up(view: View, status: JobStatus, event: EmitEvent) -> Plan:
    rest = after_the_end(view.with_status(status))
    return Plan((event, *rest.actions), rest.status, rest.wake_at, record_first=True)


def tell(first: FirstFailure) -> str:
    """Who failed first and how, in one sentence."""
    who = f"rank {first.rank} on {first.replica}" if first.rank is not None else first.replica
    if first.is_init:
        who += f", init container {first.container}"
    if first.signal:
        how = f"signal {first.signal}"
    elif first.exit_code is not None:
        how = f"exit code {first.exit_code}"
    else:
        return f"{who}, {first.reason or 'for an unknown reason'}"
    return f"{who}, {how}" + (f" ({first.reason})" if first.reason not in ("", "Error") else "")


def replica_failure(records: Iterable[ReplicaStatus]) -> Say:
    """What the condition ReplicaFailure says; a pod that was lost is no failure."""
    failed = [
        record.name for record in records if record.phase == "Failed" and record.finished_at is not None
    ]
    return Say(True, "ReplicaFailed", f"{some(failed)} failed") if failed else Say(False, "NoFailure")


def after_the_end(view: View) -> Plan:
    """Clean up by the job's policy. Nothing starts again, whatever becomes of the pods."""
    replicas = view.replicas(view.records())
    # cleanUpWorkers speaks of workers: the launcher stays, and its output with it.
    keep = () if isinstance(view.job, GenericJob) else (LAUNCHER_TYPE,)
    actions = clean_up(policy_of(view.job), view.observed.pods, replicas, keep=keep)
    gone = {action.name for action in actions if isinstance(action, DeletePod)}
    for replica in replicas:
        if replica.name in gone:
            continue
        # A launcher whose workers are gone would wait for them for ever.
        leads = replica.type == LAUNCHER_TYPE and not isinstance(view.job, GenericJob)
        actions += stop(replica) if leads else stop_the_rest(replica) if replica.is_final else ()
    if all(pod.status.phase in FINISHED for pod in view.observed.pods):
        actions += delete_pod_group(view.observed.children)
    if isinstance(view.job, GenericJob):
        # The job may have ended before those of a smaller job could go.
        actions += spare_services({replica.name for replica in replicas}, view.observed.children)
    records = {(replica.type, replica.index): last_seen(replica) for replica in replicas}
    tasks = build_tasks(view.crew.types(), records)
    generation = view.job.metadata.generation
    status = msgspec.structs.replace(
        view.status, tasks=tasks, aggregate=aggregate(tasks), observed_generation=generation
    )
    return Plan(tuple(actions), status)


def last_seen(replica: Replica) -> ReplicaStatus:
    """The record of a replica after the end: what it came to, or that its pod is gone."""
    record = seen(replica)
    if replica.pod is not None:
        return record
    if not is_final(record) and record.phase != "Deleted":
        return msgspec.structs.replace(record, phase="Deleted", containers=())
    if any(each.container_phase == "Running" for each in record.containers):
        return msgspec.structs.replace(record, containers=tuple(map(_gone, record.containers)))
    return record


def _gone(container: ContainerStatus) -> ContainerStatus:
    """A container whose pod was deleted before its end was seen."""
    if container.container_phase != "Running":
        return container
    return msgspec.structs.replace(container, container_phase="Terminated", reason="Deleted")


def refuse(view: View) -> Plan:
    """Fail a job that admission would have refused: webhooks can be down."""
    message = "; ".join(view.observed.invalid)[:MAX_MESSAGE]
    says = {c.RUNNING: Say(False, INVALID_SPEC), c.FAILED: Say(True, INVALID_SPEC, message)}
    status = msgspec.structs.replace(
        view.status,
        phase="Failed",
        conditions=view.conditions(says),
        aggregate=aggregate(view.status.tasks),
        observed_generation=view.job.metadata.generation,
        completion_time=view.now,
    )
    pods = [pod for pod in view.observed.pods if pod.metadata.deletion_timestamp is None]
    deletes = [DeletePod(pod.metadata.name, pod.metadata.uid, INVALID_SPEC) for pod in pods]
    return Plan((EmitEvent("Warning", INVALID_SPEC, message), *deletes), status, record_first=True)
