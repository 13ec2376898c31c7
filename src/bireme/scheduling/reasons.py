"""Why a unit waits: one word from a closed list, with the numbers behind it and what would help."""

from collections.abc import Container, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from bireme.scheduling.units import Key, Tracked


class Reason(StrEnum):
    """Every waiting unit has exactly one, the first that holds in this order."""

    MISCONFIGURED = "Misconfigured"
    QUEUE_CLOSED = "QueueClosed"
    NOT_PERMITTED = "NotPermitted"
    EXCEEDS_QUOTA_EVER = "ExceedsQuotaEver"
    INSUFFICIENT_MEMBERS = "InsufficientMembers"
    TOO_EXPENSIVE = "TooExpensive"
    WAITING_FOR_TURN = "WaitingForTurn"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    DOES_NOT_FIT_ANY_NODE = "DoesNotFitAnyNode"
    FRAGMENTED = "Fragmented"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    WAITING_FOR_VICTIMS = "WaitingForVictims"


# More nodes would help; a cluster autoscaler is told so by the pods' PodScheduled condition.
LACK_OF_NODES: Final = (Reason.DOES_NOT_FIT_ANY_NODE, Reason.FRAGMENTED, Reason.WAITING_FOR_RESOURCES)


_MOST_NAMED: Final = 3


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


class RepairSelector(Remedy, frozen=True, tag=True):
    """Write a selector of the queue that can be read; `field` is nodeSelector or namespaceSelector."""

    queue: str
    field: str
    problem: str


class RaiseQuota(Remedy, frozen=True, tag=True):
    """Let the queue have at least so much of each resource."""

    queue: str
    requests: dict[str, int]


class AskLess(Remedy, frozen=True, tag=True):
    """Make pods that ask for at most so much, or let the queue's shape profile allow more."""

    profile: str
    most: dict[str, int]


class WriteProfile(Remedy, frozen=True, tag=True):
    """Write a shape profile that a queue names and that is not there, large enough for the pods."""

    queue: str
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


class LabelNode(Remedy, frozen=True, tag=True):
    """Give a node the labels that the rules of the pods and of the queue ask for."""

    node: str
    labels: dict[str, str]


class GrowNode(Remedy, frozen=True, tag=True):
    """Let a node offer at least so much of each resource; each is more than it offers now."""

    node: str
    allocatable: dict[str, int]


class AskForNone(Remedy, frozen=True, tag=True):
    """Make pods that do not ask for these resources, of which the node can't have more."""

    node: str
    resources: list[str]


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


HELD: Final = Waiting(
    Reason.WAITING_FOR_RESOURCES,
    "a part of it is bound, and the rest lost its place; it is held until that is found",
)
INCOMPLETE: Final = Waiting(
    Reason.INSUFFICIENT_MEMBERS, "a part of it is bound, and pods are missing; it is held until those come"
)
"""Of units whose binding was begun."""


NOT_REACHED: Final = Waiting(
    Reason.WAITING_FOR_TURN,
    "the scheduler has not come to it yet: others of its queue take much work to place",
)


def too_expensive(steps: int, retry_at: datetime) -> Waiting:
    """What is told of a unit that used up the work of a whole round alone."""
    message = (
        f"to find its place takes more than the {steps} steps that a round has for one queue; tried again at"
        f" {show_time(retry_at)}. Fewer pods, or fewer rules on affinity, spread and volumes, take less"
    )
    return Waiting(Reason.TOO_EXPENSIVE, message)


def show_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def waits_for(pods: Sequence[Tracked], evicted: Container[str]) -> Waiting:
    """What is told of a unit that starts when these pods have left, some of which may be victims."""
    names = [each.pod.metadata.name for each in pods]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    verb = "has" if len(names) == 1 else "have"
    message = f"starts when {', '.join(names[:_MOST_NAMED])}{more} {verb} ended"
    if any(each.uid in evicted or _is_disrupted(each) for each in pods):
        return Waiting(Reason.WAITING_FOR_VICTIMS, message)
    return Waiting(Reason.WAITING_FOR_RESOURCES, message)


def _is_disrupted(tracked: Tracked) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" for each in tracked.pod.status.conditions
    )


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
