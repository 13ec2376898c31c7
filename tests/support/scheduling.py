"""Small clusters for tests of the scheduler."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bireme.api.scheduler import GROUP_LABEL, QUEUE_LABEL, ROLE_LABEL, PodGroup, Queue
from bireme.scheduling import Decisions, Policy, State, schedule
from bireme.scheduling.explain import explain
from bireme.scheduling.objects import Namespace, Node, Pod, with_binding
from bireme.scheduling.reasons import Explanation
from bireme.scheduling.units import Key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "team"


def node(
    name: str, labels: dict[str, str] | None = None, spec: dict[str, Any] | None = None, /, **has: Any
) -> Node:
    """A node; resources by name, `gpu` for nvidia.com/gpu."""
    allocatable = {_resource(key): str(value) for key, value in has.items()}
    body = {
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {"allocatable": {"pods": "110", **allocatable}},
    }
    return msgspec.convert(body, Node)


def queue(name: str, quota: dict[str, Any] | None = None, priority: int = 0, **spec: Any) -> Queue:
    """A queue that every namespace may use, unless it is told otherwise."""
    body: dict[str, Any] = {"priority": priority, "namespaceSelector": {}, **spec}
    if quota is not None:
        body["quota"] = {"requests": {key: str(value) for key, value in quota.items()}}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": body}, Queue)


def _resource(name: str) -> str:
    return "nvidia.com/gpu" if name == "gpu" else name


class Cluster:
    """A cluster whose kubelets do at once what they are told."""

    def __init__(self, *nodes: Node, queues: tuple[Queue, ...] = (), policy: Policy | None = None) -> None:
        self.state, self.policy, self.now = State(), policy or Policy(), NOW
        self._made = 0
        for each in nodes:
            self.state.put_node(each)
        for one in queues:
            self.state.put_queue(one)
        self.state.put_namespace(msgspec.convert({"metadata": {"name": NAMESPACE}}, Namespace))

    # What users do.

    def submit(
        self,
        name: str,
        queue: str,
        pods: int = 1,
        *,
        least: int | None = None,
        priority: int = 0,
        roles: dict[str, int] | None = None,
        role: str = "",
        spec: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        **asks: Any,
    ) -> Key:
        """A PodGroup with so many pods alike."""
        created = self._stamp()
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "creationTimestamp": created},
            "spec": {
                "minMember": pods if least is None else least,
                "queue": queue,
                "priority": priority,
                "roles": [{"name": each, "minMember": count} for each, count in (roles or {}).items()],
            },
        }
        self.state.put_group(msgspec.convert(body, PodGroup))
        for number in range(pods):
            self.add_pod(f"{name}-{number}", name, role=role, spec=spec, labels=labels, **asks)
        return Key(NAMESPACE, name)

    def add_pod(
        self,
        name: str,
        group: str = "",
        *,
        role: str = "",
        queue: str = "",
        node: str = "",
        scheduler: str = "t9k-scheduler",
        spec: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        **asks: Any,
    ) -> Pod:
        requests = {_resource(key): str(value) for key, value in asks.items()}
        own = {GROUP_LABEL: group, ROLE_LABEL: role, QUEUE_LABEL: queue}
        body = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": name,
                "creationTimestamp": self._stamp(),
                "labels": {key: value for key, value in own.items() if value} | (labels or {}),
            },
            "spec": {
                "schedulerName": scheduler,
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                **(spec or {}),
            },
            "status": {"phase": "Running" if node else "Pending"},
        }
        pod = msgspec.convert(body, Pod)
        pod = with_binding(pod, node, self.now) if node else pod
        self.state.put_pod(pod)
        return pod

    def _stamp(self) -> str:
        self._made += 1
        return (NOW + timedelta(seconds=self._made)).isoformat()

    # What the cluster does.

    def round(self) -> Decisions:
        """Decide, and change nothing."""
        return schedule(self.state, self.policy, self.now)

    def settle(self) -> Decisions:
        """Decide and carry out until nothing changes; return the last round."""
        for _ in range(20):
            decisions = self.round()
            if not (decisions.starts or decisions.evictions or decisions.expirations or decisions.made_anew):
                return decisions
            self.carry_out(decisions)
        raise AssertionError("the scheduler does not come to rest")

    def carry_out(self, decisions: Decisions) -> None:
        for evict in decisions.evictions:
            for uid in evict.pods:
                self.state.remove_pod(uid)
        for expire in decisions.expirations:
            self.state.remove_pod(expire.pod)
        for start in decisions.starts:
            for uid, where in start.nodes.items():
                self.bind(uid, where)

    def bind(self, uid: str, where: str) -> None:
        pod = with_binding(self.state.pods[uid].pod, where, self.now)
        status = msgspec.structs.replace(pod.status, phase="Running")
        self.state.put_pod(msgspec.structs.replace(pod, status=status))

    def finish(self, uid: str, phase: str = "Succeeded") -> None:
        pod = self.state.pods[uid].pod
        self.state.put_pod(
            msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))
        )

    def terminate(self, uid: str) -> None:
        """Somebody deleted it, and it has not gone yet."""
        pod = self.state.pods[uid].pod
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=self.now)
        self.state.put_pod(msgspec.structs.replace(pod, metadata=metadata))

    # What is seen.

    def running(self) -> set[str]:
        """The groups of which every pod is on a node."""
        return {
            key.short
            for key, unit in self.state.units.items()
            if unit.pods and all(each.node for each in unit.pods.values())
        }

    def nodes_of(self, name: str) -> list[str]:
        unit = self.state.units[Key(NAMESPACE, name)]
        return sorted(each.node for each in unit.pods.values())

    def reason(self, name: str) -> str:
        """The word for why a group waits; empty if it does not."""
        waiting = self.round().waiting.get(Key(NAMESPACE, name))
        return waiting.reason.value if waiting is not None else ""

    def explain_here(self, name: str) -> Explanation:
        """What is said on a machine that is the only node."""
        key = Key(NAMESPACE, name)
        found = explain(self.state, self.policy, self.now, self.round(), key, may_add_nodes=False)
        assert found is not None
        return found

    def explain(self, name: str) -> Explanation:
        found = explain(self.state, self.policy, self.now, self.round(), Key(NAMESPACE, name))
        assert found is not None
        return found
