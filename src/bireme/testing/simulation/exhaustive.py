"""Every fault in every place of a clean run; every two of them."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from random import Random
from typing import Final

from bireme.testing.simulation.catalogue import CALLS, MISHAPS, WATCHES, Sort, make_fault
from bireme.testing.simulation.course import Result
from bireme.testing.simulation.runner import simulate
from bireme.testing.simulation.tape import Fault, Tape

_RENEWALS: Final = 6
"""Calls after the last write that are looked at too: all that follow only renew leases."""


@cache
def clean_run(scenario: str) -> Result:
    return simulate(Tape(scenario))


def singles(scenario: str) -> Iterator[Tape]:
    """Each fault at each call, each event and each write of the clean run."""
    clean = clean_run(scenario)
    calls = clean.written[-1] + _RENEWALS
    for sorts, last in ((CALLS, calls), (WATCHES, clean.events), (MISHAPS, clean.writes)):
        for sort, number in product(sorts, range(1, last + 1)):
            yield Tape(scenario, 0, (_fault(sort, number),))


def pairs(scenario: str) -> Iterator[Tape]:
    """Every two faults of calls, at every two calls of the clean run that write something."""
    for first, second in combinations(clean_run(scenario).written, 2):
        for one, other in product(CALLS, CALLS):
            yield Tape(scenario, 0, (_fault(one, first), _fault(other, second)))


def _fault(sort: Sort, number: int) -> Fault:
    return make_fault(sort, number, Random(f"{sort.name} {number}"))  # noqa: S311 - to be repeated, not to be secret
