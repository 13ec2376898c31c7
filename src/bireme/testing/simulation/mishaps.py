"""What goes wrong in the cluster itself, whatever a controller does."""

from collections.abc import Callable
from typing import Final

from bireme.apiserver.deletion import DeleteOptions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import (
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
)
from bireme.apiserver.rules import Object
from bireme.apiserver.subresources import evict
from bireme.run.cluster import LEASE_NAME
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES, Cluster, Write
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.nodes import FINISHED, Nodes
from bireme.testing.simulation.process import ControllerProcess
from bireme.testing.simulation.scenarios import NAME, Scenario
from bireme.testing.simulation.tape import Fault

FATE: Final = "fate"
"""Who does what nobody asked for."""
_AT_ONCE: Final = 5
_CHILDREN: Final = (CONFIG_MAP, SERVICE, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)


class Mishaps:
    """Lets the faults of the tape that follow a write come true, a moment after it."""

    def __init__(
        self,
        cluster: Cluster,
        network: Network,
        nodes: Nodes,
        processes: list[ControllerProcess],
        scenario: Scenario,
    ) -> None:
        self._cluster, self._network, self._nodes = cluster, network, nodes
        self._processes, self._scenario = processes, scenario
        cluster.listeners.append(self._hear)

    def _hear(self, write: Write) -> None:
        fault = self._network.fault_at("write", write.number)
        if fault is not None:
            # Some at once: the answer to the call that wrote is then still on its way.
            self._cluster.later(0.0, 0.0 if fault.which == _AT_ONCE else 0.5, self._happen, fault)

    def _happen(self, fault: Fault) -> None:
        happen: Callable[[Fault], bool] = getattr(self, f"_{fault.name.replace('-', '_')}")
        at = len(self._cluster.trace.entries)
        with self._cluster.acting(FATE):
            try:
                happened = happen(fault)
            except StatusError as error:
                happened = False
                self._cluster.trace.add(FATE, f"{fault}: {error.message}")
        if happened:
            self._network.fire(fault, FATE)
            # The cause stands before what it did.
            entries = self._cluster.trace.entries
            entries.insert(at, entries.pop())

    def _pod(self, fault: Fault, *, running: bool = False) -> Object | None:
        pods = [
            pod
            for pod in self._cluster.objects(POD)
            if "ownerReferences" in pod["metadata"]
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in FINISHED
            and (not running or pod["metadata"]["uid"] in self._nodes.running)
        ]
        return pods[fault.which % len(pods)] if pods else None

    def _leader(self) -> ControllerProcess | None:
        lease = self._cluster.store.find(LEASE, LEASE_NAME, namespace=NAMESPACE_OF_LEASES)
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        return next((process for process in self._processes if process.identity == holder), None)

    # ---- pods and nodes

    def _node_lost(self, fault: Fault) -> bool:
        pod = self._pod(fault, running=True)
        if pod is not None:
            self._nodes.lose(pod["spec"]["nodeName"], fault.seconds)
        return pod is not None

    def _evicted(self, fault: Fault) -> bool:
        pod = self._pod(fault)
        if pod is not None:
            name = pod["metadata"]["name"]
            body = {"metadata": {"name": name}}
            evict(self._cluster.store, name, body, self._cluster.now(), namespace=NAMESPACE_OF_JOBS)
        return pod is not None

    def _evicted_by_kubelet(self, fault: Fault) -> bool:
        pod = self._pod(fault, running=True)
        if pod is not None:
            self._nodes.running.pop(pod["metadata"]["uid"], None)
            self._nodes.report(
                pod, {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, FATE
            )
        return pod is not None

    def _pod_deleted(self, fault: Fault) -> bool:
        pod = self._pod(fault)
        if pod is not None:
            name = pod["metadata"]["name"]
            self._cluster.store.delete(POD, name, self._cluster.now(), namespace=NAMESPACE_OF_JOBS)
        return pod is not None

    def _oom(self, fault: Fault) -> bool:
        pod = self._pod(fault, running=True)
        if pod is None or any("terminated" in s["state"] for s in pod["status"]["containerStatuses"]):
            return False
        self._nodes.exit(pod, 137, "OOMKilled")
        return True

    # ---- other objects

    def _child_deleted(self, fault: Fault) -> bool:
        found = [(kind, obj) for kind in _CHILDREN for obj in self._cluster.objects(kind)]
        if found:
            kind, obj = found[fault.which % len(found)]
            name = obj["metadata"]["name"]
            self._cluster.store.delete(kind, name, self._cluster.now(), namespace=NAMESPACE_OF_JOBS)
        return bool(found)

    def _job_touched(self, _fault: Fault) -> bool:
        """Somebody writes an annotation: whoever read the job before has an old version."""
        kind, patch = (
            self._scenario.kind,
            {"metadata": {"annotations": {"touched": str(self._cluster.writes)}}},
        )
        self._cluster.store.patch(kind, NAME, patch, namespace=NAMESPACE_OF_JOBS)
        return True

    def _namespace_deleted(self, _fault: Fault) -> bool:
        self._cluster.store.delete(NAMESPACE, NAMESPACE_OF_JOBS, self._cluster.now(), DeleteOptions())
        return True

    def _quota(self, fault: Fault) -> bool:
        self._network.quota_until = self._cluster.loop.time() + fault.seconds
        return True

    def _compacted(self, _fault: Fault) -> bool:
        """The history is gone, and so are the watches, which can't go on from where they were."""
        self._cluster.store.compact()
        self._network.break_all()
        return True

    # ---- controllers

    def _leader_frozen(self, fault: Fault) -> bool:
        leader = self._leader()
        if leader is not None:
            self._cluster.loop.freeze(leader.name, fault.seconds)
        return leader is not None

    def _leader_crashed(self, fault: Fault) -> bool:
        leader = self._leader()
        if leader is not None:
            leader.kill(fault.seconds)
        return leader is not None

    def _leader_replaced(self, fault: Fault) -> bool:
        """A rolling update: the leader is asked to end."""
        leader = self._leader()
        if leader is not None:
            leader.terminate(fault.seconds)
        return leader is not None

    def _clock_set(self, fault: Fault) -> bool:
        process = self._processes[fault.which % len(self._processes)]
        process.time_of_day.wrong_by += fault.seconds
        return True
