"""What is in the way of a pod: told once each, and after a while left out of account, as it may be gone."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from bireme.node.seen import Problem

RETRY: Final = timedelta(seconds=2)


class Obstacles:
    """The problems that a pod has met. `tell` is called with each that is new."""

    def __init__(self, tell: Callable[[Problem], None], now: Callable[[], datetime]) -> None:
        self._tell, self._now = tell, now
        self._told: set[Problem] = set()
        self.problems: tuple[Problem, ...] = ()
        self.retry_at: datetime | None = None
        """When to look again whether they are still there."""

    def meet(self, *problems: Problem) -> None:
        """Something is in the way, for now or for good."""
        for problem in problems:
            if problem not in self._told:
                self._told.add(problem)
                self._tell(problem)
        self.problems = (*self.problems, *problems)
        self.retry_at = self._now() + RETRY

    def forget(self) -> None:
        """Try again what may be possible by now."""
        if self.retry_at is not None and self._now() >= self.retry_at:
            self.problems = tuple(each for each in self.problems if each.fatal)
            self.retry_at = None
