"""The time of day, as the controller and the scheduler ask for it."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time of day."""

    def now(self) -> datetime:
        """In whole seconds: that is what Kubernetes' times are made of."""

    def seconds_until(self, time: datetime) -> float:
        """How long it is until then, to the fraction."""


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return self._exactly().replace(microsecond=0)

    def seconds_until(self, time: datetime) -> float:
        return (time - self._exactly()).total_seconds()

    def _exactly(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the one place that asks
