"""Scheduler and kubelets: pods are bound, run, end as the scenario says, and go when they are asked to."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bireme.apiserver.deletion import DeleteOptions, Preconditions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD
from bireme.apiserver.rules import Object
from bireme.apiserver.subresources import bind
from bireme.apiserver.times import write_time
from bireme.planning.identity import JOB_UID_LABEL, MODE_ANNOTATION, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, Cluster, Write

FINISHED: Final = ("Succeeded", "Failed")
PODS_PER_NODE: Final = 4
Programs = dict[str, tuple[int, ...]]
"""The exit codes of a replica's runs, one after the other; the last stands for all that follow."""


class Running(NamedTuple):
    """The containers of a pod that a node runs."""

    node: str
    replica: tuple[str, str, str]


class Nodes:
    """Three nodes. A pod whose replica has no program runs until it is asked to go.

    A launcher ends only while all pods of its job run, as a real one would wait for its workers. No program
    ends before it may, but for the first runs of those replicas that `early` has.
    """

    def __init__(
        self, cluster: Cluster, programs: Programs, early: Mapping[str, int], *, seconds: float, gang: bool
    ) -> None:
        self._cluster, self._store = cluster, cluster.store
        self._programs, self._early, self._seconds, self._gang = programs, early, seconds, gang
        self._ended: dict[str, int] = {}
        self._waiting: dict[str, str] = {}
        """Pods that would end, if only they were let: name by UID."""
        self._seen: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self.names = ("node-0", "node-1", "node-2")
        self.running: dict[str, Running] = {}
        self.on_start: list[Callable[[Object], None]] = []
        self.may_finish: Callable[[], bool] = lambda: True
        cluster.listeners.append(self._hear)

    # ---- what there is to do

    def _hear(self, write: Write) -> None:
        if write.kind is not POD:
            return
        if write.after is None:
            if write.object["metadata"]["uid"] in self.running:
                # The object is gone, the containers take their time.
                self._cluster.later(0.5, 4.0, self.running.pop, write.object["metadata"]["uid"], None)
            self._later("free", write.object, 0.05, 0.5, self._bind_all)
            return
        pod = write.after
        metadata, spec = pod["metadata"], pod["spec"]
        if "ownerReferences" not in metadata:
            return
        if not spec.get("nodeName"):
            self._later("bind", pod, 0.01, 0.3, self._bind_all)
        elif "deletionTimestamp" in metadata:
            self._later("stop", pod, 0.05, 4.0, self._stop, pod)
        elif pod["status"].get("phase") == "Pending":
            self._later("start", pod, 0.05, 2.0, self._start, pod)
        elif "activeDeadlineSeconds" in spec and pod["status"].get("phase") == "Running":
            self._later("deadline", pod, 1.0, 3.0, self._deadline, pod)

    def _later(
        self, what: str, pod: Object, low: float, high: float, work: Callable[..., None], *args: Any
    ) -> None:
        """Do a thing once for each pod."""
        key = what, pod["metadata"]["uid"]
        if key not in self._seen:
            self._seen.add(key)
            self._cluster.later(low, high, work, *args)

    def _now_at(self, pod: Object) -> Object | None:
        """The pod as it is by now, if its node still looks after it."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        found = self._store.find(POD, name, namespace=NAMESPACE_OF_JOBS)
        if found is None or found["metadata"]["uid"] != uid or found["spec"].get("nodeName") in self._down:
            return None
        return found

    # ---- scheduler

    def _bind_all(self) -> None:
        for pod in self._cluster.objects(POD):
            metadata = pod["metadata"]
            if (
                pod["spec"].get("nodeName")
                or "ownerReferences" not in metadata
                or "deletionTimestamp" in metadata
            ):
                continue
            node = self._free_node()
            if node is not None:
                self._bind(pod, node)

    def _free_node(self) -> str | None:
        used = [pod["spec"].get("nodeName") for pod in self._cluster.objects(POD)]
        free = [name for name in self.names if name not in self._down and used.count(name) < PODS_PER_NODE]
        return min(free, key=used.count, default=None)

    def _bind(self, pod: Object, node: str) -> None:
        name = pod["metadata"]["name"]
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        with self._cluster.acting("scheduler"):
            bind(self._store, name, body, self._cluster.now(), namespace=NAMESPACE_OF_JOBS)

    # ---- kubelets

    def _start(self, pod: Object) -> None:
        found = self._now_at(pod)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        labels, uid = found["metadata"]["labels"], found["metadata"]["uid"]
        replica = labels[JOB_UID_LABEL], labels[REPLICA_TYPE_LABEL], labels[REPLICA_INDEX_LABEL]
        for listener in self.on_start:
            listener(found)
        self.running[uid] = Running(found["spec"]["nodeName"], replica)
        state = {"running": {"startedAt": write_time(self._cluster.now())}}
        self._write(found, "Running", {c["name"]: state for c in found["spec"]["containers"]})
        if found["metadata"]["name"] in self._programs:
            low = self._seconds
            self._cluster.later(low, low * 1.5, self._finish, found)
        self._try_waiting()

    def release(self) -> None:
        """What keeps programs from ending may be over."""
        self._cluster.later(0.5, 2.0, self._try_waiting)

    def _try_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for uid, name in waiting.items():
            found = self._store.find(POD, name, namespace=NAMESPACE_OF_JOBS)
            if found is not None and found["metadata"]["uid"] == uid:
                self._cluster.later(1.0, 5.0, self._finish, found)

    def _finish(self, pod: Object) -> None:
        """End the main container as the program says; the others go on."""
        found = self._now_at(pod)
        if found is None or "deletionTimestamp" in found["metadata"] or _has_ended(found):
            return
        name, uid = found["metadata"]["name"], found["metadata"]["uid"]
        if not self._lets_end(found):
            self._waiting[uid] = name
            return
        codes, number = self._programs[name], self._ended.get(name, 0)
        self._ended[name] = number + 1
        self.exit(found, codes[min(number, len(codes) - 1)])

    def _lets_end(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        if metadata["annotations"].get(MODE_ANNOTATION) == "debug":
            return False
        if not self.may_finish() and not self._ends_early(metadata["name"]):
            return False
        if not self._gang or metadata["labels"][REPLICA_TYPE_LABEL] != "launcher":
            return True
        uid = _job_of(pod)
        return sum(running.replica[0] == uid for running in self.running.values()) > self._workers_of(pod)

    def _ends_early(self, name: str) -> bool:
        return self._ended.get(name, 0) < self._early.get(name, 0)

    def _workers_of(self, pod: Object) -> int:
        owner = pod["metadata"]["ownerReferences"][0]
        kind = next(
            kind
            for kind in self._store.kinds
            if (kind.kind, kind.api_version) == (owner["kind"], owner["apiVersion"])
        )
        job = self._store.find(kind, owner["name"], namespace=NAMESPACE_OF_JOBS)
        if job is None:
            return len(self.running)
        workers = job["spec"].get("worker") or job["spec"]["mpiReplicaSpecs"]["Worker"]
        return int(workers.get("replicas", 1))

    def exit(self, pod: Object, code: int, reason: str = "") -> None:
        """End the main container of a pod."""
        main, *others = (c["name"] for c in pod["spec"]["containers"])
        ended = {
            "exitCode": code, "reason": reason or ("Error" if code else "Completed"),
            "startedAt": write_time(self._cluster.now()), "finishedAt": write_time(self._cluster.now()),
        }  # fmt: skip
        state: dict[str, Object] = {main: {"terminated": ended}}
        state |= {name: {"running": {}} for name in others}
        phase = "Running" if others else "Failed" if code else "Succeeded"
        if phase in FINISHED:
            self.running.pop(pod["metadata"]["uid"], None)
        self._write(pod, phase, state)

    def _deadline(self, pod: Object) -> None:
        found = self._now_at(pod)
        if found is None or found["status"]["phase"] in FINISHED:
            return
        self.running.pop(found["metadata"]["uid"], None)
        self._write(found, "Failed", self._killed(found), reason="DeadlineExceeded")

    def _stop(self, pod: Object) -> None:
        """End a pod that was asked to go, then let it go."""
        found = self._now_at(pod)
        if found is None:
            return
        self.running.pop(found["metadata"]["uid"], None)
        if found["status"]["phase"] not in FINISHED:
            self._write(found, "Failed", self._killed(found))
        self._cluster.later(0.05, 1.0, self.remove, found, "kubelet")

    def _killed(self, pod: Object) -> dict[str, Object]:
        """The containers once those that still ran were killed."""
        killed = {"exitCode": 143, "reason": "Error", "finishedAt": write_time(self._cluster.now())}
        states = {c["name"]: c.get("state") or {} for c in pod["status"].get("containerStatuses") or ()}
        names = [c["name"] for c in pod["spec"]["containers"]]
        return {
            name: states[name] if "terminated" in states.get(name, {}) else {"terminated": killed}
            for name in names
        }

    def remove(self, pod: Object, who: str) -> None:
        """Remove a pod for good."""
        metadata = pod["metadata"]
        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(metadata["uid"]))
        with self._cluster.acting(who):
            self._try(
                self._store.delete,
                POD,
                metadata["name"],
                self._cluster.now(),
                options,
                namespace=NAMESPACE_OF_JOBS,
            )

    def _write(self, pod: Object, phase: str, states: dict[str, Object], *, reason: str = "") -> None:
        statuses = [
            {"name": name, "image": "x", "imageID": "", "ready": "running" in state, "restartCount": 0,
             "state": state}
            for name, state in states.items()
        ]  # fmt: skip
        status: Object = {"phase": phase, "containerStatuses": statuses}
        self.report(pod, status | ({"reason": reason} if reason else {}), "kubelet")

    def report(self, pod: Object, status: Object, who: str) -> None:
        """Write fields of a pod's status."""
        name = pod["metadata"]["name"]
        with self._cluster.acting(who):
            self._try(
                self._store.patch,
                POD,
                name,
                {"status": status},
                namespace=NAMESPACE_OF_JOBS,
                subresource="status",
            )

    def _try(self, write: Callable[..., Any], *args: Any, **options: Any) -> None:
        try:
            write(*args, **options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    # ---- mishaps

    def lose(self, node: str, seconds: float) -> None:
        """A node dies with all that runs on it, and is noticed; an empty one comes back after a while."""
        self._down.add(node)
        for uid, running in list(self.running.items()):
            if running.node == node:
                del self.running[uid]
        lost = [pod for pod in self._cluster.objects(POD) if pod["spec"].get("nodeName") == node]
        for pod in lost:
            self._cluster.later(seconds / 2, seconds, self._collect, pod)
        self._cluster.later(seconds, seconds, self._come_back, node)

    def _collect(self, pod: Object) -> None:
        """What the pod garbage collector does with a pod of a node that is gone."""
        found = self._store.find(POD, pod["metadata"]["name"], namespace=NAMESPACE_OF_JOBS)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if found["status"].get("phase") not in FINISHED:
            mark = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
            self.report(found, {"phase": "Failed", "conditions": [mark]}, "pod-gc")
        self._cluster.later(0.1, 2.0, self.remove, found, "pod-gc")

    def _come_back(self, node: str) -> None:
        left = [pod for pod in self._cluster.objects(POD) if pod["spec"].get("nodeName") == node]
        if left:
            self._cluster.later(5.0, 5.0, self._come_back, node)
            return
        self._down.discard(node)
        self._bind_all()


def _job_of(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or [{}]
    uid: str = owners[0].get("uid", "")
    return uid


def _has_ended(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return pod["status"].get("phase") in FINISHED or any(
        "terminated" in (status.get("state") or {}) for status in statuses
    )
