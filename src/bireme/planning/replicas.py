"""One replica at a time: what its pod has come to, and what to do about it.

The record of a replica is its entry in the job's status. It outlives the pod and is keyed by the pod's
UID, so that nothing is charged twice and nothing is forgotten when a pod disappears.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Literal

import msgspec

from bireme.api.core import Pod
from bireme.api.job import ReplicaStatus
from bireme.planning import backoff
from bireme.planning.actions import STOP_DEADLINE_SECONDS, Action, CreatePod, DeletePod, StopPod
from bireme.planning.identity import MODE_ANNOTATION
from bireme.planning.outcome import (
    Outcome,
    container_statuses,
    describe_loss,
    main_has_run,
    outcome,
    phase_of,
)

Mode = Literal["run", "resume", "debug"]
FINISHED = ("Succeeded", "Failed")


class Replica(msgspec.Struct, frozen=True):
    """A replica as it is seen now."""

    type: str
    index: int
    name: str
    record: ReplicaStatus
    pod: Pod | None
    ended: Outcome | None
    main: str = ""

    @property
    def is_final(self) -> bool:
        """Whether it has ended for good."""
        return is_final(self.record)


class Step(msgspec.Struct, frozen=True):
    """What becomes of a replica in this pass."""

    record: ReplicaStatus
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    event: str = ""


Restarts = Callable[[Outcome, ReplicaStatus], bool]
"""Whether a replica that ended so is started again, and charged."""


def observe(
    type_: str, index: int, name: str, record: ReplicaStatus | None, pod: Pod | None, main: str
) -> Replica:
    """Bring record and pod together; a pod with another UID starts a new page in the record."""
    record = record or ReplicaStatus(name=name, phase="Creating", waiting=True)
    if pod is None:
        return Replica(type_, index, name, record, None, None, main)
    if record.uid != pod.metadata.uid:
        record = msgspec.structs.replace(
            record,
            uid=pod.metadata.uid,
            phase="Creating",
            finished_at=None,
            containers=(),
            replacing=False,
            doubted=False,
        )
    return Replica(type_, index, name, record, pod, outcome(pod, main), main)


def is_final(record: ReplicaStatus) -> bool:
    """Whether the record says that the replica ended, and that nobody replaces it."""
    return record.phase in FINISHED and record.finished_at is not None and not record.replacing


def has_run(record: ReplicaStatus) -> bool:
    """Whether the replica has run since the job started, or was resumed."""
    return not record.waiting


def pod_mode(pod: Pod) -> str:
    """The mode that a pod was made in."""
    return pod.metadata.annotations.get(MODE_ANNOTATION, "run")


def step(
    replica: Replica, now: datetime, *, mode: Mode, restarts: Restarts, create: Callable[[Replica], CreatePod]
) -> Step:
    """Decide for a replica that stands on its own. Call it for live jobs only."""
    if replica.pod is None:
        return _without_pod(replica, now, mode, create)
    record = seen(replica)
    if record.replacing:
        return _leaving(replica, record, now, mode)
    if pod_mode(replica.pod) != mode:
        return _replace(replica, record, why=f"made in mode {pod_mode(replica.pod)}, wanted {mode}")
    if is_final(replica.record):
        return Step(record, stop_the_rest(replica))
    if replica.ended is None:
        return Step(record)
    if replica.ended.end == "disrupted":
        return _disrupted(replica, record, now)
    if mode == "debug":
        return _ended_in_debug(replica, record, replica.ended, now)
    return _ended(replica, record, replica.ended, now, restarts)


def seen(replica: Replica) -> ReplicaStatus:
    """The record brought up to date with what the pod shows; an outcome once recorded stays.

    Containers beside the main one end after it: how they did is added to a final record.
    """
    record, pod = replica.record, replica.pod
    if pod is None:
        return record
    if is_final(record):
        still_runs = any(each.container_phase == "Running" for each in record.containers)
        containers = container_statuses(pod) if still_runs else record.containers
        return msgspec.structs.replace(record, containers=containers) if containers else record
    phase, containers = phase_of(pod, replica.ended), container_statuses(pod)
    waiting = record.waiting and (record.replacing or not main_has_run(pod, replica.main))
    if (phase, containers, waiting) == (record.phase, record.containers, record.waiting):
        return record
    return msgspec.structs.replace(record, phase=phase, containers=containers, waiting=waiting)


def _without_pod(replica: Replica, now: datetime, mode: Mode, create: Callable[[Replica], CreatePod]) -> Step:
    record = replica.record
    if is_final(record) and mode != "debug":
        return Step(record)
    if record.uid and not record.replacing and not is_final(record):
        return _vanished(record, now)
    # The UID stays on record until another takes its place: a cache that is behind must not charge twice.
    record = gone(record)
    ready = ready_at(record)
    if ready is not None and now < ready:
        return Step(record, wake_at=ready)
    return Step(record, (create(replica),))


def gone(record: ReplicaStatus) -> ReplicaStatus:
    """The record of a replica whose pod is no longer there, and not missed."""
    return msgspec.structs.replace(record, replacing=bool(record.uid), phase="Creating", containers=())


def ready_at(record: ReplicaStatus) -> datetime | None:
    """When the replica may start again, after restarts and disruptions alike."""
    waits = (
        backoff.ready_at(record.finished_at, record.restarts),
        backoff.ready_at(record.disrupted_at, record.disruptions),
    )
    return max((wait for wait in waits if wait is not None), default=None)


def _vanished(record: ReplicaStatus, now: datetime) -> Step:
    """The pod is gone and nobody here asked for it."""
    lost = msgspec.structs.replace(
        gone(record), finished_at=None, disrupted_at=now,
        disruptions=backoff.count_disruption(record.disruptions, record.disrupted_at, now),
    )  # fmt: skip
    return Step(lost, wake_at=ready_at(lost), event="was deleted by somebody else")


def _leaving(replica: Replica, record: ReplicaStatus, now: datetime, mode: Mode) -> Step:
    pod = replica.pod
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return Step(record)
    charged = record.finished_at is not None and pod_mode(pod) == mode
    ready = ready_at(record) if charged else None
    if ready is not None and now < ready:
        return Step(record, wake_at=ready)
    return Step(record, (DeletePod(replica.name, record.uid, "to be started again"),))


def _replace(replica: Replica, record: ReplicaStatus, *, why: str) -> Step:
    """Take the pod away without a charge; its replacement comes once it is gone."""
    record = msgspec.structs.replace(record, replacing=True, finished_at=None)
    assert replica.pod is not None
    if replica.pod.metadata.deletion_timestamp is not None:
        return Step(record)
    return Step(record, (DeletePod(replica.name, record.uid, why),))


def _disrupted(replica: Replica, record: ReplicaStatus, now: datetime) -> Step:
    counted = msgspec.structs.replace(
        record, disrupted_at=now,
        disruptions=backoff.count_disruption(record.disruptions, record.disrupted_at, now),
    )  # fmt: skip
    ended = replica.ended or Outcome("disrupted")
    taken = _replace(replica, counted, why=ended.reason or "Exited")
    return msgspec.structs.replace(taken, event=f"{describe_loss(ended)} and is replaced")


def _ended_in_debug(replica: Replica, record: ReplicaStatus, ended: Outcome, now: datetime) -> Step:
    """Create the replica again, uncharged, but with the back-off of a disruption."""
    taken = _disrupted(replica, record, now)
    seconds = backoff.delay(taken.record.disruptions).total_seconds()
    event = f"ended with exit code {ended.exit_code} in debug mode and is created again after {seconds:.0f} s"
    return msgspec.structs.replace(taken, event=event)


def _ended(
    replica: Replica, record: ReplicaStatus, ended: Outcome, now: datetime, restarts: Restarts
) -> Step:
    record = msgspec.structs.replace(record, finished_at=ended.finished_at or now)
    if not ended.final and restarts(ended, record):
        charged = msgspec.structs.replace(record, restarts=record.restarts + 1, replacing=True)
        event = f"ended with exit code {ended.exit_code} and is started again (restart {charged.restarts})"
        return Step(charged, stop_the_rest(replica), ready_at(charged), event)
    return Step(record, stop_the_rest(replica))


def stop_the_rest(replica: Replica) -> tuple[Action, ...]:
    """Other containers that still run are stopped with the main one; the pod and its logs stay."""
    pod = replica.pod
    if pod is None or pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED:
        return ()
    still = any(status.state.running is not None for status in pod.status.container_statuses)
    return stop(replica) if still else ()


def stop(replica: Replica) -> tuple[Action, ...]:
    """End what runs in a pod and keep it; one that no node has yet has nothing to keep."""
    pod = replica.pod
    if pod is None or pod.metadata.deletion_timestamp is not None or pod.status.phase in FINISHED:
        return ()
    if not pod.spec.node_name:
        return (DeletePod(replica.name, pod.metadata.uid, "the job has ended"),)
    if pod.spec.active_deadline_seconds == STOP_DEADLINE_SECONDS:
        return ()
    return (StopPod(replica.name, pod.metadata.uid),)
