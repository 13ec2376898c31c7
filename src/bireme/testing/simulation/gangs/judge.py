"""The rules of gangs, held against every call and every write of a run, and against its end."""

from collections.abc import Callable

from bireme.apiserver.kinds import LEASE, POD
from bireme.apiserver.rules import Object
from bireme.run.queues import LEASE_NAME
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES, Cluster, Write
from bireme.testing.simulation.gangs.scenarios import GangScenario
from bireme.testing.simulation.gangs.world import GROUPS, GangWorld, group_of, is_settled
from bireme.testing.simulation.judge import Violation
from bireme.testing.simulation.network import Call


class GangJudge:
    """Judges calls when they are sent, and writes when they are committed."""

    def __init__(self, cluster: Cluster, world: GangWorld, scenario: GangScenario) -> None:
        self._cluster, self._world, self._scenario = cluster, world, scenario
        self.violations: list[Violation] = []
        self.on_violation: Callable[[], None] = lambda: None
        cluster.listeners.append(self._hear)

    def accuse(self, oracle: str, message: str) -> None:
        self.violations.append(Violation(oracle, message))
        self._cluster.trace.add("judge", f"** {oracle}: {message}")
        self.on_violation()

    def sent(self, call: Call) -> None:
        if call.writes and "/leases" not in call.request.path and self.holder() != call.identity:
            self.accuse("writes without the lease", f"{call.identity} sends {call}; {self.holder()} leads")

    def served(self, call: Call, *, changed: bool) -> None:
        """Nothing is asked of what was done."""

    def answered(self, call: Call, code: int, body: Object) -> None:
        """Nothing is asked of answers."""

    def holder(self) -> str:
        """Who leads."""
        lease = self._cluster.store.find(LEASE, LEASE_NAME, namespace=NAMESPACE_OF_LEASES)
        return (lease["spec"].get("holderIdentity") or "") if lease is not None else ""

    def _hear(self, write: Write) -> None:
        if write.before is None or write.after is None:
            return
        if write.kind is GROUPS and _has_plan(write.before) and not _has_plan(write.after):
            self._check_whole(write.after)
        if write.kind is not POD:
            return
        if not write.before["spec"].get("nodeName") and write.after["spec"].get("nodeName"):
            self._check_plan(group_of(write.after))

    def _check_plan(self, name: str) -> None:
        """A gang that is bound in part has a plan, or whoever comes next would not know that it was begun."""
        settled = sum(map(is_settled, self._world.pods_of(name)))
        group = self._cluster.store.find(GROUPS, name, namespace=NAMESPACE_OF_JOBS)
        if group is None or settled >= group["spec"]["minMember"]:
            return
        if not _has_plan(group):
            self.accuse("no bind without a plan", f"{name} has {settled} bound pods, and no plan")

    def _check_whole(self, group: Object) -> None:
        """A plan stays until the last pod is bound; one that was lost since then is another matter."""
        pods = self._world.pods_of(group["metadata"]["name"])
        settled = sum(map(is_settled, pods))
        if 0 < settled < group["spec"]["minMember"] and len(pods) == group["spec"]["minMember"]:
            self.accuse("a plan stays until it is done", f"{group['metadata']['name']}: {settled} are bound")

    def check_end(self) -> None:
        for group in self._scenario.groups:
            settled = sum(map(is_settled, self._world.pods_of(group.name)))
            if 0 < settled < group.pods:
                self.accuse("no gang stays in part", f"{group.name} has {settled} of {group.pods} pods")
            if not self._world.is_over(group):
                phases = [pod["status"].get("phase") for pod in self._world.pods_of(group.name)]
                self.accuse("every gang comes to its end", f"{group.name}: {phases}")


def _has_plan(group: Object) -> bool:
    return bool((group.get("status") or {}).get("binding"))
