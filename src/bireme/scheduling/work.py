"""How much work a round may do for one queue, counted instead of timed.

The core has no clock, so a round is bounded by steps: evaluations of a rule against a pod or a node, and
array operations by their length. One step takes about a microsecond. The count depends on the cluster and on
what is remembered from earlier rounds, never on the machine, so a simulation repeats it exactly.

`State.work` is the counter. A `Round` sets its limit before it serves a group, and everything that can take
long calls `spend` before it does the work. `spend` raises OverBudgetError at the limit. Nothing is half done
then: a placement is recorded once it is complete, and what must not be cut runs `uninterrupted`. Without a
limit `spend` counts and never raises.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_COLUMNS_PER_STEP = 1024
"""Array elements that one step pays for."""


class OverBudgetError(Exception):
    """The steps that are allowed are used up."""


class Work:
    """Counts steps, up to a limit."""

    __slots__ = ("limit", "used")

    def __init__(self) -> None:
        self.used = 0
        self.limit: int | None = None

    def spend(self, steps: int) -> None:
        """Count steps that are about to be done. Raises OverBudgetError beyond the limit."""
        self.used += steps
        if self.limit is not None and self.used > self.limit:
            raise OverBudgetError

    def spend_on_arrays(self, columns: int, operations: int = 1) -> None:
        """Count operations on arrays of this length."""
        self.spend(operations * (1 + columns // _COLUMNS_PER_STEP))

    def begin(self, steps: int) -> None:
        """Count from zero, and allow so many steps until `end`."""
        self.used, self.limit = 0, steps

    def end(self) -> int:
        """Take the limit away; return how many steps were done."""
        self.limit = None
        return self.used

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Count, but do not raise: half of what is done here would be worse than all of it."""
        limit, self.limit = self.limit, None
        try:
            yield
        finally:
            self.limit = limit
