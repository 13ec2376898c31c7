"""Pause and resume."""

from typing import Final

import msgspec

from bireme.api.core import Pod
from bireme.api.job import ReplicaStatus, condition
from bireme.planning import conditions as c
from bireme.planning.actions import Action, DeletePod, EmitEvent
from bireme.planning.conditions import Say
from bireme.planning.gang import delete_pod_group
from bireme.planning.observed import Plan
from bireme.planning.view import View

STOPPED: Final = "Stopped"
STOPPING: Final = "Stopping"
RESUMED: Final = "Resumed"
NEVER_STARTED: Final = "NeverStarted"


def is_paused(view: View) -> bool:
    """Whether the job shall stand still; pause wins over debug."""
    return view.run_mode.pause is not None and view.run_mode.pause.on


def was_paused(view: View) -> bool:
    """Whether the job stood still until now, by the condition: a phase can be overwritten in between."""
    before = condition(view.status, c.PAUSED)
    return before is not None and before.status == "True"


def pause(view: View) -> Plan:
    """Take all pods away, gracefully; everything else stays, but a PodGroup without pods."""
    pods = view.observed.pods
    actions: list[Action] = [
        DeletePod(pod.metadata.name, pod.metadata.uid, "the job is paused") for pod in pods_to_suspend(view)
    ]
    if not pods:
        actions += delete_pod_group(view.observed.children)
    told = (
        Say(True, STOPPING, f"{len(pods)} pods are still there")
        if pods
        else Say(True, STOPPED, "no pod is left")
    )
    records = {
        (replica.type, replica.index): _suspended(replica.record, gone=replica.pod is None)
        for replica in view.replicas(view.records())
    }
    says = {c.PAUSED: told, c.RUNNING: Say(False, "Paused"), c.REPLICA_FAILURE: Say(False, "NoFailure")}
    if view.status.phase != "Paused":
        actions.append(EmitEvent("Normal", "Paused", "the job is paused"))
    return Plan(tuple(actions), view.next_status(records, "Paused", says))


def pods_to_suspend(view: View) -> list[Pod]:
    """Return the pods to delete now: all of them.

    Workers tell their ranks to stop, and a launcher waits for the ranks: each needs the others.
    """
    return [pod for pod in view.observed.pods if pod.metadata.deletion_timestamp is None]


def _suspended(record: ReplicaStatus, *, gone: bool) -> ReplicaStatus:
    """The record of a replica of a paused job. One that never had a pod is still to be created."""
    if not gone or (not record.uid and record.phase == "Creating"):
        return record
    return msgspec.structs.replace(
        record, uid="", phase="Deleted", containers=(), replacing=False, finished_at=None
    )


def resume(view: View) -> tuple[dict[str, ReplicaStatus], dict[str, Say]]:
    """Records and conditions with which the job goes on: every replica anew, also one that succeeded.

    Pods that are still on their way out no longer count. A job that had started uses its resumeSpecs
    from now on: the reason of the condition remembers it.
    """
    # Once stopped, no pod was left: what is there now is of our making, and its record was lost.
    stopped = (paused := condition(view.status, c.PAUSED)) is not None and paused.reason == STOPPED
    pods = () if stopped else view.observed.pods
    leaving = {pod.metadata.name: pod.metadata.uid for pod in pods}
    records = {
        name: ReplicaStatus(
            name=name,
            phase="Creating",
            waiting=True,
            restarts=record.restarts,
            uid=leaving.get(name, ""),
            replacing=name in leaving,
        )
        for name, record in view.records().items()
    }
    started = view.status.start_time is not None
    told = (
        Say(False, RESUMED, "the job goes on")
        if started
        else Say(False, NEVER_STARTED, "the job had not started")
    )
    return records, {c.PAUSED: told}
