"""Kubelets, and whoever makes pods: a pod runs once it is bound, goes when asked, and comes again."""

from collections.abc import Callable
from typing import Any, Final

from bireme.api.kinds import POD_GROUP, QUEUE
from bireme.api.scheduler import GROUP_LABEL, SCHEDULER_NAME
from bireme.apiserver.deletion import DeleteOptions, Preconditions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import NODE, OURS, POD, Kind
from bireme.apiserver.rules import Object
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, Cluster, Write
from bireme.testing.simulation.gangs.scenarios import GangScenario, Group

FINISHED: Final = ("Succeeded", "Failed")
GROUPS: Final = next(kind for kind in OURS if kind.kind == POD_GROUP.kind)
QUEUES: Final = next(kind for kind in OURS if kind.kind == QUEUE.kind)
_RUN_SECONDS: Final = 100.0


class GangWorld:
    """Nodes of one CPU, and groups whose pods ask for one each. A group ends once all its pods have run."""

    def __init__(self, cluster: Cluster, scenario: GangScenario) -> None:
        self._cluster, self._store, self._scenario = cluster, cluster.store, scenario
        self._seen: set[tuple[str, str]] = set()
        self._running: dict[str, str] = {}
        """The node of each pod that runs, by UID."""
        self.overfull = 0
        self.lost = 0
        """Pods that were refused by their node, and that had to go before their group's end."""
        cluster.listeners.append(self._hear)

    # ---- what there is

    def begin(self) -> None:
        with self._cluster.acting("user"):
            for number in range(self._scenario.nodes):
                self._add_node(f"node-{number}")
            for name, priority in self._scenario.queues.items():
                spec = {"priority": priority, "namespaceSelector": {}}
                self._create(QUEUES, {"metadata": {"name": name}, "spec": spec}, "")
        for group in self._scenario.groups:
            self._cluster.later(group.at_seconds, group.at_seconds + 5.0, self._submit, group)

    def _add_node(self, name: str) -> None:
        self._store.create(NODE, {"metadata": {"name": name}}, self._cluster.now())
        allocatable = {"cpu": "1", "memory": "4Gi", "pods": "20"}
        status = {"capacity": allocatable, "allocatable": allocatable}
        self._store.patch(NODE, name, {"status": status}, subresource="status")

    def _submit(self, group: Group) -> None:
        spec = {"minMember": group.min_member, "queue": group.queue}
        with self._cluster.acting("user"):
            self._create(GROUPS, {"metadata": {"name": group.name}, "spec": spec})
            for number in range(group.pods):
                self._make(group, number)

    def _make(self, group: Group, number: int) -> None:
        resources = {"requests": {"cpu": "1"}}
        spec = {
            "schedulerName": SCHEDULER_NAME,
            "containers": [{"name": "main", "image": "registry.example/x:1", "resources": resources}],
        }
        metadata = {"name": f"{group.name}-{number}", "labels": {GROUP_LABEL: group.name}}
        with self._cluster.acting("maker"):
            self._create(POD, {"metadata": metadata, "spec": spec})

    def _create(self, kind: Kind, body: Object, namespace: str = NAMESPACE_OF_JOBS) -> None:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        self._try(self._store.create, kind, whole, self._cluster.now(), namespace=namespace)

    def pods_of(self, group: str) -> list[Object]:
        return [pod for pod in self._cluster.objects(POD) if group_of(pod) == group]

    def is_over(self, group: Group) -> bool:
        pods = self.pods_of(group.name)
        return len(pods) == group.pods and all(pod["status"].get("phase") == "Succeeded" for pod in pods)

    # ---- what there is to do

    def _hear(self, write: Write) -> None:
        if write.kind is not POD:
            return
        pod = write.object
        if write.after is None:
            self._running.pop(pod["metadata"]["uid"], None)
            self.lost += 1
            self._once("again", pod, 0.5, 3.0, self._make_again)
        elif "deletionTimestamp" in pod["metadata"]:
            self._once("stop", pod, 0.05, 4.0, self._remove)
        elif pod["status"].get("phase") == "Failed":
            self._once("replace", pod, 0.05, 1.0, self._remove)
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            self._once("start", pod, 0.05, 2.0, self._start)

    def _once(self, what: str, pod: Object, low: float, high: float, work: Callable[[Object], None]) -> None:
        key = what, pod["metadata"]["uid"]
        if key not in self._seen:
            self._seen.add(key)
            self._cluster.later(low, high, work, pod)

    def _group(self, pod: Object) -> Group:
        return next(each for each in self._scenario.groups if each.name == group_of(pod))

    def _make_again(self, pod: Object) -> None:
        self._make(self._group(pod), int(pod["metadata"]["name"].rpartition("-")[2]))

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(metadata["uid"]))
        now = self._cluster.now()
        with self._cluster.acting("kubelet"):
            name = metadata["name"]
            self._try(self._store.delete, POD, name, now, options, namespace=NAMESPACE_OF_JOBS)

    def _start(self, pod: Object) -> None:
        found = self._store.find(POD, pod["metadata"]["name"], namespace=NAMESPACE_OF_JOBS)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if "deletionTimestamp" in found["metadata"]:
            return
        node = found["spec"]["nodeName"]
        if node in self._running.values():
            self.overfull += 1
            self._report(found, {"phase": "Failed", "reason": "OutOfcpu"})
            return
        self._running[found["metadata"]["uid"]] = node
        self._report(found, {"phase": "Running"})
        if self._all_run(group := self._group(found)):
            self._cluster.later(_RUN_SECONDS, _RUN_SECONDS * 1.2, self._finish, group, self._uids(group))

    def _uids(self, group: Group) -> list[str]:
        return [pod["metadata"]["uid"] for pod in self.pods_of(group.name)]

    def _all_run(self, group: Group) -> bool:
        uids = self._uids(group)
        return len(uids) == group.pods and all(uid in self._running for uid in uids)

    def _finish(self, group: Group, uids: list[str]) -> None:
        """End a group, if all its pods are still those that ran together."""
        pods = self.pods_of(group.name)
        if self._uids(group) == uids and not any("deletionTimestamp" in pod["metadata"] for pod in pods):
            for pod in pods:
                self._running.pop(pod["metadata"]["uid"], None)
                self._report(pod, {"phase": "Succeeded"})

    def _report(self, pod: Object, status: Object) -> None:
        name = pod["metadata"]["name"]
        with self._cluster.acting("kubelet"):
            self._try(
                self._store.patch, POD, name, {"status": status}, namespace=NAMESPACE_OF_JOBS,
                subresource="status",
            )  # fmt: skip

    def _try(self, write: Callable[..., Any], *args: Any, **options: Any) -> None:
        try:
            write(*args, **options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise


def group_of(pod: Object) -> str:
    name: str = pod["metadata"]["labels"][GROUP_LABEL]
    return name


def is_settled(pod: Object) -> bool:
    """Whether a pod is on a node and stays, or has ended."""
    if pod["status"].get("phase") == "Failed":
        return False
    ended = pod["status"].get("phase") == "Succeeded"
    return ended or (bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"])
