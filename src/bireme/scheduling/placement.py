"""Where a set of pods would go: all of them, or none.

Few nodes are better than many, a full node better than an empty one, and a node with devices that nobody in
the set asks for is the last choice.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from bireme.scheduling.affinity_terms import class_of
from bireme.scheduling.labels import Labels
from bireme.scheduling.neighbours import Neighbours, Resident
from bireme.scheduling.nodes import Nodes
from bireme.scheduling.offers import COMMON, Offer, Offers
from bireme.scheduling.requests import Amounts
from bireme.scheduling.room import Counts, Mask, Room
from bireme.scheduling.shape import Shape
from bireme.scheduling.work import Work

_DOMAINS_TRIED = 16


class Member(NamedTuple):
    """A pod to be placed."""

    uid: str
    namespace: str
    name: str
    labels: Labels
    shape: Shape

    def at(self, node: str) -> Resident:
        """As it would be on a node."""
        return Resident(self.uid, class_of(self.namespace, self.labels), node, self.shape.relations)


class Ground(NamedTuple):
    """What a plan stands on: the free room, and who is there."""

    nodes: Nodes
    offers: Offers
    neighbours: Neighbours
    ranks: Counts

    @property
    def room(self) -> Room:
        return self.offers.room

    @property
    def work(self) -> Work:
        return self.neighbours.work

    def with_room(self, room: Room) -> "Ground":
        return self._replace(offers=Offers(room, self.nodes.whole, self.ranks))

    def copy(self) -> "Ground":
        return self.with_room(self.room.copy())._replace(neighbours=self.neighbours.copy())


class Take(NamedTuple):
    """So many pods of these requests on each of these nodes."""

    requests: Amounts
    columns: Counts
    counts: Counts


class Placement(NamedTuple):
    """A column for each pod, by uid, and what that takes."""

    columns: dict[str, int]
    takes: list[Take]

    def charge(self, room: Room) -> None:
        """Take from a room what the placement needs."""
        for each in self.takes:
            room.take(*each)


class Eligible(NamedTuple):
    """Which nodes a shape may use, and a name for that answer."""

    name: object
    nodes: Callable[[Shape], Mask]

    def within(self, name: object, domain: Mask) -> "Eligible":
        return Eligible((self.name, name), lambda shape: self.nodes(shape) & domain)


def place(
    ground: Ground, members: Sequence[Member], eligible: Eligible, topology: Sequence[str] = ()
) -> Placement | None:
    """Place all members, in as narrow a domain of the topology labels as can hold them, or return None."""
    if not members:
        return Placement({}, [])
    for name, domain in _domains(ground, members, eligible, topology):
        within = _place_within(ground, members, eligible.within(name, domain))
        if within is not None:
            return within
    return _place_within(ground, members, eligible)


def _domains(
    ground: Ground, members: Sequence[Member], eligible: Eligible, topology: Sequence[str]
) -> Iterator[tuple[object, Mask]]:
    """Domains that might hold all members, the tightest first."""
    wanted = [*_affinity_keys(members), *topology]
    if not wanted:
        return
    ground.work.spend_on_arrays(ground.room.size, 4 * (1 + len(wanted)))
    shape = members[0].shape
    capacity = ground.room.capacity(shape.requests, eligible.nodes(shape))
    alike = sum(member.shape is shape for member in members)
    for key in wanted:
        numbers, names = ground.nodes.domains(key)
        sums = np.bincount(numbers[numbers >= 0], weights=capacity[numbers >= 0], minlength=len(names))
        good = sorted(
            (int(each), name, number) for number, (each, name) in enumerate(zip(sums, names, strict=True))
        )
        for _, name, number in [each for each in good if each[0] >= alike][:_DOMAINS_TRIED]:
            yield (key, name), numbers == number


def _affinity_keys(members: Sequence[Member]) -> list[str]:
    """Labels in whose domains the members want to be together."""
    shapes = dict.fromkeys([each.shape for each in members if each.shape.relations])
    terms = [term for shape in shapes if shape.relations for term in shape.relations.affinity]
    return list(dict.fromkeys(term["topologyKey"] for term in terms))


def _place_within(ground: Ground, members: Sequence[Member], eligible: Eligible) -> Placement | None:
    by_shape = _largest_first(members)
    one_by_one = ground.neighbours.repel or any(shape.relations for shape, _ in by_shape)
    found = _place_in_turn(ground, by_shape, eligible, one_by_one=one_by_one)
    if found is not None or len(by_shape) == 1:
        return found
    # What is large may have taken the only nodes that what is small can use.
    choosiest_first = sorted(by_shape, key=lambda each: int(eligible.nodes(each[0]).sum()))
    if choosiest_first == by_shape:
        return None
    return _place_in_turn(ground, choosiest_first, eligible, one_by_one=one_by_one)


def has_room(ground: Ground, members: Sequence[Member], eligible: Eligible) -> bool:
    """Whether all members would have a place if it did not matter who is beside whom."""
    return _place_in_turn(ground, _largest_first(members), eligible, one_by_one=False) is not None


def _place_in_turn(
    ground: Ground,
    by_shape: list[tuple[Shape, list[Member]]],
    eligible: Eligible,
    *,
    one_by_one: bool,
) -> Placement | None:
    if one_by_one or len(by_shape) > 1:
        ground = ground.copy()
    placement = Placement({}, [])
    step = _place_each if one_by_one else _place_alike
    for shape, alike in by_shape:
        taken = len(placement.takes)
        if not step(ground, placement, shape, alike, eligible):
            return None
        if len(by_shape) > 1 and not one_by_one:
            for take in placement.takes[taken:]:
                ground.room.take(*take)
    return placement


def _largest_first(members: Sequence[Member]) -> list[tuple[Shape, list[Member]]]:
    """Members by shape: what is hard to place goes first."""

    def size(shape: Shape) -> tuple[int, int, int, bytes]:
        rare = sum(name not in COMMON for name in shape.requests)
        return (-rare, -shape.requests.get("cpu", 0), -shape.requests.get("memory", 0), shape.key)

    if len({member.shape for member in members}) == 1:
        return [(members[0].shape, list(members))]
    ordered = sorted(members, key=lambda member: size(member.shape))
    return [(shape, list(alike)) for shape, alike in groupby(ordered, key=lambda member: member.shape)]


def _place_alike(
    ground: Ground, placement: Placement, shape: Shape, members: list[Member], eligible: Eligible
) -> bool:
    if ground.room.is_too_small(shape.requests):
        return False
    ground.work.spend_on_arrays(ground.room.size, 2)
    offer = ground.offers.of((shape.number, eligible.name), shape.requests, eligible.nodes(shape))
    chosen = _choose(offer, len(members))
    if chosen is None:
        return False
    columns, counts = chosen
    placement.takes.append(Take(shape.requests, columns, counts))
    spots = np.repeat(columns, counts).tolist()
    placement.columns.update(zip((member.uid for member in members), spots, strict=True))
    return True


def _place_each(
    ground: Ground, placement: Placement, shape: Shape, members: list[Member], eligible: Eligible
) -> bool:
    """One pod after the other, since each changes what its neighbours may do."""
    mask = eligible.nodes(shape)
    constraints = ground.neighbours.constraints(shape.relations, mask)
    for member in members:
        ground.work.spend(40)
        ground.work.spend_on_arrays(ground.room.size, 24)
        allowed = constraints.allowed(member.namespace, member.labels)
        offer = ground.offers.of((shape.number, eligible.name), shape.requests, mask)
        column = offer.tightest_among(allowed)
        if column is None:
            return False
        take = Take(shape.requests, np.array([column]), np.array([1]))
        ground.room.take(*take)
        placement.takes.append(take)
        ground.neighbours.add([member], {member.uid: column})
        placement.columns[member.uid] = column
    return True


def _choose(offer: Offer, count: int) -> tuple[Counts, Counts] | None:
    """Nodes, and how many each takes: whole nodes as long as they are needed, then the tightest fit."""
    alone = offer.tightest(count)
    if alone is not None:
        return np.array([alone]), np.array([count])
    able = np.flatnonzero(offer.capacity)
    most = offer.capacity[able]
    if int(most.sum()) < count:
        return None
    order = np.lexsort((offer.slack[able], -most))
    able, most = able[order], most[order]
    sums = np.cumsum(most)
    # The nodes before the last one needed are filled; what is left goes where it fits tightest.
    filled = int(np.searchsorted(sums, count))
    left = count - int(sums[filled - 1])
    rest, room = able[filled:], most[filled:]
    fitting = rest[room >= left]
    last = fitting[offer.slack[fitting].argmin()]
    return np.append(able[:filled], last), np.append(most[:filled], left)
