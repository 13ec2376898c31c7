"""What starts together: the pods of a PodGroup, or one pod alone."""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Final, NamedTuple

from bireme.api.scheduler import (
    DEFAULT_QUEUE,
    QUEUE_LABEL,
    ROLE_LABEL,
    PodGroup,
    PodGroupSpec,
)
from bireme.scheduling.objects import Pod, created
from bireme.scheduling.placement import Member
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.shape import Shape

_FINISHED: Final = ("Succeeded", "Failed")
_LONER: Final = PodGroupSpec(min_member=1)


class Key(NamedTuple):
    """A unit's name: of its PodGroup, or of the pod that stands for itself."""

    namespace: str
    group: str
    pod: str = ""

    @property
    def short(self) -> str:
        return self.group or self.pod

    def __str__(self) -> str:
        return f"{self.namespace}/{self.short}"


class Tracked:
    """A pod with what is known about it. Never changed: another version of the pod is another object."""

    __slots__ = (
        "finished",
        "holds",
        "key",
        "leaving",
        "member",
        "node",
        "order",
        "plain",
        "pod",
        "role",
        "shape",
        "uid",
        "waits",
    )

    def __init__(self, pod: Pod, shape: Shape, key: Key | None) -> None:
        metadata = pod.metadata
        self.pod, self.shape, self.key = pod, shape, key
        self.uid, self.node = metadata.uid, pod.spec.node_name
        self.finished = pod.status.phase in _FINISHED
        self.leaving = metadata.deletion_timestamp is not None
        # Whether it takes room on a node.
        self.holds = bool(self.node) and not self.finished
        self.waits = not (self.node or self.finished or self.leaving or pod.spec.scheduling_gates)
        # Whether nothing of its own can keep it from being placed.
        self.plain = len(shape.claims) == 1 and not pod.spec.resource_claims and not shape.excess
        self.role = metadata.labels.get(ROLE_LABEL, "")
        self.order = (created(metadata), metadata.name)
        self.member = Member(metadata.uid, metadata.namespace, metadata.name, metadata.labels, shape)

    @property
    def title(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


_by_order: Final = attrgetter("order")


class Unit:
    """The pods of a unit, and what they hold."""

    __slots__ = ("_group", "_running", "_standing", "held", "key", "pods", "waits")

    def __init__(self, key: Key) -> None:
        self.key = key
        self._group: PodGroup | None = None
        self.pods: dict[str, Tracked] = {}
        self.held: Amounts = {}
        # How many of the pods are to be placed.
        self.waits = 0
        self._standing: Standing | None = None
        self._running: tuple[Tracked, ...] | None = None

    @property
    def group(self) -> PodGroup | None:
        return self._group

    @group.setter
    def group(self, group: PodGroup | None) -> None:
        self._group, self._standing = group, None

    @property
    def spec(self) -> PodGroupSpec:
        return self._group.spec if self._group is not None else _LONER

    @property
    def empty(self) -> bool:
        return self._group is None and not self.pods

    @property
    def queue(self) -> str:
        if self._group is not None:
            return self._group.spec.queue
        for tracked in self.pods.values():
            return tracked.pod.metadata.labels.get(QUEUE_LABEL) or DEFAULT_QUEUE
        return DEFAULT_QUEUE

    @property
    def created(self) -> datetime:
        if self._group is not None:
            return created(self._group.metadata)
        return min(each.order[0] for each in self.pods.values())

    def put(self, tracked: Tracked) -> None:
        self.drop(tracked.uid)
        self.pods[tracked.uid] = tracked
        self.waits += tracked.waits
        if tracked.holds:
            add(self.held, tracked.shape.requests)

    def drop(self, uid: str) -> None:
        self._standing = self._running = None
        old = self.pods.pop(uid, None)
        if old is None:
            return
        self.waits -= old.waits
        if old.holds:
            add(self.held, old.shape.requests, -1)

    def waiting(self) -> list[Tracked]:
        """The pods to be placed, oldest first."""
        return self.standing().waiting

    def settled(self) -> list[Tracked]:
        """The pods that count for the minimum: bound and staying, or finished."""
        return self.standing().settled

    def running(self) -> tuple[Tracked, ...]:
        """The pods that hold something and stay, newest first."""
        if self._running is None:
            staying = (each for each in self.pods.values() if each.holds and not each.leaving)
            self._running = tuple(sorted(staying, key=_by_order, reverse=True))
        return self._running

    def standing(self) -> "Standing":
        """Its pods as a round sees them; looked at once after each change."""
        if self._standing is None:
            self._standing = _standing(self, frozenset())
        return self._standing


def has_plan(unit: Unit) -> bool:
    """Whether a binding was begun that is not known to be complete."""
    status = unit.group.status if unit.group is not None else None
    return status is not None and status.binding is not None


def lacking(unit: Unit, pods: Iterable[Tracked]) -> tuple[int, dict[str, int]]:
    """How many members, and how many of each role, the pods fall short of the minimum."""
    spec = unit.spec
    if not spec.roles:
        return max(0, spec.min_member - sum(1 for _ in pods)), {}
    roles = Counter(each.role for each in pods)
    short = {
        role.name: role.min_member - roles[role.name]
        for role in spec.roles
        if role.min_member > roles[role.name]
    }
    return max(spec.min_member - roles.total(), sum(short.values()), 0), short


class Standing(NamedTuple):
    """A unit's pods as a round sees them."""

    unit: Unit
    waiting: list[Tracked]
    settled: list[Tracked]
    # The smallest set of waiting pods that must start at once; empty if it can't be made up.
    first: list[Tracked]
    # What that set asks for.
    asked: Amounts


def standing(unit: Unit, ending: Collection[str] = frozenset()) -> Standing:
    """A unit's pods as a round sees them; those that are about to be ended neither count nor are placed."""
    if not ending or not any(uid in ending for uid in unit.pods):
        return unit.standing()
    return _standing(unit, ending)


def _standing(unit: Unit, ending: Collection[str]) -> Standing:
    pods = unit.pods.values()
    waiting = sorted((each for each in pods if each.waits and each.uid not in ending), key=_by_order)
    settled = [
        each for each in pods if each.finished or (each.node and not each.leaving and each.uid not in ending)
    ]
    first = _first_set(unit, waiting, settled)
    return Standing(unit, waiting, settled, first, asked_by(first))


def asked_by(pods: Iterable[Tracked]) -> Amounts:
    """What pods ask for together."""
    counts: dict[Shape, int] = {}
    for each in pods:
        counts[each.shape] = counts.get(each.shape, 0) + 1
    whole: Amounts = {}
    for shape, count in counts.items():
        add(whole, shape.requests, count)
    return whole


def _first_set(unit: Unit, waiting: list[Tracked], settled: list[Tracked]) -> list[Tracked]:
    _, short = lacking(unit, settled)
    if not short and unit.spec.min_member - len(settled) == len(waiting):
        return waiting
    chosen: list[Tracked] = []
    for role, count in sorted(short.items()):
        of_role = [each for each in waiting if each.role == role][:count]
        if len(of_role) < count:
            return []
        chosen += of_role
    missing = unit.spec.min_member - len(settled) - len(chosen)
    taken = {each.uid for each in chosen}
    rest = [each for each in waiting if each.uid not in taken]
    if missing > len(rest):
        return []
    if not chosen and missing <= 0:
        # The minimum is there already: what comes later follows one by one.
        return rest[:1]
    return sorted([*chosen, *rest[: max(0, missing)]], key=lambda each: each.order)
