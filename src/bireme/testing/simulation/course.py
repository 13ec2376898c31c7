"""The course of a run, whatever is run: begin, wait for rest or for the first broken rule, judge the end."""

import asyncio
import contextlib
import gc
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from bireme.apiserver.kinds import LEASE
from bireme.testing.simulation.cluster import NAMESPACE_OF_LEASES, Cluster
from bireme.testing.simulation.ending import QUIET_SECONDS, State
from bireme.testing.simulation.guard import outside_world_forbidden
from bireme.testing.simulation.judge import Violation
from bireme.testing.simulation.loop import VirtualLoop, run
from bireme.testing.simulation.network import Network
from bireme.testing.simulation.process import ControllerProcess
from bireme.testing.simulation.tape import Fault, Tape
from bireme.testing.simulation.trace import Trace

HORIZON_SECONDS: Final = 3 * 3600.0
MOST_WRITES: Final = 3000
_LOOK_SECONDS: Final = 60.0


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


class Referee(Protocol):
    """Who is told of what must not be, and remembers it."""

    violations: list[Violation]
    on_violation: Callable[[], None]

    def accuse(self, oracle: str, message: str) -> None: ...


class Course(ABC):
    """One run. A subclass says who takes part, and sets `judge`, `network` and `processes`."""

    judge: Referee
    network: Network
    processes: Sequence[ControllerProcess]
    lease: str
    """The name of the lease that the processes take turns by."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        random = Random(f"world {tape.seed}")  # noqa: S311 - to be repeated, not to be secret
        self.loop = VirtualLoop(Random(f"schedule {tape.seed}"))  # noqa: S311 - to be repeated, not to be secret
        self.trace = Trace(self.loop.time)
        self.cluster = Cluster(self.loop, random, self.trace)
        self.state: State = {}

    @abstractmethod
    def begin(self) -> None:
        """Bring what is to be run."""

    @abstractmethod
    def is_ready(self, leader: ControllerProcess) -> bool:
        """Whether the leader knows all that there is to be known."""

    @abstractmethod
    def check_end(self) -> None:
        """Accuse whatever should not be so at the end."""

    @abstractmethod
    def final_state(self) -> State:
        """The end, as runs are compared by it."""

    def run(self) -> Result:
        """Run to rest, or to the first rule that does not hold."""
        gc.disable()
        try:
            with outside_world_forbidden(), _logs_in(self.judge):
                self.loop.set_exception_handler(self._take_error)
                run(self.loop, self._main())
        finally:
            gc.enable()
        return Result(
            self.tape, tuple(self.judge.violations), self.state, self.trace, tuple(self.network.fired),
            self.network.calls, self.network.events, self.cluster.writes, tuple(self.network.written),
        )  # fmt: skip

    def leader(self) -> ControllerProcess | None:
        lease = self.cluster.store.find(LEASE, self.lease, namespace=NAMESPACE_OF_LEASES)
        holder = lease["spec"].get("holderIdentity") if lease is not None else None
        return next((each for each in self.processes if each.identity == holder), None)

    def _take_error(self, _loop: object, context: dict[str, Any]) -> None:
        """A callback failed: of ours, then the run means nothing; of a process, then that is a bug."""
        self.judge.accuse("no callback raises", f"{context['message']}: {context.get('exception')!r}")

    async def _main(self) -> None:
        found = asyncio.Event()
        self.judge.on_violation = found.set
        for process in self.processes:
            self.cluster.later(0.0, 5.0, process.start)
        self.begin()
        watching = asyncio.ensure_future(self._wait_for_rest())
        finding = asyncio.ensure_future(found.wait())
        await asyncio.wait((watching, finding), return_when=asyncio.FIRST_COMPLETED)
        if not self.judge.violations:
            self._check_processes()
            self.check_end()
        self.state = self.final_state()
        for task in (watching, finding):
            task.cancel()
        for process in self.processes:
            self._check_ended(await process.shut_down())

    async def _wait_for_rest(self) -> None:
        cluster = self.cluster
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = self.loop.time() - cluster.stirred_at
            if quiet >= QUIET_SECONDS and not cluster.pending and self._is_led():
                return
            if self.loop.time() > HORIZON_SECONDS or cluster.writes > MOST_WRITES:
                last = self.trace.entries[-1].what
                self.judge.accuse("comes to rest", f"still writing after {self.loop.time():g} s: {last}")
                return

    def _is_led(self) -> bool:
        """Whether a process leads, and has done so for long enough to have found what is to be done."""
        leader = self.leader()
        if leader is not None and self.is_ready(leader):
            return True
        self.cluster.stir()
        return False

    def _check_processes(self) -> None:
        for process in self.processes:
            if process.died is not None:
                self.judge.accuse("no process dies", f"{process.name}: {process.died!r}")
            self._check_ended(process.lingering())

    def _check_ended(self, lingering: Sequence[str]) -> None:
        for life in lingering:
            self.judge.accuse("ends when asked", f"{life} was asked to end, and never did")


@contextlib.contextmanager
def _logs_in(judge: Referee) -> Iterator[None]:
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
