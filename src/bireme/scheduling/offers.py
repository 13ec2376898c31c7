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

    __slots__ = ("capacity", "requests", "seen", "slack")

    def __init__(self, requests: Amounts, capacity: Counts, slack: Slack, seen: int) -> None:
        self.requests, self.capacity, self.slack, self.seen = requests, capacity, slack, seen

    def tightest(self, count: int) -> int | None:
        """The node that takes so many and leaves the least unused."""
        able = self.capacity >= count
        if not able.any():
            return None
        return int(np.where(able, self.slack, np.inf).argmin())


class Offers:
    """The offers of one room."""

    def __init__(self, room: Room, whole: Room, ranks: Counts) -> None:
        self.room = room
        self._whole, self._ranks = whole, ranks
        self._known: dict[object, Offer] = {}

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
        slack = self._slack(requests, slice(None)) if capacity.any() else np.zeros(self.room.size)
        offer = Offer(requests, capacity, slack, len(self.room.taken))
        self._known[key] = offer
        return offer

    def _follow(self, offer: Offer, mask: Mask) -> None:
        news = self.room.taken[offer.seen :]
        if not news:
            return
        columns = np.concatenate(news) if len(news) > 1 else news[0]
        offer.capacity[columns] = self.room.capacity_at(offer.requests, columns) * mask[columns]
        offer.slack[columns] = self._slack(offer.requests, columns)
        offer.seen = len(self.room.taken)

    def _slack(self, requests: Amounts, columns: Counts | slice) -> Slack:
        """The free share of what is asked, and all devices that are not asked."""
        slack: Slack = np.asarray(self._ranks[columns] * _RANK, dtype=np.float64)
        for name, row in self.room.free.items():
            if name in requests and name != PODS:
                slack += row[columns] / np.maximum(self._whole.row(name)[columns], 1)
            elif name not in COMMON and not name.startswith("hugepages-"):
                slack += _FOREIGN_DEVICE * (self._whole.row(name)[columns] > 0)
        return slack
