"""Many seeds on several cores."""

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from bireme.testing.simulation.catalogue import play, tape_of
from bireme.testing.simulation.course import Result
from bireme.testing.simulation.tape import Tape

_CHUNK: Final = 20


class Figures(NamedTuple):
    """What a number of runs came to."""

    runs: int = 0
    faults: int = 0
    calls: int = 0
    writes: int = 0
    failures: tuple[Tape, ...] = ()

    def plus(self, other: "Figures") -> "Figures":
        return Figures(
            self.runs + other.runs, self.faults + other.faults, self.calls + other.calls,
            self.writes + other.writes, self.failures + other.failures,
        )  # fmt: skip


def run_tapes(tapes: Iterable[Tape], play: Callable[[Tape], Result] = play) -> Figures:
    """Play tapes one after the other, in this process."""
    total = Figures()
    for number, tape in enumerate(tapes):
        result = play(tape)
        failed = () if result.is_clean else (tape,)
        total = total.plus(Figures(1, len(result.fired), result.calls, result.writes, failed))
        # The collector is off while a run lasts; what runs leave behind is full of cycles.
        if number % _CHUNK == 0:
            gc.collect()
    return total


def run_seeds(seeds: range, jobs: int) -> Iterator[Figures]:
    """Play the tapes of seeds; figures come chunk by chunk, in any order."""
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    if jobs == 1:
        yield from map(_run_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _run_chunk(seeds: range) -> Figures:
    return run_tapes(map(tape_of, seeds))
