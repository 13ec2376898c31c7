"""One run of gangs: a tape in, what happened out; and every fault in every place."""

import asyncio
import gc
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import Any, Final

from bireme.testing.simulation.catalogue import CALLS, SORTS, WATCHES, Sort, make_fault
from bireme.testing.simulation.cluster import Cluster, Write
from bireme.testing.simulation.ending import QUIET_SECONDS
from bireme.testing.simulation.gangs.judge import GangJudge
from bireme.testing.simulation.gangs.process import SchedulerProcess
from bireme.testing.simulation.gangs.scenarios import SCENARIOS
from bireme.testing.simulation.gangs.world import GangWorld
from bireme.testing.simulation.guard import outside_world_forbidden
from bireme.testing.simulation.loop import VirtualLoop, run
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.runner import HORIZON_SECONDS, MOST_WRITES, Result, logs_in
from bireme.testing.simulation.tape import Fault, Tape
from bireme.testing.simulation.trace import Trace

_LOOK_SECONDS: Final = 60.0
_RENEWALS: Final = 6
MISHAPS: Final = tuple(
    SORTS[name] for name in ("leader-frozen", "leader-crashed", "leader-replaced", "clock-set", "compacted")
)
"""What befalls schedulers, whatever they do."""


def simulate(tape: Tape) -> Result:
    """Run a tape, to rest or to the first rule that does not hold."""
    gc.disable()
    try:
        with outside_world_forbidden():
            return _Simulation(tape).run()
    finally:
        gc.enable()


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


class _Simulation:
    def __init__(self, tape: Tape) -> None:
        self._tape, scenario = tape, SCENARIOS[tape.scenario]
        random = Random(f"world {tape.seed}")  # noqa: S311 - to be repeated, not to be secret
        self._loop = VirtualLoop(Random(f"schedule {tape.seed}"))  # noqa: S311 - to be repeated, not to be secret
        self._trace = Trace(self._loop.time)
        self._cluster = Cluster(self._loop, random, self._trace)
        self._world = GangWorld(self._cluster, scenario)
        self._judge = GangJudge(self._cluster, self._world, scenario)
        self._network = Network(self._cluster, tape, self._judge)
        self._processes = [SchedulerProcess(name, self._cluster, self._network) for name in ("alpha", "beta")]
        self._cluster.listeners.append(self._hear)

    def run(self) -> Result:
        self._loop.set_exception_handler(self._take_error)
        with logs_in(self._judge):
            run(self._loop, self._main())
        state = {"overfull": self._world.overfull, "lost": self._world.lost}
        return Result(
            self._tape, tuple(self._judge.violations), state, self._trace, tuple(self._network.fired),
            self._network.calls, self._network.events, self._cluster.writes, tuple(self._network.written),
        )  # fmt: skip

    def _take_error(self, _loop: object, context: dict[str, Any]) -> None:
        self._judge.accuse("no callback raises", f"{context['message']}: {context.get('exception')!r}")

    async def _main(self) -> None:
        found = asyncio.Event()
        self._judge.on_violation = found.set
        for process in self._processes:
            self._cluster.later(0.0, 5.0, process.start)
        self._world.begin()
        watching = asyncio.ensure_future(self._wait_for_rest())
        finding = asyncio.ensure_future(found.wait())
        await asyncio.wait((watching, finding), return_when=asyncio.FIRST_COMPLETED)
        if not self._judge.violations:
            self._check_end()
        for task in (watching, finding):
            task.cancel()
        for process in self._processes:
            await process.shut_down()

    async def _wait_for_rest(self) -> None:
        cluster = self._cluster
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = self._loop.time() - cluster.stirred_at
            if quiet >= QUIET_SECONDS and not cluster.pending and self._is_led():
                return
            if self._loop.time() > HORIZON_SECONDS or cluster.writes > MOST_WRITES:
                last = self._trace.entries[-1].what
                self._judge.accuse("comes to rest", f"still writing after {self._loop.time():g} s: {last}")
                return

    def _check_end(self) -> None:
        for process in self._processes:
            if process.died is not None:
                self._judge.accuse("no process dies", f"{process.name}: {process.died!r}")
        self._judge.check_end()

    def _leader(self) -> SchedulerProcess | None:
        holder = self._judge.holder()
        return next((each for each in self._processes if each.identity == holder), None)

    def _is_led(self) -> bool:
        leader = self._leader()
        if leader is None or leader.scheduler is None or not leader.scheduler.is_ready():
            self._cluster.stir()
            return False
        return True

    # ---- mishaps

    def _hear(self, write: Write) -> None:
        fault = self._network.fault_at("write", write.number)
        if fault is not None:
            self._cluster.later(0.0, 0.5, self._happen, fault)

    def _happen(self, fault: Fault) -> None:
        leader = self._leader()
        if fault.name == "compacted":
            self._cluster.store.compact()
        elif fault.name == "clock-set":
            self._processes[fault.which % len(self._processes)].time_of_day.wrong_by += fault.seconds
        elif leader is None:
            return
        elif fault.name == "leader-frozen":
            self._loop.freeze(leader.name, fault.seconds)
        elif fault.name == "leader-crashed":
            leader.kill(fault.seconds)
        else:
            leader.terminate(fault.seconds)
        self._network.fire(fault, "fate")
