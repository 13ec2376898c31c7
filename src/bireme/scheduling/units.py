"""What starts together: the pods of a PodGroup, or one pod alone."""

from collections import Counter
from collections.abc import Iterable, Set
from datetime import datetime
from typing import Final, NamedTuple

from bireme.api.scheduler import DEFAULT_QUEUE, PodGroup, PodGroupSpec
from bireme.scheduling.objects import Pod, created
from bireme.scheduling.placement import Member
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.shape import Shape

GROUP_LABEL: Final = "scheduler.tensorstack.dev/group-name"
QUEUE_LABEL: Final = "scheduler.tensorstack.dev/queue"
ROLE_LABEL: Final = "scheduler.tensorstack.dev/role"
# Set by admission for a user who may use the queue though the namespace may not; nobody else can set it.
GRANT_ANNOTATION: Final = "scheduler.tensorstack.dev/granted-queue"

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


class Tracked(NamedTuple):
    """A pod with what is known about it."""

    pod: Pod
    shape: Shape
    key: Key | None

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def title(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def node(self) -> str:
        return self.pod.spec.node_name

    @property
    def finished(self) -> bool:
        return self.pod.status.phase in _FINISHED

    @property
    def leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def holds(self) -> bool:
        """Whether it takes room on a node."""
        return bool(self.node) and not self.finished

    @property
    def waits(self) -> bool:
        spec = self.pod.spec
        return not (spec.node_name or self.finished or self.leaving or spec.scheduling_gates)

    @property
    def role(self) -> str:
        return self.pod.metadata.labels.get(ROLE_LABEL, "")

    @property
    def member(self) -> Member:
        metadata = self.pod.metadata
        return Member(metadata.uid, metadata.namespace, metadata.name, metadata.labels, self.shape)

    @property
    def order(self) -> tuple[datetime, str]:
        return (created(self.pod.metadata), self.pod.metadata.name)


class Unit:
    """The pods of a unit, and what they hold."""

    __slots__ = ("group", "held", "key", "pods")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.group: PodGroup | None = None
        self.pods: dict[str, Tracked] = {}
        self.held: Amounts = {}

    @property
    def spec(self) -> PodGroupSpec:
        return self.group.spec if self.group is not None else _LONER

    @property
    def empty(self) -> bool:
        return self.group is None and not self.pods

    @property
    def queue(self) -> str:
        if self.group is not None:
            return self.group.spec.queue
        for tracked in self.pods.values():
            return tracked.pod.metadata.labels.get(QUEUE_LABEL) or DEFAULT_QUEUE
        return DEFAULT_QUEUE

    @property
    def created(self) -> datetime:
        if self.group is not None:
            return created(self.group.metadata)
        return min(created(each.pod.metadata) for each in self.pods.values())

    @property
    def granted(self) -> bool:
        """Whether its user was found to be allowed to use the queue."""
        bearers = [self.group] if self.group is not None else [each.pod for each in self.pods.values()]
        return all(each.metadata.annotations.get(GRANT_ANNOTATION) == self.queue for each in bearers)

    def put(self, tracked: Tracked) -> None:
        self.drop(tracked.uid)
        self.pods[tracked.uid] = tracked
        if tracked.holds:
            add(self.held, tracked.shape.requests)

    def drop(self, uid: str) -> None:
        old = self.pods.pop(uid, None)
        if old is not None and old.holds:
            add(self.held, old.shape.requests, -1)

    def waiting(self) -> list[Tracked]:
        """The pods to be placed, oldest first."""
        return sorted((each for each in self.pods.values() if each.waits), key=lambda each: each.order)

    def settled(self) -> list[Tracked]:
        """The pods that count for the minimum: bound and staying, or finished."""
        return [each for each in self.pods.values() if each.finished or (each.node and not each.leaving)]


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


def standing(unit: Unit, ending: Set[str] = frozenset()) -> Standing:
    """Look at a unit's pods once; those that are about to be ended are not placed any more."""
    waiting, settled = unit.waiting(), unit.settled()
    if ending:
        waiting = [each for each in waiting if each.uid not in ending]
    first = _first_set(unit, waiting, settled)
    return Standing(unit, waiting, settled, first, asked_by(first))


def asked_by(pods: Iterable[Tracked]) -> Amounts:
    """What pods ask for together."""
    counts = Counter(each.shape for each in pods)
    whole: Amounts = {}
    for shape, count in counts.items():
        add(whole, shape.requests, count)
    return whole


def _first_set(unit: Unit, waiting: list[Tracked], settled: list[Tracked]) -> list[Tracked]:
    _, short = lacking(unit, settled)
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
