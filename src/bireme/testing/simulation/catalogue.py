"""Every fault there is: where it strikes, how long it lasts, and how much of the end it may change."""

from functools import cache
from random import Random
from typing import Final, NamedTuple

from bireme.testing.simulation.course import Result
from bireme.testing.simulation.ending import State, difference
from bireme.testing.simulation.judge import Violation
from bireme.testing.simulation.runner import simulate
from bireme.testing.simulation.scenarios import OTHERS, PAGED, RECREATED, SCENARIOS, SHAPES, Scenario
from bireme.testing.simulation.tape import Fault, Place, Tape


class Sort(NamedTuple):
    """A sort of fault. It lasts between these seconds."""

    name: str
    at: Place
    low: float = 0.0
    high: float = 0.0
    loses_pods: bool = False
    """The job goes on with other pods: what is left of it is the same, what became of each pod is not."""
    loses_children: bool = False
    changes_the_end: bool = False


CALLS: Final = (
    Sort("crash-before", "call", 1, 90),
    Sort("crash-after", "call", 1, 90),
    Sort("conflict", "call"),
    Sort("throttled", "call", 1, 30),
    Sort("error", "call"),
    Sort("error-after", "call"),
    Sort("refused", "call"),
    Sort("lost", "call"),
    Sort("timeout", "call"),
    Sort("late", "call", 5, 45),
    Sort("partition", "call", 5, 200),
)
WATCHES: Final = (
    Sort("drop", "watch"),
    Sort("cut", "watch"),
    Sort("close", "watch"),
    Sort("duplicate", "watch"),
    Sort("gone", "watch"),
    Sort("silence", "watch"),
    Sort("delay", "watch", 1, 80),
    Sort("lag", "watch", 1, 80),
)
MISHAPS: Final = (
    Sort("leader-frozen", "write", 5, 250),
    Sort("leader-crashed", "write", 1, 90),
    Sort("leader-replaced", "write", 1, 20),
    Sort("clock-set", "write", -90, 90),
    Sort("quota", "write", 10, 120),
    Sort("compacted", "write"),
    Sort("job-touched", "write"),
    Sort("child-deleted", "write", loses_children=True),
    Sort("node-lost", "write", 30, 90, loses_pods=True),
    Sort("evicted", "write", loses_pods=True),
    Sort("evicted-by-kubelet", "write", loses_pods=True),
    Sort("pod-deleted", "write", loses_pods=True),
    Sort("oom", "write", loses_pods=True, changes_the_end=True),
    Sort("namespace-deleted", "write", loses_pods=True, changes_the_end=True),
)
SORTS: Final = {sort.name: sort for sort in (*CALLS, *WATCHES, *MISHAPS)}

_FAMILIES: Final = ((CALLS, 0.45, 90), (WATCHES, 0.25, 60), (MISHAPS, 0.3, 90))
"""The sorts of each place, how often it is chosen, and the last number that is."""
_MOST_FAULTS: Final = 8
_TURNS: Final = 16
_SPECIAL: Final[dict[int, tuple[Scenario, ...]]] = {4: PAGED, 9: RECREATED}
"""Whose turn it is once in so many seeds."""
_RARE: Final = 0.25
"""How often a fault is kept that changes the end: little can be said of such runs."""


def make_fault(sort: Sort, number: int, random: Random) -> Fault:
    seconds = round(sort.low + (sort.high - sort.low) * random.random(), 1) if sort.high else 0.0
    return Fault(sort.at, number, sort.name, seconds, int(random.random() * 8))


def tape_of(seed: int) -> Tape:
    """The tape that a seed stands for."""
    random = Random(f"tape {seed}")  # noqa: S311 - to be repeated, not to be secret
    scenario = _scenario(seed, random.random())
    count = 1 + int(random.random() * _MOST_FAULTS)
    faults = {(fault.at, fault.number): fault for fault in (_draw(random) for _ in range(count))}
    kept = [fault for fault in faults.values() if _is_kept(fault, random)]
    return Tape(scenario, seed, tuple(sorted(kept, key=lambda fault: (fault.at, fault.number))))


def _scenario(seed: int, point: float) -> str:
    """Any of the scenarios; now and then one of a job in pages, or of one that comes back under its name."""
    choice = _SPECIAL.get(seed % _TURNS, (*SHAPES, *OTHERS))
    return choice[int(point * len(choice))].name


def _draw(random: Random) -> Fault:
    point = random.random()
    for sorts, share, last in _FAMILIES:
        if point < share:
            sort = sorts[int(random.random() * len(sorts))]
            # Most of what matters happens early: afterwards there are only leases.
            return make_fault(sort, 1 + int(last * random.random() ** 1.3), random)
        point -= share
    raise AssertionError("the shares add up to 1")


def _is_kept(fault: Fault, random: Random) -> bool:
    return not SORTS[fault.name].changes_the_end or random.random() < _RARE


# ---- the same end as without faults


@cache
def clean_state(scenario: str) -> State:
    """How a scenario ends when nothing goes wrong."""
    result = simulate(Tape(scenario))
    assert result.is_clean, result.violations
    return result.state


def play(tape: Tape) -> Result:
    """Run a tape, and hold its end against that of the clean run."""
    result = simulate(tape)
    if not result.is_clean:
        return result
    sorts = [SORTS[fault.name] for fault in result.fired]
    if any(sort.changes_the_end for sort in sorts):
        return result
    hurried = SCENARIOS[tape.scenario].hurried
    told = difference(
        clean_state(tape.scenario), result.state,
        pods_were_lost=hurried or any(sort.loses_pods for sort in sorts),
        children_were_lost=hurried or any(sort.loses_children for sort in sorts),
    )  # fmt: skip
    if not told:
        return result
    result.trace.add("judge", f"** same end: {told}")
    return result._replace(violations=(Violation("same end", told),))
