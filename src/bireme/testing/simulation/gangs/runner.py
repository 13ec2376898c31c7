"""One run of gangs: a tape in, what happened out; and every fault in every place."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import Final

from bireme.run.queues import LEASE_NAME
from bireme.testing.simulation.catalogue import CALLS, SORTS, WATCHES, Sort, make_fault
from bireme.testing.simulation.cluster import Write
from bireme.testing.simulation.course import Course, Result
from bireme.testing.simulation.ending import State
from bireme.testing.simulation.gangs.judge import GangJudge
from bireme.testing.simulation.gangs.process import SchedulerProcess
from bireme.testing.simulation.gangs.scenarios import SCENARIOS
from bireme.testing.simulation.gangs.world import GangWorld
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.process import ControllerProcess
from bireme.testing.simulation.tape import Fault, Tape

_RENEWALS: Final = 6
MISHAPS: Final = tuple(
    SORTS[name] for name in ("leader-frozen", "leader-crashed", "leader-replaced", "clock-set", "compacted")
)
"""What befalls schedulers, whatever they do."""


def simulate(tape: Tape) -> Result:
    """Run a tape, to rest or to the first rule that does not hold."""
    return _GangCourse(tape).run()


@cache
def clean_run(scenario: str) -> Result:
    return simulate(Tape(scenario))


def singles(scenario: str) -> Iterator[Tape]:
    """Each fault at each call, each event and each write of the clean run."""
    clean = clean_run(scenario)
    places = (CALLS, clean.written[-1] + _RENEWALS), (WATCHES, clean.events), (MISHAPS, clean.writes)
    for sorts, last in places:
        for sort, number in product(sorts, range(1, last + 1)):
            yield Tape(scenario, 0, (_fault(sort, number),))


def tape_of(seed: int) -> Tape:
    """Up to four faults in any places of any scenario."""
    random = Random(f"gangs {seed}")  # noqa: S311 - to be repeated, not to be secret
    scenario = random.choice(sorted(SCENARIOS))
    clean = clean_run(scenario)
    faults = {}
    for _ in range(random.randint(1, 4)):
        sorts, last = random.choice(((CALLS, clean.calls), (WATCHES, clean.events), (MISHAPS, clean.writes)))
        fault = make_fault(random.choice(sorts), random.randint(1, last), random)
        faults[fault.at, fault.number] = fault
    return Tape(scenario, seed, tuple(faults.values()))


def _fault(sort: Sort, number: int) -> Fault:
    return make_fault(sort, number, Random(f"{sort.name} {number}"))  # noqa: S311 - to be repeated, not to be secret


class _GangCourse(Course):
    lease = LEASE_NAME

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        scenario = SCENARIOS[tape.scenario]
        self._world = GangWorld(self.cluster, scenario)
        self._gangs = GangJudge(self.cluster, self._world, scenario)
        self.judge, self.network = self._gangs, Network(self.cluster, tape, self._gangs)
        self.processes = [SchedulerProcess(name, self.cluster, self.network) for name in ("alpha", "beta")]
        self.cluster.listeners.append(self._hear)

    def begin(self) -> None:
        self._world.begin()

    def is_ready(self, leader: ControllerProcess) -> bool:
        assert isinstance(leader, SchedulerProcess)
        return leader.scheduler is not None and leader.scheduler.is_ready()

    def check_end(self) -> None:
        self._gangs.check_end()

    def final_state(self) -> State:
        return {"overfull": self._world.overfull, "lost": self._world.lost}

    # ---- mishaps

    def _hear(self, write: Write) -> None:
        fault = self.network.fault_at("write", write.number)
        if fault is not None:
            self.cluster.later(0.0, 0.5, self._happen, fault)

    def _happen(self, fault: Fault) -> None:
        leader = self.leader()
        if fault.name == "compacted":
            self.cluster.store.compact()
        elif fault.name == "clock-set":
            self.processes[fault.which % len(self.processes)].time_of_day.wrong_by += fault.seconds
        elif leader is None:
            return
        elif fault.name == "leader-frozen":
            self.loop.freeze(leader.name, fault.seconds)
        elif fault.name == "leader-crashed":
            leader.kill(fault.seconds)
        else:
            leader.terminate(fault.seconds)
        self.network.fire(fault, "fate")
