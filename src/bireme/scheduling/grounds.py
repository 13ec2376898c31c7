"""The rooms of one round: what is free now, what will be, and what is held for whom.

A start must fit into all of them at once: it may take nothing that a unit ahead has claimed.
"""

from collections.abc import Sequence

import numpy as np

from bireme.scheduling.backfill import NodeReservation
from bireme.scheduling.placement import Ground, Placement
from bireme.scheduling.room import Mask, Room
from bireme.scheduling.state import State
from bireme.scheduling.units import Tracked
from bireme.scheduling.victims import Item, Releases


class Grounds:
    """The cluster as the decisions made so far leave it."""

    def __init__(self, state: State) -> None:
        self._state = state
        ground = state.ground()
        self.now = ground.with_room(ground.room.copy())
        self.leaving: dict[str, Tracked] = {}
        # What is free once everything that is leaving has left, less what is claimed of it.
        self.later = self.now
        self.reserved: NodeReservation | None = None
        # What those may use who end before the reserved start, and what others may.
        self._usable: dict[bool, Ground] = {}
        gone = state.leaving()
        if gone:
            self.let_go(gone)

    def usable(self, *, lasting: bool) -> Ground:
        """What is free now and claimed by nobody; for what lasts, less what is reserved."""
        bound = lasting and self.reserved is not None
        if not bound and self.later is self.now:
            return self.now
        known = self._usable.get(bound)
        if known is None:
            room = self.now.room.least(self.later.room)
            if bound and self.reserved is not None:
                room = room.least(self.reserved.room)
            known = self._usable[bound] = self.now.with_room(room)
        return known

    def start(self, found: Placement, pods: Sequence[Tracked], *, lasting: bool) -> None:
        """Take what is started from every room that it is in."""
        rooms = [self.now.room, *(each.room for bound, each in self._usable.items() if lasting or not bound)]
        if self.later is not self.now:
            rooms.append(self.later.room)
        if self.reserved is not None and lasting:
            rooms.append(self.reserved.room)
        for room in rooms:
            found.charge(room)
        if not lasting:
            # It was the least of rooms of which only some were taken from.
            self._usable.pop(True, None)
        self._settle(found, pods)

    def claim(self, found: Placement, pods: Sequence[Tracked], *, lasting: bool) -> None:
        """Hold for a unit what will be free."""
        found.charge(self.later.room)
        if self.reserved is not None and lasting:
            found.charge(self.reserved.room)
        self._settle(found, pods)
        self._usable.clear()

    def _settle(self, found: Placement, pods: Sequence[Tracked]) -> None:
        """Let those who come later see these pods as neighbours, now as well as later."""
        self.now.neighbours.add([each.member for each in pods], found.columns)

    def let_go(self, pods: Sequence[Tracked]) -> None:
        """Count on the end of these pods."""
        self.leaving |= {each.uid: each for each in pods}
        releases = Releases(self._state, [Item(tuple(pods))])
        gone = frozenset(each.uid for each in pods)
        self.later = self.later_without(releases.freed(self.later.room, 1), gone)
        self._usable.clear()

    def awaited(self, *, lasting: bool) -> Ground:
        """What will be free and is claimed by nobody; for what lasts, less what is reserved."""
        if self.reserved is None or not lasting:
            return self.later
        return self.later.with_room(self.later.room.least(self.reserved.room))

    def later_without(self, room: Room, gone: frozenset[str]) -> Ground:
        """The ground of later with another room, and some pods gone."""
        later = self.later.with_room(room)
        return later._replace(neighbours=later.neighbours.without(gone))

    def reserve(self, reservation: NodeReservation) -> None:
        self.reserved = reservation
        self._usable.clear()

    def keep_clear(self, masks: Sequence[Mask]) -> None:
        """Let nothing else start on these nodes in this round."""
        room = self.now.room.copy()
        for mask in masks:
            for row in room.free.values():
                row[mask] = np.minimum(row[mask], 0)
        self._replace_now(self.now.with_room(room))

    def _replace_now(self, ground: Ground) -> None:
        if self.later is self.now:
            self.later = ground
        self.now = ground
        self._usable.clear()

    def has_relations(self, pods: Sequence[Tracked]) -> bool:
        """Whether it matters to these pods who is beside them."""
        return self.now.neighbours.repel or any(each.shape.relations for each in pods)
