"""Why replicas neither start nor end, as far as their pods show it.

A stall is reported in the condition Running of a job (Created or Restarting of Kubeflow's) and once as a
Warning Event. Messages hold neither times nor counters, and kubelet's two words for an image that can't be
pulled, which alternate, are one here: a stall that lasts costs one write of the status.

Not known from pods: why a volume can't be mounted (kubelet says so in Events of the pod alone, which the
controller may not read). A pod that waits for its sandbox for longer than a minute is named instead.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bireme.api.core import ContainerState, Pod
from bireme.api.job import ReplicaStatus
from bireme.planning import backoff
from bireme.planning.outcome import STARTING
from bireme.planning.timing import earliest
from bireme.planning.words import some

STUCK_AFTER: Final = timedelta(seconds=60)
"""How long after the end of its grace period a pod counts as stuck, and how long a sandbox may take."""
STUCK_TERMINATING: Final = "PodStuckTerminating"
SANDBOX_NOT_READY: Final = "PodSandboxNotReady"
IMAGE_NOT_PULLED: Final = "ImagePullBackOff"
_IMAGE_REASONS: Final = frozenset({"ErrImagePull", IMAGE_NOT_PULLED})
_MOST_SAID: Final = 300


class Stall(NamedTuple):
    """Why pods do not go on. `detail` is for the Event: it may differ from one look to the next."""

    reason: str
    message: str
    detail: str = ""

    @property
    def event(self) -> str:
        return f"{self.message}: {self.detail}" if self.detail else self.message


def find_stall(pods: Sequence[Pod], now: datetime) -> Stall | None:
    """Return what is in the way of the pods: those that do not end first, as others wait for them."""
    return find_stuck(pods, now) or _waiting_containers(pods) or _without_sandbox(pods, now)


def next_look(pods: Iterable[Pod], now: datetime) -> datetime | None:
    """Return when a pod that is going, or starting, would count as stuck; None if no pod is either."""
    times = (time for pod in pods for time in (_stuck_at(pod), _overdue_at(pod)))
    return earliest(*(time for time in times if time is not None and time > now))


def describe_debug_exits(records: Iterable[ReplicaStatus]) -> str:
    """Return which replicas in debug mode have ended and come again; empty if none."""
    exits = [record for record in records if record.disruptions and record.replacing]
    if not exits:
        return ""
    seconds = max(backoff.delay(record.disruptions) for record in exits).total_seconds()
    names = some([record.name for record in exits])
    return f"{names} ended in debug mode, or was lost, and is created again after {seconds:.0f} s"


def _stuck_at(pod: Pod) -> datetime | None:
    # deletionTimestamp is when the grace period is over, and not when the deletion was asked for.
    end = pod.metadata.deletion_timestamp
    # A finalizer keeps a pod, too, and is its owner's to remove.
    is_kubelets = bool(pod.spec.node_name) and not pod.metadata.finalizers
    return end + STUCK_AFTER if end is not None and is_kubelets else None


def find_stuck(pods: Sequence[Pod], now: datetime) -> Stall | None:
    """Return which pods do not end, and on which nodes."""
    stuck = [pod for pod in pods if (end := _stuck_at(pod)) is not None and end <= now]
    if not stuck:
        return None
    names = some([pod.metadata.name for pod in stuck])
    nodes = sorted({pod.spec.node_name for pod in stuck})
    where = f"node{'s' if len(nodes) > 1 else ''} {some(nodes)}"
    message = (
        f"{names} on {where} did not end in time: the node may be lost. No other copy starts before that is"
        f" known: see `kubectl get node {nodes[0]}`, and `A node is lost` in docs/guides/troubleshooting.md"
    )
    return Stall(STUCK_TERMINATING, message)


def _waiting_containers(pods: Sequence[Pod]) -> Stall | None:
    """The first container that waits for a reason other than being started."""
    found = [(pod, *blocked) for pod in pods if (blocked := _blocked_container(pod)) is not None]
    if not found:
        return None
    pod, container, state = found[0]
    assert state.waiting is not None
    reason, said = state.waiting.reason, state.waiting.message[:_MOST_SAID]
    names = some([each.metadata.name for each, name, _ in found if name == container])
    if reason in _IMAGE_REASONS:
        image = _image(pod, container) or "of the container " + container
        return Stall(IMAGE_NOT_PULLED, f"{names} can't start: the image {image} can't be pulled", said)
    return Stall(reason, f"{names} can't start: {container}: {said or reason}")


def _blocked_container(pod: Pod) -> tuple[str, ContainerState] | None:
    if pod.metadata.deletion_timestamp is not None:
        return None
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in STARTING:
            return status.name, status.state
    return None


def _image(pod: Pod, name: str) -> str:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return next((container.image for container in containers if container.name == name), "")


def _overdue_at(pod: Pod) -> datetime | None:
    """When the sandbox of a pod is overdue; None unless kubelet is at work on it."""
    start = pod.status.start_time
    if pod.status.phase != "Pending" or start is None or pod.metadata.deletion_timestamp is not None:
        return None
    waits = any(c.type == "PodReadyToStartContainers" and c.status == "False" for c in pod.status.conditions)
    return start + STUCK_AFTER if waits else None


def _without_sandbox(pods: Sequence[Pod], now: datetime) -> Stall | None:
    overdue = [pod for pod in pods if (end := _overdue_at(pod)) is not None and end <= now]
    if not overdue:
        return None
    names, first = some([pod.metadata.name for pod in overdue]), overdue[0]
    message = (
        f"{names} can't start: the volumes or the network are not ready on node {first.spec.node_name};"
        f" `kubectl describe pod {first.metadata.name}` says why (FailedMount names a volume, ConfigMap or"
        " Secret that is missing)"
    )
    return Stall(SANDBOX_NOT_READY, message)
