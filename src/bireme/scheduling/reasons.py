"""Why a unit waits: one word from a closed list, with the numbers behind it and what would help."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from bireme.scheduling.units import Key


class Reason(StrEnum):
    """Every waiting unit has exactly one, the first that holds in this order."""

    MISCONFIGURED = "Misconfigured"
    QUEUE_CLOSED = "QueueClosed"
    NOT_PERMITTED = "NotPermitted"
    EXCEEDS_QUOTA_EVER = "ExceedsQuotaEver"
    INSUFFICIENT_MEMBERS = "InsufficientMembers"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    DOES_NOT_FIT_ANY_NODE = "DoesNotFitAnyNode"
    FRAGMENTED = "Fragmented"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    WAITING_FOR_VICTIMS = "WaitingForVictims"


# More nodes would help; a cluster autoscaler is told so by the pods' PodScheduled condition.
LACK_OF_NODES: Final = (Reason.DOES_NOT_FIT_ANY_NODE, Reason.FRAGMENTED, Reason.WAITING_FOR_RESOURCES)


class Shortage(msgspec.Struct, frozen=True):
    """How much of a resource is asked, and how much there is."""

    resource: str
    asked: int
    free: int


class Remedy(msgspec.Struct, frozen=True, tag=True):
    """Something that somebody can do."""


class CreateQueue(Remedy, frozen=True, tag=True):
    queue: str


class CreateGroup(Remedy, frozen=True, tag=True):
    namespace: str
    name: str


class OpenQueue(Remedy, frozen=True, tag=True):
    queue: str


class Permit(Remedy, frozen=True, tag=True):
    """Let the namespace use the queue."""

    queue: str
    namespace: str


class RaiseQuota(Remedy, frozen=True, tag=True):
    """Let the queue have at least so much of each resource."""

    queue: str
    requests: dict[str, int]


class AskLess(Remedy, frozen=True, tag=True):
    """Make pods that ask for at most so much, or let the queue's shape profile allow more."""

    profile: str
    most: dict[str, int]


class Repair(Remedy, frozen=True, tag=True):
    """Do away with what makes a pod impossible to schedule here."""

    pod: str
    problem: str


class AddMembers(Remedy, frozen=True, tag=True):
    """Create so many pods more, per role; the role "" is any."""

    roles: dict[str, int]


class AddNodes(Remedy, frozen=True, tag=True):
    """Add so many nodes with at least these resources, which the pods' and the queue's rules let in."""

    count: int
    allocatable: dict[str, int]


class AwaitEnd(Remedy, frozen=True, tag=True):
    """Wait for these pods to end, or end them."""

    pods: list[str]


class Waiting(msgspec.Struct, frozen=True):
    """Why a unit waits, in short."""

    reason: Reason
    message: str
    shortages: tuple[Shortage, ...] = ()
    # When it starts at the latest, for the one unit for which that is known.
    earliest_start: datetime | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a unit waits, in full. Doing all remedies lets it start."""

    unit: Key
    queue: str
    reason: Reason
    message: str
    shortages: tuple[Shortage, ...]
    position: int
    holders: list[tuple[str, dict[str, int]]]
    remedies: list[Remedy]
    earliest_start: datetime | None = None
