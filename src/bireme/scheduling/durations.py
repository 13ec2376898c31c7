"""How long pods may be on a node, and so when what they hold is free again. Waiting does not count."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from bireme.api.duration import DurationError, parse_duration
from bireme.api.scheduler import Queue
from bireme.scheduling.objects import bound_at
from bireme.scheduling.state import State
from bireme.scheduling.units import Tracked


def longest(queue: Queue | None) -> timedelta | None:
    """How long a pod of the queue may be bound; None without a limit."""
    if queue is None or queue.spec.max_duration is None:
        return None
    try:
        return parse_duration(queue.spec.max_duration)
    except DurationError:
        return None


def end_after(start: datetime | None, limit: timedelta | None) -> datetime | None:
    """When a pod that was bound at a time ends at the latest, if that is known."""
    if limit is None or start is None:
        return None
    try:
        return start + limit
    except OverflowError:
        return None


def ends(state: State) -> Iterator[tuple[datetime, Tracked]]:
    """The bound pods that have not ended, each with its latest end, where there is one."""
    for name, units in state.by_queue.items():
        limit = longest(state.queues.get(name))
        if limit is None:
            continue
        for unit in units.values():
            for tracked in unit.pods.values():
                if tracked.finished or tracked.leaving:
                    continue
                end = end_after(bound_at(tracked.pod), limit)
                if end is not None:
                    yield end, tracked
