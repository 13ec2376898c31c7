"""What a round decides. Whoever carries it out needs nothing else."""

from datetime import datetime

import msgspec

from bireme.api.scheduler import GangBinding
from bireme.scheduling.reasons import Waiting
from bireme.scheduling.units import Key


class Start(msgspec.Struct, frozen=True):
    """Bind these pods, all of them; a plan is to be written down first."""

    unit: Key
    # Uid → node.
    nodes: dict[str, str]
    plan: GangBinding | None = None


class Evict(msgspec.Struct, frozen=True):
    """Take these pods away so that a unit can start."""

    unit: Key
    pods: tuple[str, ...]


class Expire(msgspec.Struct, frozen=True):
    """End a pod that has been bound for longer than its queue allows."""

    pod: str
    queue: str


class MakeAnew(msgspec.Struct, frozen=True):
    """Delete the pods of a unit that could not be bound whole."""

    unit: Key
    pods: tuple[str, ...]


class Retry(msgspec.Struct, frozen=True):
    """When a unit is tried again that used up the work of a whole round alone, so many times."""

    tries: int
    at: datetime


class Backlog(msgspec.Struct, frozen=True):
    """What a round that ran out of work leaves to the next one. Empty where all units were served."""

    # Of each queue that was cut short, the units that were served since its first was.
    served: dict[str, frozenset[Key]] = {}
    # What was found of units that wait.
    waiting: dict[Key, Waiting] = {}
    # Units that go behind all others of their queue.
    expensive: dict[Key, Retry] = {}

    def __bool__(self) -> bool:
        return bool(self.served or self.waiting or self.expensive)


class Decisions(msgspec.Struct, frozen=True):
    starts: list[Start] = []
    evictions: list[Evict] = []
    expirations: list[Expire] = []
    made_anew: list[MakeAnew] = []
    # In the order in which they are served.
    waiting: dict[Key, Waiting] = {}
    # When to look again though nothing changed.
    wake_at: datetime | None = None
    # To be handed to the next round.
    backlog: Backlog = Backlog()
