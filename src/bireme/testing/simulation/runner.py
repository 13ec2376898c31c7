"""One run: a tape in, what happened out."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import LEASE, POD
from bireme.planning.identity import JOB_UID_LABEL, MANAGED_BY, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL
from bireme.run.cluster import LEASE_NAME
from bireme.testing.builders import template
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, NAMESPACE_OF_LEASES, Cluster
from bireme.testing.simulation.ending import (
    QUIET_SECONDS,
    State,
    final_state,
    leftovers,
    stale_caches,
)
from bireme.testing.simulation.guard import outside_world_forbidden
from bireme.testing.simulation.janitor import Janitor
from bireme.testing.simulation.judge import Judge, Violation
from bireme.testing.simulation.loop import VirtualLoop, run
from bireme.testing.simulation.mishaps import Mishaps
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.nodes import Nodes
from bireme.testing.simulation.process import ControllerProcess
from bireme.testing.simulation.scenarios import NAME, SCENARIOS
from bireme.testing.simulation.tape import Fault, Tape
from bireme.testing.simulation.trace import Trace
from bireme.testing.simulation.user import User

HORIZON_SECONDS: Final = 3 * 3600.0
MOST_WRITES: Final = 3000
_LOOK_SECONDS: Final = 60.0
_RUN_SECONDS: Final = 20.0


class Result(NamedTuple):
    """What became of a run."""

    tape: Tape
    violations: tuple[Violation, ...]
    state: State
    trace: Trace
    fired: tuple[Fault, ...]
    calls: int
    events: int
    writes: int
    written: tuple[int, ...]
    """The numbers of the calls that write something other than a lease."""

    @property
    def is_clean(self) -> bool:
        return not self.violations


def simulate(tape: Tape) -> Result:
    """Run a tape, to rest or to the first rule that does not hold."""
    gc.disable()
    try:
        with outside_world_forbidden():
            return _Simulation(tape).run()
    finally:
        gc.enable()


class Accuser(Protocol):
    """Who is told of what must not be."""

    def accuse(self, oracle: str, message: str) -> None: ...


class _Simulation:
    def __init__(self, tape: Tape) -> None:
        self._tape, self._scenario = tape, SCENARIOS[tape.scenario]
        random = Random(f"world {tape.seed}")  # noqa: S311 - to be repeated, not to be secret
        self._loop = VirtualLoop(Random(f"schedule {tape.seed}"))  # noqa: S311 - to be repeated, not to be secret
        self._trace = Trace(self._loop.time)
        self._cluster = Cluster(self._loop, random, self._trace)
        scenario = self._scenario
        self._nodes = Nodes(
            self._cluster, scenario.programs, scenario.early, seconds=_RUN_SECONDS, gang=scenario.gang
        )
        self._judge = Judge(self._cluster, self._nodes, scenario)
        Janitor(self._cluster)
        self._network = Network(self._cluster, tape, self._judge)
        self._user = User(self._cluster, scenario.kind, NAME, scenario.steps)
        self._nodes.may_finish = lambda: self._user.is_done
        self._user.on_done = self._nodes.release
        self._processes = [
            ControllerProcess(name, self._cluster, self._network) for name in ("alpha", "beta")
        ]
        Mishaps(self._cluster, self._network, self._nodes, self._processes, scenario)

    def run(self) -> Result:
        self._loop.set_exception_handler(self._take_error)
        with logs_in(self._judge):
            run(self._loop, self._main())
        return Result(
            self._tape, tuple(self._judge.violations), self._state, self._trace, tuple(self._network.fired),
            self._network.calls, self._network.events, self._cluster.writes, tuple(self._network.written),
        )  # fmt: skip

    def _take_error(self, _loop: object, context: dict[str, Any]) -> None:
        """A callback failed: of ours, then the run means nothing; of a controller, then that is a bug."""
        told = f"{context['message']}: {context.get('exception')!r}"
        self._judge.accuse("no callback raises", told)

    async def _main(self) -> None:
        found = asyncio.Event()
        self._judge.on_violation = found.set
        for process in self._processes:
            self._cluster.later(0.0, 5.0, process.start)
        self._cluster.later(0.0, 10.0, self._submit)
        watching = asyncio.ensure_future(self._wait_for_rest())
        finding = asyncio.ensure_future(found.wait())
        await asyncio.wait((watching, finding), return_when=asyncio.FIRST_COMPLETED)
        if not self._judge.violations:
            self._check_end()
        self._state = final_state(self._cluster, self._scenario)
        for task in (watching, finding):
            task.cancel()
        for process in self._processes:
            await process.shut_down()

    def _submit(self) -> None:
        """Bring the job, and pods that look like its own but are somebody else's."""
        store, now = self._cluster.store, self._cluster.now()
        with self._cluster.acting("user"), contextlib.suppress(StatusError):
            for name in self._scenario.taken:
                store.create(POD, _stranger(name, ""), now, namespace=NAMESPACE_OF_JOBS)
            job = store.create(self._scenario.kind, self._scenario.manifest, now, namespace=NAMESPACE_OF_JOBS)
            decoy = _stranger("decoy", job["metadata"]["uid"])
            store.create(POD, decoy, now, namespace=NAMESPACE_OF_JOBS)

    # ---- the end

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
        for problem in leftovers(self._cluster, self._scenario):
            self._judge.accuse("no orphan", problem)
        leader = self._leader()
        assert leader is not None
        assert leader.controller is not None
        for problem in stale_caches(self._cluster, leader.controller):
            self._judge.accuse("caches show what is", problem)

    def _is_led(self) -> bool:
        """Whether a controller leads, and has done so for long enough to have found what is to be done."""
        leader = self._leader()
        if leader is None or leader.controller is None or not leader.controller.is_ready():
            self._cluster.stir()
            return False
        return True

    def _leader(self) -> ControllerProcess | None:
        lease = self._cluster.store.find(LEASE, LEASE_NAME, namespace=NAMESPACE_OF_LEASES)
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        return next((each for each in self._processes if each.identity == holder), None)


def _stranger(name: str, job_uid: str) -> dict[str, object]:
    labels = {**MANAGED_BY, JOB_UID_LABEL: job_uid, REPLICA_TYPE_LABEL: "worker", REPLICA_INDEX_LABEL: "0"}
    return {"metadata": {"name": name, "labels": labels}, **template()}


@contextlib.contextmanager
def logs_in(judge: Accuser) -> Iterator[None]:
    """Keep the logs of a run out of everybody's sight, but for exceptions: those are bugs."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                judge.accuse("no pass raises", f"{record.getMessage()}: {record.exc_info[1]!r}")

    log, listener = logging.getLogger("bireme"), Listener()
    propagated, log.propagate = log.propagate, False
    log.addHandler(listener)
    try:
        yield
    finally:
        log.removeHandler(listener)
        log.propagate = propagated
