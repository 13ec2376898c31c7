"""One run of a job: a tape in, what happened out."""

import contextlib
from typing import Final

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD
from bireme.planning.identity import JOB_UID_LABEL, MANAGED_BY, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from bireme.run.cluster import LEASE_NAME
from bireme.testing.builders import template
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS
from bireme.testing.simulation.course import Course, Result
from bireme.testing.simulation.ending import State, final_state, leftovers, stale_caches
from bireme.testing.simulation.janitor import Janitor
from bireme.testing.simulation.judge import Judge
from bireme.testing.simulation.mishaps import Mishaps
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.nodes import Nodes
from bireme.testing.simulation.process import ControllerProcess
from bireme.testing.simulation.scenarios import NAME, SCENARIOS
from bireme.testing.simulation.tape import Tape
from bireme.testing.simulation.user import User

_RUN_SECONDS: Final = 20.0


def simulate(tape: Tape) -> Result:
    """Run a tape, to rest or to the first rule that does not hold."""
    return _JobCourse(tape).run()


class _JobCourse(Course):
    lease = LEASE_NAME

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self._scenario = scenario = SCENARIOS[tape.scenario]
        nodes = Nodes(
            self.cluster, scenario.programs, scenario.early, seconds=_RUN_SECONDS, gang=scenario.gang
        )
        judge = Judge(self.cluster, nodes, scenario)
        self._ended_short = judge.ended_short
        Janitor(self.cluster)
        self.judge, self.network = judge, Network(self.cluster, tape, judge)
        user = User(self.cluster, scenario.kind, NAME, scenario.steps)
        nodes.may_finish = lambda: user.is_done
        user.on_done = nodes.release
        processes = [
            ControllerProcess(name, self.cluster, self.network, scenario.page_size)
            for name in ("alpha", "beta")
        ]
        self.processes = processes
        Mishaps(self.cluster, self.network, nodes, processes, scenario)
        judge.clocks_are_right = lambda: not any(process.time_of_day.wrong_by for process in processes)
        judge.is_undisturbed = lambda: not self.network.fired

    def begin(self) -> None:
        self.cluster.later(0.0, 10.0, self._submit)

    def _submit(self) -> None:
        """Bring the job, and pods that look like its own but are somebody else's."""
        store, now = self.cluster.store, self.cluster.now()
        with self.cluster.acting("user"), contextlib.suppress(StatusError):
            for name in self._scenario.taken:
                store.create(POD, _stranger(name, ""), now, namespace=NAMESPACE_OF_JOBS)
            job = store.create(self._scenario.kind, self._scenario.manifest, now, namespace=NAMESPACE_OF_JOBS)
            decoy = _stranger("decoy", job["metadata"]["uid"])
            store.create(POD, decoy, now, namespace=NAMESPACE_OF_JOBS)

    def is_ready(self, leader: ControllerProcess) -> bool:
        return leader.controller is not None and leader.controller.is_ready()

    def check_end(self) -> None:
        for problem in leftovers(self.cluster, self._scenario):
            self.judge.accuse("no orphan", problem)
        leader = self.leader()
        assert leader is not None
        assert leader.controller is not None
        for problem in stale_caches(self.cluster, leader.controller):
            self.judge.accuse("caches show what is", problem)
        job = self.cluster.store.find(self._scenario.kind, NAME, namespace=NAMESPACE_OF_JOBS)
        kept = leader.controller.statistics()["remembered"]
        if job is None and kept:
            self.judge.accuse("forgets what is gone", f"{kept} things are kept of jobs that are gone")

    def final_state(self) -> State:
        return final_state(self.cluster, self._scenario, self._ended_short)


def _stranger(name: str, job_uid: str) -> dict[str, object]:
    labels = {**MANAGED_BY, JOB_UID_LABEL: job_uid, REPLICA_TYPE_LABEL: "worker", REPLICA_INDEX_LABEL: "0"}
    return {"metadata": {"name": name, "labels": labels}, **template()}
