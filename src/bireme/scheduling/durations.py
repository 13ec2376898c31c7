"""How long pods may exist, and so when what they hold is free again."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from bireme.api.duration import DurationError, parse_duration
from bireme.api.scheduler import Queue
from bireme.scheduling.objects import created
from bireme.scheduling.state import State
from bireme.scheduling.units import Tracked


def longest(queue: Queue | None) -> timedelta | None:
    """How long a pod of the queue may exist; None without a limit."""
    if queue is None or queue.spec.max_duration is None:
        return None
    try:
        return parse_duration(queue.spec.max_duration)
    except DurationError:
        return None


def end_of(tracked: Tracked, limit: timedelta | None) -> datetime | None:
    """When a pod ends at the latest, if that is known."""
    if limit is None:
        return None
    try:
        return created(tracked.pod.metadata) + limit
    except OverflowError:
        return None


def ends(state: State) -> Iterator[tuple[datetime, Tracked]]:
    """The pods that have not ended, each with its latest end, where there is one."""
    for name, units in state.by_queue.items():
        limit = longest(state.queues.get(name))
        if limit is None:
            continue
        for unit in units.values():
            for tracked in unit.pods.values():
                end = end_of(tracked, limit)
                if end is not None and not tracked.finished and not tracked.leaving:
                    yield end, tracked
