"""The order in which units are served, as shares change on the way."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush

from bireme.scheduling.shares import turn
from bireme.scheduling.state import State
from bireme.scheduling.units import Key, Unit


def in_turn(state: State, share: Callable[[str], Fraction], skipped: set[Key]) -> Iterator[Unit]:
    """Units with waiting pods: queue priority down, then share up; inside a queue, priority down, then age.

    A queue's share is asked anew after each of its units, as long as another queue of its priority waits.
    """
    lines = {name: _line(units, skipped) for name, units in state.waiting.items()}
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


def _line(units: dict[Key, Unit], skipped: set[Key]) -> list[Unit]:
    """The queue's units that wait, the next one last."""
    return sorted((unit for key, unit in units.items() if key not in skipped), key=turn, reverse=True)


def _rank(state: State, share: Callable[[str], Fraction], name: str) -> tuple[int, Fraction, str]:
    queue = state.queues.get(name)
    return (-queue.spec.priority if queue is not None else 1, share(name), name)
