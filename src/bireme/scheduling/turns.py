"""The order in which units are served, as shares change on the way."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush

from bireme.scheduling.decisions import Backlog
from bireme.scheduling.shares import turn
from bireme.scheduling.state import State
from bireme.scheduling.units import Key, Unit


def in_turn(
    state: State,
    share: Callable[[str], Fraction],
    skipped: set[Key],
    backlog: Backlog = Backlog(),  # noqa: B008 - frozen
) -> Iterator[Unit]:
    """Units with waiting pods: queue priority down, then share up; inside a queue, priority down, then age.

    A queue's share is asked anew after each of its units, as long as another queue of its priority waits.
    Where the last round did not come to all units of a queue, the rest goes first, and units that take too
    much work go last.
    """
    lines = {name: _line(units, skipped, backlog) for name, units in state.waiting.items()}
    heap = [_rank(state, share, name) for name, line in lines.items() if line]
    heapify(heap)
    while heap:
        priority, _, name = heappop(heap)
        line = lines[name]
        yield line.pop()
        while line and not (heap and heap[0][0] == priority):
            yield line.pop()
        if line:
            heappush(heap, _rank(state, share, name))


def _line(units: dict[Key, Unit], skipped: set[Key], backlog: Backlog) -> list[Unit]:
    """The queue's units that wait, the next one last."""
    line = sorted((unit for key, unit in units.items() if key not in skipped), key=turn, reverse=True)
    if backlog and line:
        served = backlog.served.get(line[0].queue, frozenset())
        # Sorting is stable: each part keeps its order.
        line.sort(key=lambda unit: (unit.key in backlog.expensive, unit.key in served), reverse=True)
    return line


def _rank(state: State, share: Callable[[str], Fraction], name: str) -> tuple[int, Fraction, str]:
    queue = state.queues.get(name)
    return (-queue.spec.priority if queue is not None else 1, share(name), name)
