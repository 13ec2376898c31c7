"""A failing tape with as few faults as still make it fail."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

from bireme.testing.simulation.runner import Result
from bireme.testing.simulation.tape import Fault, Tape

_TRIED_WHOLLY: Final = 3
"""Up to so many faults, every choice is tried; a case that needs more is shortened one by one."""


def shrink(failure: Result, play: Callable[[Tape], Result]) -> Result:
    """The smallest failure of the same oracle that is found; `play` runs a tape.

    Only faults that came true are looked at, and the schedule keeps its seed.
    """
    for faults in _choices(failure.fired):
        result = play(failure.tape.with_faults(faults))
        if _is_same(result, failure):
            return result
    return _one_by_one(failure, play)


def _choices(faults: tuple[Fault, ...]) -> Iterator[tuple[Fault, ...]]:
    for size in range(min(_TRIED_WHOLLY, len(faults)) + 1):
        yield from combinations(faults, size)


def _one_by_one(failure: Result, play: Callable[[Tape], Result]) -> Result:
    best = failure
    for fault in failure.fired:
        left = tuple(each for each in best.tape.faults if each != fault)
        result = play(failure.tape.with_faults(left))
        if _is_same(result, failure):
            best = result
    return best


def _is_same(result: Result, failure: Result) -> bool:
    return bool(result.violations) and result.violations[0].oracle == failure.violations[0].oracle
