"""A cluster in a few dozen lines: pods take phases when told to, time passes when told to.

cluster = ModelCluster(job)
cluster.settle()
cluster.run()
cluster.finish("job-worker-0", exit_code=1)
cluster.settle()
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bireme.api.core import ContainerState, Pod, PodContainerStatus, PodStatus, RunningState, TerminatedState
from bireme.api.meta import Condition, ObjectMeta
from bireme.planning import Observed, Plan, Settings, plan
from bireme.planning.actions import (
    STOP_DEADLINE_SECONDS,
    Action,
    AnnotatePod,
    Create,
    CreatePod,
    DeleteJob,
    DeleteObject,
    DeletePod,
    EmitEvent,
    StopPod,
    UpdateConfigMap,
    UpdatePodGroup,
)
from bireme.planning.observed import Child, Job, Keys, NameConflict

START = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_PASSES = 100


class DidNotSettleError(AssertionError):
    """Planning again and again found always something to do."""


class ModelCluster:
    """A job, its children, and the passing of time. Names and UIDs are counted, never drawn."""

    def __init__(self, job: Job, *, settings: Settings | None = None, keys: Keys | None = None) -> None:
        self.job: Job = job
        self.job_deleted = False
        self.now = START
        self.pods: dict[str, Pod] = {}
        self.children: dict[tuple[str, str], Child] = {}
        self.events: list[EmitEvent] = []
        self.invalid: tuple[str, ...] = ()
        self.taken: tuple[NameConflict, ...] = ()
        self.created: list[str] = []
        self.wake_at: datetime | None = None
        self._settings = settings or Settings()
        self._keys = keys or Keys("client key", "ssh-ed25519 client", "host key", "ssh-ed25519 host")
        self._uids = 0

    def observed(self) -> Observed:
        """What the controller would see now."""
        return Observed(
            self.job,
            tuple(self.pods.values()),
            tuple(self.children.values()),
            self._keys,
            self.invalid,
            self.taken,
            self._settings,
        )

    def plan(self) -> Plan:
        return plan(self.observed(), self.now)

    def reconcile(self) -> Plan:
        """Plan once, and make it so."""
        made = self.plan()
        for action in made.actions:
            self._do(action)
        self.job = msgspec.structs.replace(self.job, status=made.status)
        self.wake_at = made.wake_at
        return made

    def settle(self) -> list[Action]:
        """Reconcile until nothing is left to do; return all that was done."""
        done: list[Action] = []
        for _ in range(_MOST_PASSES):
            status = self.job.status
            made = self.reconcile()
            done += made.actions
            if not made.actions and made.status == status:
                return done
        raise DidNotSettleError(done[-5:])

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # ---- what kubelets, schedulers and users do

    def run(self, *names: str) -> None:
        """Let pods run; all that wait, when none is named."""
        for name in names or [name for name, pod in self.pods.items() if not pod.status.phase]:
            pod = self.pods[name]
            statuses = tuple(
                PodContainerStatus(
                    name=container.name, state=ContainerState(running=RunningState(started_at=self.now))
                )
                for container in pod.spec.containers
            )
            self._set(name, "Running", statuses, node="node-1")

    def finish(
        self, name: str, exit_code: int = 0, *, message: str = "", reason: str = "", phase: bool = True
    ) -> None:
        """End the first container of a pod; with `phase`, the others and so the pod as well."""
        pod = self.pods[name]
        why = reason or ("Completed" if exit_code == 0 else "Error")
        ended = TerminatedState(exit_code=exit_code, reason=why, message=message, finished_at=self.now)
        first, *others = pod.spec.containers
        rest = (
            ContainerState(terminated=TerminatedState()) if phase else ContainerState(running=RunningState())
        )
        statuses = (
            PodContainerStatus(name=first.name, state=ContainerState(terminated=ended)),
            *(PodContainerStatus(name=other.name, state=rest) for other in others),
        )
        outcome = "Succeeded" if exit_code == 0 else "Failed"
        self._set(name, outcome if phase else "Running", statuses, node=pod.spec.node_name or "node-1")

    def evict(self, name: str, reason: str = "Evicted") -> None:
        self._set(name, "Failed", (), reason=reason, node="node-1")

    def target(self, name: str, reason: str) -> None:
        """Mark a pod as the target of a disruption, and end it."""
        self._set(name, "Failed", (), node="node-1")
        pod = self.pods[name]
        mark = Condition(type="DisruptionTarget", status="True", reason=reason)
        status = msgspec.structs.replace(pod.status, conditions=(mark,))
        self.pods[name] = msgspec.structs.replace(pod, status=status)

    def mark_unknown(self, name: str) -> None:
        self._set(name, "Unknown", (), node="node-1")

    def delete(self, name: str, *, grace_seconds: int = 30) -> None:
        """Ask for the deletion of a pod; it stays, terminating, until it is `remove`d."""
        pod = self.pods[name]
        metadata = msgspec.structs.replace(
            pod.metadata,
            deletion_timestamp=self.now + timedelta(seconds=grace_seconds),
            deletion_grace_period_seconds=grace_seconds,
        )
        self.pods[name] = msgspec.structs.replace(pod, metadata=metadata)

    def remove(self, *names: str) -> None:
        """Let terminating pods be gone; all of them, when none is named."""
        for name in names or [
            n for n, pod in self.pods.items() if pod.metadata.deletion_timestamp is not None
        ]:
            del self.pods[name]

    def edit(self, **spec: Any) -> None:
        """Change fields of the job's spec, as a user would."""
        metadata = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        changed = msgspec.structs.replace(self.job.spec, **spec)
        self.job = msgspec.structs.replace(self.job, spec=changed, metadata=metadata)

    # ---- what an API server does

    def _set(
        self,
        name: str,
        phase: str,
        statuses: tuple[PodContainerStatus, ...],
        *,
        reason: str = "",
        node: str = "",
    ) -> None:
        pod = self.pods[name]
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        status = PodStatus(phase=phase, reason=reason, container_statuses=statuses)
        self.pods[name] = msgspec.structs.replace(pod, spec=spec, status=status)

    def _do(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create_pod(action.object)
            case Create(manifest):
                metadata = self._metadata(manifest)
                child = Child(
                    manifest["kind"],
                    metadata,
                    manifest.get("data") if manifest["kind"] == "ConfigMap" else None,
                    manifest["spec"]["minMember"] if manifest["kind"] == "PodGroup" else None,
                )
                self.children[child.key] = child
            case DeletePod(name, uid):
                if name in self.pods and self.pods[name].metadata.uid == uid:
                    self.delete(name)
            case StopPod() | AnnotatePod():
                self._change_pod(action)
            case UpdateConfigMap() | UpdatePodGroup():
                self._change_child(action)
            case DeleteObject(kind, name):
                self.children.pop((kind, name), None)
            case DeleteJob():
                self.job_deleted = True
            case EmitEvent():
                self.events.append(action)

    def _change_child(self, action: UpdateConfigMap | UpdatePodGroup) -> None:
        if isinstance(action, UpdateConfigMap):
            key = "ConfigMap", action.name
            self.children[key] = msgspec.structs.replace(self.children[key], data=action.data)
        else:
            key = "PodGroup", action.name
            self.children[key] = msgspec.structs.replace(self.children[key], members=action.members)

    def _create_pod(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        assert name not in self.pods, f"{name} is still there"
        pod = msgspec.convert({"spec": manifest["spec"]}, Pod)
        self.pods[name] = msgspec.structs.replace(pod, metadata=self._metadata(manifest))
        self.created.append(name)

    def _metadata(self, manifest: dict[str, Any]) -> ObjectMeta:
        self._uids += 1
        return msgspec.convert({**manifest["metadata"], "uid": f"uid-{self._uids}"}, ObjectMeta)

    def _change_pod(self, action: StopPod | AnnotatePod) -> None:
        if isinstance(action, StopPod):
            self._stop(action.name)
            return
        pod = self.pods[action.name]
        annotations = {**pod.metadata.annotations, **action.annotations}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        self.pods[action.name] = msgspec.structs.replace(pod, metadata=metadata)

    def _stop(self, name: str) -> None:
        pod = self.pods[name]
        statuses = tuple(
            msgspec.structs.replace(status, state=ContainerState(terminated=TerminatedState(exit_code=137)))
            if status.state.running is not None
            else status
            for status in pod.status.container_statuses
        )
        spec = msgspec.structs.replace(pod.spec, active_deadline_seconds=STOP_DEADLINE_SECONDS)
        self.pods[name] = msgspec.structs.replace(pod, spec=spec)
        self._set(name, "Failed", statuses, reason="DeadlineExceeded", node=pod.spec.node_name)
