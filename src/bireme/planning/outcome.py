"""What a pod has come to: running, finished, or lost through no fault of its program."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from bireme.api.core import ContainerState, Pod, TerminatedState
from bireme.api.job import ContainerStatus, ReplicaPhase
from bireme.planning.actions import STOP_DEADLINE_SECONDS

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
MAX_DURATION_EXCEEDED: Final = "MaxDurationExceeded"
INCOMPLETE_RUN: Final = "IncompleteRun"
_INCOMPLETE_CODE: Final = 122
_INCOMPLETE_WORDS: Final = "mpirun exited with 0, but"
"""How the script `supervise` ends and begins its message when it does not believe mpirun's success."""
STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits when nothing is wrong."""
# Beyond are those of real time, which nobody dies of; codes like 183 are a program's own, mpirun's for one.
_LAST_SIGNAL: Final = 31
_DISRUPTION_REASONS: Final = frozenset(
    {
        "Evicted",
        "NodeLost",
        "NodeShutdown",
        "NodeAffinity",
        "Preempting",
        "Shutdown",
        "Terminated",
        "TerminationByKubelet",
        "UnexpectedAdmissionError",
    }
)

PREEMPTED: Final = "Preempted"
EVICTED: Final = "Evicted"
_LOSSES: Final = {
    "PreemptionByScheduler": PREEMPTED,
    "Preempting": PREEMPTED,
    "EvictionByEvictionAPI": EVICTED,
    "DeletionByTaintManager": EVICTED,
    "Evicted": EVICTED,
}
"""Reasons of pods and of their condition DisruptionTarget, and the word by which a loss is told."""

End = Literal["succeeded", "failed", "disrupted"]


class Outcome(msgspec.Struct, frozen=True):
    """How a pod ended. `final` failures are not restarted, whatever the policy says."""

    end: End
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    message: str = ""
    container: str = ""
    is_init: bool = False
    finished_at: datetime | None = None
    final: bool = False


def main_state(pod: Pod, main: str) -> TerminatedState | None:
    """How the main container ended, None while it has not. Without a name: the first container."""
    for status in pod.status.container_statuses:
        if status.name == main or not main:
            return status.state.terminated
    return None


def outcome(pod: Pod, main: str) -> Outcome | None:
    """How the pod ended; None while it has not.

    The main container's exit is the pod's. A pod that is being deleted, evicted or preempted counts
    as disrupted, unless its main container had ended before.
    """
    if _exceeded_duration(pod):
        message = "the pod was bound for longer than its queue allows"
        return Outcome("failed", reason=MAX_DURATION_EXCEEDED, message=message, final=True)
    state = main_state(pod, main)
    if state is not None and not _ended_by_deletion(pod, state) and not is_disrupted(pod):
        return _from_state(pod, main, state)
    if pod.metadata.deletion_timestamp is not None or is_disrupted(pod):
        return _loss(pod)
    if pod.status.phase == "Succeeded":
        return Outcome("succeeded", exit_code=0)
    if pod.status.phase == "Failed":
        return _before_main(pod)
    return None


def _loss(pod: Pod) -> Outcome:
    """Return why a pod was lost: DisruptionTarget is set before a pod is deleted, and names the cause."""
    otherwise = "Deleted" if pod.metadata.deletion_timestamp is not None else "Disrupted"
    reason = pod.status.reason or _disruption_target(pod) or otherwise
    message = pod.status.message or _disruption_message(pod)
    return Outcome("disrupted", reason=_LOSSES.get(reason, reason), message=message)


def describe_loss(ended: Outcome) -> str:
    """Return what became of a pod that was lost, without its name."""
    verb = {PREEMPTED: "was preempted", EVICTED: "was evicted"}.get(ended.reason)
    if verb is None:
        return f"was lost ({ended.reason or 'Exited'})"
    return f"{verb} ({ended.message})" if ended.message else verb


def _before_main(pod: Pod) -> Outcome:
    """The pod failed and its main container never ran: an init container may tell why.

    They start one after the other, so the last that failed is it; sidecars before it were only stopped.
    """
    for status in reversed(pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is not None and ended.exit_code != 0:
            return Outcome(
                "failed",
                exit_code=ended.exit_code,
                signal=ended.signal,
                reason=ended.reason,
                message=ended.message,
                container=status.name,
                is_init=True,
                finished_at=ended.finished_at,
            )
    return Outcome("failed", reason=pod.status.reason or "Failed", message=pod.status.message)


def is_incomplete(ended: Outcome) -> bool:
    """Whether a launcher ended because mpirun's success was in doubt."""
    return ended.exit_code == _INCOMPLETE_CODE and ended.message.startswith(_INCOMPLETE_WORDS)


def main_has_run(pod: Pod, main: str) -> bool:
    """Whether the main container runs, or has run."""
    for status in pod.status.container_statuses:
        if status.name == main or not main:
            return status.state.running is not None or status.state.terminated is not None
    return False


def _from_state(pod: Pod, main: str, state: TerminatedState) -> Outcome:
    is_overdue = pod.status.reason == DEADLINE_EXCEEDED and (
        state.exit_code != 0 or _exceeded_own_deadline(pod, state)
    )
    return Outcome(
        "failed" if is_overdue or state.exit_code != 0 else "succeeded",
        exit_code=state.exit_code,
        signal=state.signal
        or (state.exit_code - 128 if 128 < state.exit_code <= 128 + _LAST_SIGNAL else None),
        reason=pod.status.reason if is_overdue else state.reason,
        message=pod.status.message if is_overdue else state.message,
        container=main or (pod.spec.containers[0].name if pod.spec.containers else ""),
        finished_at=state.finished_at,
    )


def _exceeded_own_deadline(pod: Pod, state: TerminatedState) -> bool:
    """Whether a container ended because of the deadline of its template: an exit code 0 is no success then.

    The controller stops finished pods by a deadline of its own, which says nothing of the program.
    """
    seconds, start = pod.spec.active_deadline_seconds, pod.status.start_time
    if seconds is None or seconds == STOP_DEADLINE_SECONDS or start is None or state.finished_at is None:
        return False
    return state.finished_at >= start + timedelta(seconds=seconds)


def _ended_by_deletion(pod: Pod, state: TerminatedState) -> bool:
    """Whether the container ended because somebody deleted the pod, rather than before."""
    deleted = pod.metadata.deletion_timestamp
    if deleted is None:
        return False
    asked = deleted - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    return state.finished_at is None or state.finished_at >= asked


def is_disrupted(pod: Pod) -> bool:
    """Whether the pod failed because of its node or the scheduler."""
    if pod.status.phase != "Failed":
        return False
    return (
        pod.status.reason in _DISRUPTION_REASONS
        or pod.status.reason.startswith("OutOf")
        or bool(_disruption_target(pod))
    )


def _disruption_target(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason or "DisruptionTarget"
    return ""


def _disruption_message(pod: Pod) -> str:
    targets = (each for each in pod.status.conditions if each.type == "DisruptionTarget")
    return next((each.message for each in targets if each.status == "True"), "")


def _exceeded_duration(pod: Pod) -> bool:
    return _disruption_target(pod) == MAX_DURATION_EXCEEDED


def phase_of(pod: Pod, ended: Outcome | None) -> ReplicaPhase:
    """The replica's phase while this pod stands for it."""
    if ended is not None and ended.end != "disrupted":
        return "Succeeded" if ended.end == "succeeded" else "Failed"
    match pod.status.phase:
        case "Running" | "Succeeded" | "Failed" | "Unknown" as phase:
            return phase
        case _:
            return "Pending" if pod.spec.node_name else "Creating"


def container_statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    """The containers, unless all of them plainly run; init containers only where one is in the way."""
    statuses = pod.status.container_statuses
    if not statuses or all(status.state.running is not None for status in statuses):
        return ()
    stuck = tuple(status for status in pod.status.init_container_statuses if _is_in_the_way(status.state))
    return tuple(_container_status(status.name, status.state) for status in (*stuck, *statuses))


def _is_in_the_way(state: ContainerState) -> bool:
    if state.terminated is not None:
        return state.terminated.exit_code != 0
    return state.waiting is not None and state.waiting.reason not in STARTING


def _container_status(name: str, state: ContainerState) -> ContainerStatus:
    terminated, waiting = state.terminated, state.waiting
    if terminated is not None:
        return ContainerStatus(
            name=name, container_phase="Terminated", exit_code=terminated.exit_code, reason=terminated.reason
        )
    if waiting is not None:
        return ContainerStatus(name=name, container_phase="Waiting", reason=waiting.reason)
    return ContainerStatus(name=name, container_phase="Running" if state.running is not None else "Unknown")
