"""A failing tape with as few faults as still make it fail."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
from typing import Final

import msgspec

from bireme.testing.simulation.course import Result
from bireme.testing.simulation.tape import Fault, Tape

_TRIED_WHOLLY: Final = 3
"""Up to so many faults, every choice is tried; a case that needs more is shortened one by one."""
_MOVED: Final = 2
_FURTHEST: Final = 40

Faults = tuple[Fault, ...]


def shrink(failure: Result, play: Callable[[Tape], Result]) -> Result:
    """The smallest failure of the same oracle that is found; `play` runs a tape.

    Only faults that came true are looked at, and the schedule keeps its seed. Where a few of them do not lead
    to it, they may in another place: without the others, fewer calls and writes come before it.
    """
    fewest = _first(chain(_choices(failure.fired), _moves(failure.fired)), failure, play)
    return fewest or _one_by_one(failure, play)


def _first(choices: Iterable[Faults], failure: Result, play: Callable[[Tape], Result]) -> Result | None:
    results = (play(failure.tape.with_faults(faults)) for faults in choices)
    return next((result for result in results if _is_same(result, failure)), None)


def _choices(faults: Faults) -> Iterator[Faults]:
    for size in range(min(_TRIED_WHOLLY, len(faults)) + 1):
        yield from combinations(faults, size)


def _moves(faults: Faults) -> Iterator[Faults]:
    """One or two of the faults, moved together; the nearest places first."""
    for size in range(1, min(_MOVED, len(faults)) + 1):
        for way in (sign * distance for distance in range(1, _FURTHEST + 1) for sign in (1, -1)):
            for chosen in combinations(faults, size):
                moved = tuple(
                    msgspec.structs.replace(fault, number=max(1, fault.number + way)) for fault in chosen
                )
                yield moved


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
