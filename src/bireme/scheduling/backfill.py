"""Reservations: where end times are known, a unit's start is known, and later units may not delay it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from bireme.api.scheduler import Queue
from bireme.scheduling.durations import end_after, ends, longest
from bireme.scheduling.placement import Placement
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.room import Room
from bireme.scheduling.shares import quota
from bireme.scheduling.state import State
from bireme.scheduling.units import Key, Tracked
from bireme.scheduling.victims import Item, Releases, smallest_prefix


class NodeReservation(NamedTuple):
    """The room that is left at a time, once the unit has started then."""

    unit: Key
    at: datetime
    room: Room


class QuotaReservation(NamedTuple):
    """The quota that is left at a time, once the unit has started then."""

    unit: Key
    at: datetime
    left: Amounts


class Ahead(NamedTuple):
    """The unit that a round's reservation of nodes is for, and what it wants to start."""

    unit: Key
    queue: Queue
    pods: Sequence[Tracked]


def known_ends(state: State, excluded: set[str]) -> list[tuple[datetime, Tracked]]:
    """Pods that hold room and whose end is known, the earliest end first."""
    held = [(end, each) for end, each in ends(state) if each.holds and each.uid not in excluded]
    return sorted(held, key=lambda each: (each[0], each[1].uid))


def leaving_ends(pods: Iterable[Tracked], now: datetime) -> list[tuple[datetime, Tracked]]:
    """Pods that are leaving, and when they were to be gone: they are awaited before all others."""
    return [(each.pod.metadata.deletion_timestamp or now, each) for each in pods]


def reserve_nodes(
    state: State,
    unit: Key,
    known: Sequence[tuple[datetime, Tracked]],
    room: Room,
    fit: Callable[[Room, frozenset[str]], Placement | None],
) -> NodeReservation | None:
    """When the unit fits at the latest, and what is left then; None if no known end makes it fit."""
    releases = Releases(state, [Item((each,)) for _, each in known])

    def after(prefix: int) -> Placement | None:
        return fit(releases.freed(room, prefix), releases.uids(prefix))

    if not known or after(len(known)) is None:
        return None
    prefix = smallest_prefix(len(known), lambda count: after(count) is not None)
    if not prefix:
        return None
    at = known[prefix - 1][0]
    while prefix < len(known) and known[prefix][0] == at:
        prefix += 1
    placement = after(prefix)
    if placement is None:
        return None
    left = releases.freed(room, prefix)
    placement.charge(left)
    return NodeReservation(unit, at, left)


def reserve_quota(
    queue: Queue,
    unit: Key,
    known: Sequence[tuple[datetime, Tracked]],
    held: Mapping[str, int],
    asked: Mapping[str, int],
) -> QuotaReservation | None:
    """When the queue's quota has room for the unit at the latest; None if no known end makes room."""
    most = quota(queue) or {}
    left = {name: limit - held.get(name, 0) - asked.get(name, 0) for name, limit in most.items()}
    for end, each in known:
        add(left, {name: n for name, n in each.shape.requests.items() if name in left})
        if all(amount >= 0 for name, amount in left.items() if asked.get(name)):
            return QuotaReservation(unit, end, left)
    return None


def ends_by(queue: Queue, at: datetime, now: datetime) -> bool:
    """Whether pods of the queue have ended by a time, if they start now."""
    end = end_after(now, longest(queue))
    return end is not None and end <= at
