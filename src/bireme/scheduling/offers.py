"""What each node offers a shape: how many pods, and how little they would leave unused.

An offer is remembered, and brought up to date at the columns that were taken from since.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from bireme.scheduling.requests import PODS, Amounts
from bireme.scheduling.room import Counts, Mask, Room

COMMON: Final = ("cpu", "memory", "ephemeral-storage", PODS)
# Offers are as long as there are nodes: so many shapes are remembered at once.
_REMEMBERED: Final = 128
_FOREIGN_DEVICE: Final = 100.0
# Less than any difference of slack that matters: equals are told apart by their nodes' names.
_RANK: Final = 1e-9

Slack = npt.NDArray[np.float64]


class Offer:
    """Of every node: how many pods it could take, and how loosely they would fit."""

    __slots__ = ("_tight", "base", "capacity", "requests", "seen", "slack")

    def __init__(self, requests: Amounts, base: Slack, capacity: Counts, slack: Slack, seen: int) -> None:
        self.requests, self.base = requests, base
        self.capacity, self.slack, self.seen = capacity, slack, seen
        # The slack of the nodes that can take so many; no node else is a choice.
        self._tight: tuple[int, Slack] | None = None

    def tightest(self, count: int) -> int | None:
        """The node that takes so many and leaves the least unused."""
        if self._tight is None or self._tight[0] != count:
            self._tight = (count, np.where(self.capacity >= count, self.slack, np.inf))
        slack = self._tight[1]
        best = int(slack.argmin())
        return best if slack[best] < np.inf else None

    def tightest_among(self, allowed: Mask) -> int | None:
        """The allowed node that takes one and leaves the least unused."""
        slack = np.where(allowed & (self.capacity >= 1), self.slack, np.inf)
        best = int(slack.argmin())
        return best if slack[best] < np.inf else None

    def change(self, columns: Counts, capacity: Counts, slack: Slack) -> None:
        """Bring some nodes up to date."""
        self.capacity[columns] = capacity
        self.slack[columns] = slack
        if self._tight is not None:
            count, tight = self._tight
            tight[columns] = np.where(capacity >= count, slack, np.inf)


class Offers:
    """The offers of one room."""

    def __init__(self, room: Room, whole: Room, ranks: Counts) -> None:
        self.room = room
        self._whole, self._ranks = whole, ranks
        self._known: dict[object, Offer] = {}
        self._inverse: dict[str, Slack] = {}
        self._foreign: dict[tuple[str, ...], Slack] = {}

    def of(self, key: object, requests: Amounts, mask: Mask) -> Offer:
        """The offer for a shape; the key stands for requests and mask."""
        known = self._known.get(key)
        if known is None:
            return self._remember(key, requests, mask)
        self._follow(known, mask)
        return known

    def _remember(self, key: object, requests: Amounts, mask: Mask) -> Offer:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        capacity = self.room.capacity(requests, mask)
        # Nobody asks how tight a fit is where nothing fits.
        base = self._unasked(requests)
        slack = self._slack(requests, base, slice(None)) if capacity.any() else np.zeros(self.room.size)
        offer = Offer(requests, base, capacity, slack, len(self.room.taken))
        self._known[key] = offer
        return offer

    def _follow(self, offer: Offer, mask: Mask) -> None:
        news = self.room.taken[offer.seen :]
        if not news:
            return
        columns = np.concatenate(news) if len(news) > 1 else news[0]
        capacity = self.room.capacity_at(offer.requests, columns) * mask[columns]
        offer.change(columns, capacity, self._slack(offer.requests, offer.base, columns))
        offer.seen = len(self.room.taken)

    def _slack(self, requests: Amounts, base: Slack, columns: Counts | slice) -> Slack:
        """The free share of what is asked, and all devices that are not asked."""
        slack = base[columns].copy()
        for name in requests:
            if name != PODS and name in self.room.free:
                slack += self.room.free[name][columns] * self._share_of_one(name)[columns]
        return slack

    def _unasked(self, requests: Amounts) -> Slack:
        """What makes a node the last choice, however full it is: devices that others may need."""
        devices = tuple(
            name
            for name in self.room.free
            if not (name in requests or name in COMMON or name.startswith("hugepages-"))
        )
        known = self._foreign.get(devices)
        if known is None:
            known = np.asarray(self._ranks * _RANK, dtype=np.float64)
            for name in devices:
                known += _FOREIGN_DEVICE * (self._whole.row(name) > 0)
            self._foreign[devices] = known
        return known

    def _share_of_one(self, name: str) -> Slack:
        """Of every node, how much of all that it has one unit of a resource is."""
        known = self._inverse.get(name)
        if known is None:
            known = np.asarray(1 / np.maximum(self._whole.row(name), 1), dtype=np.float64)
            self._inverse[name] = known
        return known
