"""The cluster as the scheduler knows it, kept up with one change at a time.

What is held is derived from the pods alone: no counter can leak. A state that followed any changes equals one
that is built from the end result (a property of the tests).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from bireme.api.scheduler import GROUP_LABEL, SCHEDULER_NAME, PodGroup, Queue
from bireme.scheduling.affinity_terms import Matches
from bireme.scheduling.labels import Labels
from bireme.scheduling.neighbours import Neighbours, Residents
from bireme.scheduling.nodes import Nodes
from bireme.scheduling.objects import Namespace, Node, Pod, Profiles
from bireme.scheduling.offers import Offers
from bireme.scheduling.placement import Eligible, Ground
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.room import Counts, Mask
from bireme.scheduling.shape import Shape, Shapes
from bireme.scheduling.storage import Storage, Unusable
from bireme.scheduling.units import Key, Tracked, Unit, has_plan

# So many shapes are kept, though no pod may have them any more.
_FEW_SHAPES: Final = 1000


class State:
    """Nodes, pods, units and queues, with what they hold."""

    def __init__(self, scheduler_name: str = SCHEDULER_NAME) -> None:
        self.scheduler_name = scheduler_name
        self.nodes = Nodes()
        self.storage = Storage()
        self.profiles = Profiles()
        self.queues: dict[str, Queue] = {}
        self.namespaces: dict[str, Labels] = {}
        self.pods: dict[str, Tracked] = {}
        self.units: dict[Key, Unit] = {}
        self.held: dict[str, Amounts] = {}
        self.by_queue: dict[str, dict[Key, Unit]] = {}
        # Of those, the ones with pods to be placed; and all whose binding was begun.
        self.waiting: dict[str, dict[Key, Unit]] = {}
        self.begun: dict[Key, Unit] = {}
        self._shapes = Shapes()
        self._on_node: dict[str, set[str]] = {}
        self._repelling: set[str] = set()
        self._leaving: set[str] = set()
        self._ranks: Counts | None = None
        self.work = self.nodes.work
        # Few clusters have rules on neighbours: the index is built when one is asked first.
        self._residents: Residents | None = None
        # What came and went since; None went. Changes come on the event loop, and rules take time to compile.
        self._moved: dict[str, Tracked | None] = {}
        self._matches = Matches(self.namespaces, self.work)
        self._matched: dict[str, Labels] = {}

    # Nodes.

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        is_new = name not in self.nodes.columns
        self.nodes.put(node)
        if is_new:
            self._ranks = None
            self._occupy(name, -1)

    def remove_node(self, name: str) -> None:
        if name in self.nodes.columns:
            self._occupy(name, 1)
            self.nodes.remove(name)
            self._ranks = None

    def _occupy(self, name: str, sign: int) -> None:
        for uid in self._on_node.get(name, ()):
            self.nodes.room.add(self.nodes.columns[name], self.pods[uid].shape.requests, sign)

    # Pods and groups.

    def put_pod(self, pod: Pod) -> None:
        self.remove_pod(pod.metadata.uid)
        tracked = Tracked(pod, self._shapes.of(pod), self._key(pod))
        self.pods[tracked.uid] = tracked
        if len(self._shapes) > 2 * len(self.pods) + _FEW_SHAPES:
            self._shapes.prune({each.shape for each in self.pods.values()})
            self.nodes.forget_masks()
        if tracked.holds:
            self._settle(tracked, -1)
        if tracked.key is not None:
            with self._moving(tracked.key) as unit:
                unit.put(tracked)

    def remove_pod(self, uid: str) -> None:
        tracked = self.pods.pop(uid, None)
        if tracked is None:
            return
        if tracked.holds:
            self._settle(tracked, 1)
        if tracked.key is not None:
            with self._moving(tracked.key) as unit:
                unit.drop(uid)

    def _settle(self, tracked: Tracked, sign: int) -> None:
        """Take a pod's room on its node, or give it back."""
        residents = self._on_node.setdefault(tracked.node, set())
        repels = tracked.shape.relations is not None and bool(tracked.shape.relations.anti_affinity)
        if self._residents is not None:
            self._moved[tracked.uid] = tracked if sign < 0 else None
        if sign < 0:
            residents.add(tracked.uid)
            if repels:
                self._repelling.add(tracked.uid)
            if tracked.leaving:
                self._leaving.add(tracked.uid)
        else:
            residents.discard(tracked.uid)
            self._leaving.discard(tracked.uid)
            self._repelling.discard(tracked.uid)
            if not residents:
                del self._on_node[tracked.node]
        column = self.nodes.columns.get(tracked.node)
        if column is not None:
            self.nodes.room.add(column, tracked.shape.requests, sign)

    def _key(self, pod: Pod) -> Key | None:
        if pod.spec.scheduler_name != self.scheduler_name:
            return None
        metadata = pod.metadata
        group = metadata.labels.get(GROUP_LABEL, "")
        return Key(metadata.namespace, group) if group else Key(metadata.namespace, "", metadata.name)

    def put_group(self, group: PodGroup) -> None:
        with self._moving(Key(group.metadata.namespace, group.metadata.name)) as unit:
            unit.group = group

    def remove_group(self, namespace: str, name: str) -> None:
        with self._moving(Key(namespace, name)) as unit:
            unit.group = None

    def _moving(self, key: Key) -> "_Moving":
        return _Moving(self, key)

    # The rest.

    def put_queue(self, queue: Queue) -> None:
        self.queues[queue.metadata.name] = queue

    def remove_queue(self, name: str) -> None:
        self.queues.pop(name, None)

    def put_namespace(self, namespace: Namespace) -> None:
        self.namespaces[namespace.metadata.name] = namespace.metadata.labels

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    # What plans stand on.

    def ground(self) -> Ground:
        """The cluster as it is now; plans copy it."""
        if self._matched != self.namespaces:
            self._matches = Matches(self.namespaces, self.work)
            self._matched = dict(self.namespaces)
        repels = any(self.pods[uid].node in self.nodes.columns for uid in self._repelling)
        neighbours = Neighbours(self.nodes, self.residents, self._matches, self.work, repels=repels)
        offers = Offers(self.nodes.room, self.nodes.whole, self.ranks())
        return Ground(self.nodes, offers, neighbours, self.ranks())

    def residents(self) -> Residents:
        """The pods on nodes, as neighbours see them."""
        if self._residents is None:
            self._residents = Residents()
            self._moved = {uid: each for uid, each in self.pods.items() if each.holds}
        for uid, tracked in self._moved.items():
            self._residents.remove(uid)
            if tracked is not None:
                self._residents.add(tracked.member.at(tracked.node))
        self._moved = {}
        return self._residents

    def ranks(self) -> Counts:
        """Each node's place by name, so that a choice among equals does not hang on history."""
        if self._ranks is None or len(self._ranks) != self.nodes.room.size:
            self._ranks = np.zeros(self.nodes.room.size, dtype=np.int64)
            for rank, name in enumerate(sorted(self.nodes.columns)):
                self._ranks[self.nodes.columns[name]] = rank
        return self._ranks

    def eligible(self, shape: Shape, queue: Queue) -> Mask:
        """The nodes that a shape may use out of a queue; free room is not looked at."""
        mask = self.nodes.allowing(shape)
        if queue.spec.node_selector is not None:
            mask = mask & self.nodes.selected(queue.metadata.name, queue.spec.node_selector)
        return mask & self._reachable(shape) if len(shape.claims) > 1 else mask

    def largest(self, shape: Shape, queue: Queue) -> tuple[int, Amounts]:
        """How many nodes a shape may use out of a queue, and the most of each resource on one of them."""
        key = (shape.place, str(queue.spec.node_selector)) if len(shape.claims) == 1 else None
        return self.nodes.largest(key, self.eligible(shape, queue))

    def eligible_for(self, queue: Queue) -> Eligible:
        """The same as a rule for placing."""
        return Eligible(queue.metadata.name, lambda shape: self.eligible(shape, queue))

    def _reachable(self, shape: Shape) -> Mask:
        namespace, *claims = shape.claims
        self.work.spend(len(claims) * len(self.nodes.columns))
        mask = np.ones(self.nodes.room.size, dtype=bool)
        for name in claims:
            reach = self.storage.reach(namespace, name)
            for column, node in enumerate(self.nodes.by_column):
                if node is not None and (isinstance(reach, Unusable) or not reach.includes(node)):
                    mask[column] = False
        return mask

    def leaving(self) -> list[Tracked]:
        """The pods that will give back what they hold."""
        return [self.pods[uid] for uid in sorted(self._leaving)]

    def copy(self) -> "State":
        """The same cluster, to be changed without harm."""
        other = State(self.scheduler_name)
        for node in self.nodes.by_column:
            if node is not None:
                other.put_node(node)
        for tracked in self.pods.values():
            other.put_pod(tracked.pod)
        for unit in self.units.values():
            if unit.group is not None:
                other.put_group(unit.group)
        other.queues, other.namespaces = dict(self.queues), dict(self.namespaces)
        other.storage, other.profiles = self.storage, self.profiles
        return other

    def view(self) -> Mapping[str, object]:
        """All of it in a form that two states can be compared by."""
        room, whole = (
            {name: each.held(column) for name, column in sorted(self.nodes.columns.items())}
            for each in (self.nodes.room, self.nodes.whole)
        )
        units = {
            str(key): (unit.queue, sorted(unit.pods), {name: n for name, n in unit.held.items() if n})
            for key, unit in sorted(self.units.items())
        }
        held = {queue: {name: n for name, n in amounts.items() if n} for queue, amounts in self.held.items()}
        return {
            "room": room,
            "whole": whole,
            "units": units,
            "held": {queue: amounts for queue, amounts in sorted(held.items()) if amounts},
            "waiting": {queue: sorted(units) for queue, units in sorted(self.waiting.items())},
            "begun": sorted(self.begun),
        }


class _Moving:
    """Changes a unit, and with it what its queue holds; a unit with nothing in it is forgotten."""

    __slots__ = ("_state", "_unit")

    def __init__(self, state: State, key: Key) -> None:
        self._state = state
        self._unit = state.units.get(key) or Unit(key)

    def __enter__(self) -> Unit:
        if self._unit.key in self._state.units:
            self._charge(-1)
        return self._unit

    def __exit__(self, *_: object) -> None:
        if self._unit.empty:
            self._state.units.pop(self._unit.key, None)
            return
        self._state.units[self._unit.key] = self._unit
        self._charge(1)

    def _charge(self, sign: int) -> None:
        queue = self._unit.queue
        add(self._state.held.setdefault(queue, {}), self._unit.held, sign)
        _list(self._state.by_queue, queue, self._unit, listed=sign > 0)
        _list(self._state.waiting, queue, self._unit, listed=sign > 0 and self._unit.waits > 0)
        if sign > 0 and has_plan(self._unit):
            self._state.begun[self._unit.key] = self._unit
        else:
            self._state.begun.pop(self._unit.key, None)


def _list(lists: dict[str, dict[Key, Unit]], queue: str, unit: Unit, *, listed: bool) -> None:
    """Let a unit be in its queue's list, or not; an empty list is none."""
    if listed:
        lists.setdefault(queue, {})[unit.key] = unit
        return
    units = lists.get(queue)
    if units is not None and units.pop(unit.key, None) is not None and not units:
        del lists[queue]
