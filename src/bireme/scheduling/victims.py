"""Who has to go so that a unit fits: the fewest possible, the least protected first.

Items are in the order in which they would be taken. The answer protects the last items first: an item is
spared if those before it, with the ones already found needed, suffice. Sufficing is taken to be monotone;
where neighbours matter it need not be, and then the answer may be that nothing suffices.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.room import Counts, Mask, Room
from bireme.scheduling.shape import Shape
from bireme.scheduling.shares import dominant_share, limits
from bireme.scheduling.state import State
from bireme.scheduling.units import Key, Tracked, Unit


class Item(NamedTuple):
    """Pods that go together. `rest` are pods of other items which then go, too: no half of a group stays."""

    pods: tuple[Tracked, ...]
    rest: tuple[Tracked, ...] = ()


Fits = Callable[[Room, frozenset[str]], bool]


def fewest(releases: "Releases", room: Room, fits: Fits) -> list[int] | None:
    """The numbers of the items that must go, or None if all together do not suffice.

    `fits` is asked about a room, and the pods that would be gone from it.
    """

    def suffices(prefix: int) -> bool:
        return fits(releases.freed(base, prefix), releases.uids(prefix, needed))

    base, needed = room, list[int]()
    pool = len(releases.items)
    if not suffices(pool):
        return None
    while not suffices(0):
        if not pool:
            return None
        pool = smallest_prefix(pool, suffices) - 1
        for number in (pool, *releases.with_it(pool)):
            needed.append(number)
            base = releases.take(base, number)
    return sorted(needed)


def fewest_alike(
    releases: "Releases", room: Room, requests: Mapping[str, int], mask: Mask, count: int
) -> list[int] | None:
    """The same for pods of one shape without demands on their neighbours: every item is asked once."""

    def suffices(prefix: int) -> bool:
        return int(releases.freed(room, prefix).capacity(requests, mask).sum()) >= count

    if not suffices(len(releases.items)):
        return None
    pool = smallest_prefix(len(releases.items), suffices)
    after = releases.freed(room, pool)
    capacity = after.capacity(requests, mask)
    spare = int(capacity.sum()) - count
    useful = releases.touching(capacity > room.capacity(requests, mask))
    needed: set[int] = set()
    for number in range(pool - 1, -1, -1):
        if number in needed or not useful[number]:
            continue
        loss = releases.loss(after, requests, mask, number)
        if loss <= spare:
            spare -= loss
            releases.take_back(after, number)
        else:
            needed |= {number, *releases.with_it(number)}
    return sorted(needed)


def smallest_prefix(count: int, suffices: Callable[[int], bool]) -> int:
    """The fewest first items that suffice; all of them are known to."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return low


def preemptible_items(
    state: State, priority: int, held: Mapping[str, Mapping[str, int]], excluded: set[str]
) -> list[Item]:
    """What a queue of this priority may take: first what groups have beyond their minimum, then groups."""
    units = _preemptible_units(state, priority, held)
    surplus: list[Item] = []
    whole: list[Item] = []
    for unit in units:
        pods = _running(unit, excluded)
        extra = _surplus(unit, pods, excluded)
        if extra:
            surplus += [Item((each,)) for each in extra]
            pods = tuple(each for each in pods if each not in extra)
        if pods:
            whole.append(Item(pods, tuple(extra)))
    return surplus + whole


def _preemptible_units(state: State, priority: int, held: Mapping[str, Mapping[str, int]]) -> Iterator[Unit]:
    """Lowest queue priority, largest dominant share, lowest group priority, newest first."""
    ranks: dict[tuple[int, Fraction], list[Unit]] = {}
    for name, units in state.by_queue.items():
        queue = state.queues.get(name)
        if queue is None or queue.spec.priority >= priority or not queue.spec.is_preemptible:
            continue
        share = dominant_share(held.get(name, {}), limits(state, queue))
        ranks.setdefault((queue.spec.priority, -share), []).extend(units.values())
    for _, alike in sorted(ranks.items()):
        yield from sorted(alike, key=_protection)


def _protection(unit: Unit) -> tuple[int, float, Key]:
    return unit.spec.priority, -unit.created.timestamp(), unit.key


def _running(unit: Unit, excluded: set[str]) -> tuple[Tracked, ...]:
    """The pods that hold something and stay, newest first."""
    pods = unit.running()
    if any(each.uid in excluded for each in pods):
        return tuple(each for each in pods if each.uid not in excluded)
    return pods


def _surplus(unit: Unit, pods: Sequence[Tracked], excluded: set[str]) -> list[Tracked]:
    """The pods that a group can lose and still have its minimum, newest first."""
    least_members = unit.spec.min_member
    if len(unit.pods) <= least_members:
        return []
    settled = [each for each in unit.settled() if each.uid not in excluded]
    spare = len(settled) - least_members
    if spare <= 0:
        return []
    roles = Counter(each.role for each in settled)
    least = {role.name: role.min_member for role in unit.spec.roles}
    extra: list[Tracked] = []
    for each in pods:
        if len(extra) < spare and roles[each.role] > least.get(each.role, 0):
            roles[each.role] -= 1
            extra.append(each)
    return extra


class Releases:
    """What items would give back, so laid out that any first so many of them are one slice."""

    def __init__(self, state: State, items: Sequence[Item]) -> None:
        self.items = items
        # Side by side, not as pairs: tens of thousands of new containers would call the garbage collector.
        self._here: list[int] = []
        self._shapes: list[Shape] = []
        self._ends = [0]
        columns = state.nodes.columns
        for item in items:
            for pod in item.pods:
                column = columns.get(pod.node)
                if column is not None:
                    self._here.append(column)
                    self._shapes.append(pod.shape)
            self._ends.append(len(self._here))
        self._work = state.work
        self._work.spend(len(self._here) // 2)
        self._columns = np.array(self._here, dtype=np.int64)
        self._amounts = _amounts(self._shapes)
        self._singles: dict[str, int] | None = None

    def freed(self, room: Room, prefix: int) -> Room:
        """The room with what the first items hold given back."""
        return self._slice_freed(room, slice(0, self._ends[prefix]))

    def take(self, room: Room, number: int) -> Room:
        """The room with what one item holds given back; from now on it holds nothing."""
        part = self._slice(number)
        more = self._slice_freed(room, part)
        for amounts in self._amounts.values():
            amounts[part] = 0
        return more

    def with_it(self, number: int) -> list[int]:
        """The items that go with an item."""
        rest = self.items[number].rest
        if not rest:
            return []
        if self._singles is None:
            alone = (place for place, item in enumerate(self.items) if len(item.pods) == 1)
            self._singles = {self.items[place].pods[0].uid: place for place in alone}
        return [self._singles[each.uid] for each in rest if each.uid in self._singles]

    def _slice_freed(self, room: Room, part: slice) -> Room:
        more = room.copy()
        columns = self._columns[part]
        self._work.spend_on_arrays(len(columns) + 2 * room.size, len(self._amounts))
        if len(columns):
            for name, amounts in self._amounts.items():
                row = more.row(name)
                row += np.bincount(columns, amounts[part], room.size).astype(np.int64)
        return more

    def take_back(self, room: Room, number: int) -> None:
        """Let one item stay after all."""
        for column, shape in self._each(number):
            room.add(column, shape.requests, -1)

    def loss(self, room: Room, requests: Mapping[str, int], mask: Mask, number: int) -> int:
        """How many pods of these requests fewer fit into the room if an item stays."""
        back: dict[int, Amounts] = {}
        for column, shape in self._each(number):
            if mask[column]:
                add(back.setdefault(column, {}), shape.requests)
        lost = 0
        for column, held in back.items():
            free = {name: int(room.row(name)[column]) for name in requests}
            before = min(free[name] // n for name, n in requests.items())
            after = min((free[name] - held.get(name, 0)) // n for name, n in requests.items())
            lost += max(before, 0) - max(after, 0)
        return lost

    def touching(self, mask: Mask) -> Mask:
        """Of each item, whether one of its pods is on one of the nodes."""
        hits = np.concatenate([[0], np.cumsum(mask[self._columns])])
        ends = np.array(self._ends)
        return np.asarray(hits[ends[1:]] > hits[ends[:-1]])

    def _each(self, number: int) -> Iterator[tuple[int, Shape]]:
        part = self._slice(number)
        self._work.spend(1 + part.stop - part.start)
        return zip(self._here[part], self._shapes[part], strict=True)

    def _slice(self, number: int) -> slice:
        return slice(self._ends[number], self._ends[number + 1])

    def pods(self, numbers: Iterable[int]) -> list[Tracked]:
        return [pod for number in numbers for pod in self.items[number].pods]

    def victims(self, numbers: Sequence[int]) -> list[Tracked]:
        """All that go if these items do."""
        rest = [pod for number in numbers for pod in self.items[number].rest]
        return list({pod.uid: pod for pod in (*self.pods(numbers), *rest)}.values())

    def uids(self, prefix: int, needed: Sequence[int] = ()) -> frozenset[str]:
        self._work.spend((self._ends[prefix] + len(needed)) // 8)
        return frozenset(pod.uid for pod in self.pods([*range(prefix), *needed]))


def _amounts(shapes: Sequence[Shape]) -> dict[str, Counts]:
    """What each asks for, a row per resource."""
    numbers: dict[Shape, int] = {}
    each = np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes], dtype=np.int64)
    names = sorted({name for shape in numbers for name in shape.requests})
    return {
        name: np.array([shape.requests.get(name, 0) for shape in numbers], dtype=np.int64)[each]
        for name in names
    }
