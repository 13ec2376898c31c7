"""Why a live job waits: what its queue, the cluster's scheduler or the kubelet say of its pods.

The condition Running of a job that waits carries their reason and message, so that nobody has to look at
PodGroups and pods. Sources, the first that says something:

1. a pod that does not end, because its node may be lost: no other copy starts before it has (`stalls`);
2. the PodGroup, while one of the job's pods has no node: the queue's reason, such as WaitingForQuota;
3. the condition PodScheduled=False of a pod: the cluster scheduler's, such as Unschedulable;
4. what else keeps a pod on a node from starting, such as an image that can't be pulled (`stalls`).

Messages hold numbers that change all the time. `hold_back` lets a job renew them once in RENEWAL at most, and
asks to be woken when the next renewal is due. When the last one was is in the status: planning keeps nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from bireme.api.core import Pod
from bireme.api.meta import Condition
from bireme.planning.actions import EmitEvent
from bireme.planning.conditions import Say
from bireme.planning.observed import Child
from bireme.planning.replicas import FINISHED, Replica
from bireme.planning.stalls import STUCK_TERMINATING, Stall
from bireme.planning.words import some

RENEWAL: Final = timedelta(seconds=5)
WAITING_FOR_REPLICAS: Final = "WaitingForReplicas"
MAX_MESSAGE: Final = 1024
_PATIENT: Final = frozenset(
    {
        "Fragmented",
        "InsufficientMembers",
        "QueueClosed",
        "SchedulingGated",
        "WaitingForQuota",
        "WaitingForResources",
        "WaitingForTurn",
        "WaitingForVictims",
    }
)
"""Reasons of a job that has but to wait; any other needs somebody to do something."""
_ALIKE: Final = {"Fragmented": "WaitingForResources"}
"""Reasons that flip all the time and mean the same; a change between them is not worth an Event."""


def find_reason(replicas: Sequence[Replica], children: Iterable[Child], stall: Stall | None) -> Say | None:
    """Return what the condition Running says of a job that waits; None where nothing is known."""
    if stall is not None and stall.reason == STUCK_TERMINATING:
        return _by_stall(stall)
    unscheduled = [(replica.name, replica.pod) for replica in replicas if _is_unscheduled(replica)]
    if not unscheduled:
        return _by_stall(stall)
    for child in children:
        if child.waiting is not None and child.metadata.deletion_timestamp is None:
            return Say(False, child.waiting.reason, child.waiting.message[:MAX_MESSAGE])
    told = [
        (name, condition)
        for name, pod in unscheduled
        if pod is not None and (condition := _unscheduled_condition(pod)) is not None
    ]
    if not told:
        return _by_stall(stall)
    reason, message = told[0][1].reason, told[0][1].message
    names = [name for name, condition in told if condition.reason == reason]
    return Say(False, reason, f"{some(names)}: {message}"[:MAX_MESSAGE])


def _is_unscheduled(replica: Replica) -> bool:
    pod = replica.pod
    return (
        pod is not None
        and not pod.spec.node_name
        and not replica.record.replacing
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in FINISHED
    )


def _unscheduled_condition(pod: Pod) -> Condition | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason:
            return condition
    return None


def _by_stall(stall: Stall | None) -> Say | None:
    return None if stall is None else Say(False, stall.reason, stall.message[:MAX_MESSAGE])


def alike(reason: str) -> str:
    """Return the reason that stands for all that mean the same."""
    return _ALIKE.get(reason, reason)


def hold_back(
    old: Condition | None, new: Say, reported_at: datetime | None, now: datetime
) -> tuple[Say, datetime | None, datetime | None]:
    """Return what to say now, when that was renewed, and when to look again.

    The first reason is told at once, and so is one that follows a decision of ours, such as a pause.
    """
    if old is None or old.status != "False":
        return new, now, None
    before = Say(False, old.reason, old.message)
    if before == new:
        return new, reported_at, None
    is_held = reported_at is not None and now < reported_at + RENEWAL
    if is_held and old.reason not in ("Paused", "Restarting"):
        assert reported_at is not None
        return before, reported_at, reported_at + RENEWAL
    return new, now, None


def build_event(old: Condition | None, said: Say, stall: Stall | None) -> list[EmitEvent]:
    """Return the Event of a job that begins to wait, or that waits for another reason.

    The Event of a stall says more than the condition, which must not change from one look to the next.
    """
    if old is not None and old.status == "False" and alike(old.reason) == alike(said.reason):
        return []
    message = stall.event if stall is not None and stall.reason == said.reason else said.message
    return [EmitEvent("Normal" if said.reason in _PATIENT else "Warning", said.reason, message)]
