"""Pods that are gone, with what they wrote, for a while: who follows a job may come after its clean-up."""

import asyncio
from collections.abc import Callable
from typing import Final

from bireme.node.keeper import Keeper
from bireme.node.seen import Object

_KEPT_SECONDS: Final = 30.0
_MOST: Final = 256
_ROUND_SECONDS: Final = 5.0


class Departed:
    """Keepers without a pod. What is too old, or too much, is forgotten, oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` tells seconds that only grow."""
        self._now = now
        self._since: dict[str, tuple[Keeper, float]] = {}

    def add(self, keeper: Keeper) -> None:
        self._since[keeper.uid] = keeper, self._now()
        self._forget(_KEPT_SECONDS, _MOST)

    def keeper(self, uid: str) -> Keeper | None:
        found = self._since.get(uid)
        return None if found is None else found[0]

    def find(self, namespace: str, name: str) -> Object | None:
        """The last pod of a name."""
        for keeper, _ in reversed(self._since.values()):
            if (keeper.namespace, keeper.name) == (namespace, name):
                return keeper.pod
        return None

    async def run(self) -> None:
        """Forget in time, until cancelled; then everything."""
        try:
            while True:
                await asyncio.sleep(_ROUND_SECONDS)
                self._forget(_KEPT_SECONDS, _MOST)
        finally:
            self._forget(0, 0)

    def _forget(self, seconds: float, most: int) -> None:
        oldest = self._now() - seconds
        for uid, (keeper, since) in list(self._since.items()):
            if since > oldest and len(self._since) <= most:
                return
            del self._since[uid]
            keeper.folder.remove()
