"""Why a unit waits, in full: where it stands, who holds what it needs, and what would let it start.

Remedies are tried on a copy of the cluster, one after the other, until the unit starts there.
"""

from collections.abc import Sequence
from datetime import datetime

from bireme.api.scheduler import Queue
from bireme.scheduling.backfill import known_ends, reserve_nodes, reserve_quota
from bireme.scheduling.decisions import Decisions
from bireme.scheduling.gates import closed_gates
from bireme.scheduling.placement import Ground, Placement, place
from bireme.scheduling.policy import Policy
from bireme.scheduling.reasons import (
    AddNodes,
    AskForNone,
    AwaitEnd,
    Explanation,
    GrowNode,
    LabelNode,
    RaiseQuota,
    Reason,
    Remedy,
    Waiting,
)
from bireme.scheduling.remedies import apply
from bireme.scheduling.requests import PODS, Amounts, add
from bireme.scheduling.room import Room
from bireme.scheduling.round import schedule
from bireme.scheduling.state import State
from bireme.scheduling.units import Key, Tracked, Unit, asked_by, standing
from bireme.scheduling.victims import Item, Releases, fewest, smallest_prefix

_MOST_HOLDERS = 10
_MOST_REMEDIES = 8
_PODS_PER_NODE = 110
# How much of these a laptop offers is its user's choice.
_CHOSEN = ("cpu", "memory")
_BY_GATE = (
    Reason.MISCONFIGURED,
    Reason.QUEUE_CLOSED,
    Reason.NOT_PERMITTED,
    Reason.EXCEEDS_QUOTA_EVER,
    Reason.INSUFFICIENT_MEMBERS,
)
# Nothing on the cluster is known to help.
_BY_WORK = (Reason.TOO_EXPENSIVE, Reason.WAITING_FOR_TURN)
_BY_ROOM = (Reason.WAITING_FOR_RESOURCES, Reason.FRAGMENTED, Reason.WAITING_FOR_VICTIMS)


def explain(
    state: State,
    policy: Policy,
    now: datetime,
    decisions: Decisions,
    key: Key,
    *,
    may_add_nodes: bool = True,
) -> Explanation | None:
    """Say why the unit waits after these decisions; None if it does not.

    Where no nodes can be added, as on a laptop, the one that is there is to be labelled or to offer more.
    """
    waiting = decisions.waiting.get(key)
    unit = state.units.get(key)
    if waiting is None or unit is None:
        return None
    return Explanation(
        key,
        unit.queue,
        waiting.reason,
        waiting.message,
        waiting.shortages,
        _position(state, decisions, unit),
        _holders(state, unit, waiting),
        _Search(state.copy(), policy, now, key, may_add_nodes=may_add_nodes).remedies(),
        _earliest_start(state, policy, unit, waiting),
    )


def _position(state: State, decisions: Decisions, unit: Unit) -> int:
    """Its place among those of its queue that wait, from 1."""
    own = [key for key in decisions.waiting if state.units[key].queue == unit.queue]
    return own.index(unit.key) + 1


def _holders(state: State, unit: Unit, waiting: Waiting) -> list[tuple[str, dict[str, int]]]:
    """Who holds most of what it needs: its own queue's units if quota is short, else everybody."""
    asked = standing(unit).asked
    wanted = [each.resource for each in waiting.shortages] or [each for each in asked if each != PODS]
    by_quota = waiting.reason in (Reason.WAITING_FOR_QUOTA, Reason.EXCEEDS_QUOTA_EVER)
    by_holder: dict[str, Amounts] = {}
    for tracked in state.pods.values():
        in_queue = tracked.key is not None and state.units[tracked.key].queue == unit.queue
        if tracked.holds and tracked.key != unit.key and (in_queue or not by_quota):
            name = str(tracked.key) if tracked.key else tracked.title
            add(
                by_holder.setdefault(name, {}), {each: tracked.shape.requests.get(each, 0) for each in wanted}
            )
    held = [(name, {each: n for each, n in amounts.items() if n}) for name, amounts in by_holder.items()]
    ordered = sorted(held, key=lambda each: ([-each[1].get(name, 0) for name in wanted], each[0]))
    return [each for each in ordered if each[1]][:_MOST_HOLDERS]


class _Search:
    """Looks for what lets a unit start, on a copy of the cluster that it changes."""

    def __init__(self, state: State, policy: Policy, now: datetime, key: Key, *, may_add_nodes: bool) -> None:
        self._state, self._policy, self._now, self._key = state, policy, now, key
        self._may_add_nodes = may_add_nodes

    def remedies(self) -> list[Remedy]:
        found: list[Remedy] = []
        while len(found) < _MOST_REMEDIES:
            decisions = self._decide()
            waiting = decisions.waiting.get(self._key)
            if waiting is None or self._key in [each.unit for each in decisions.starts]:
                return found
            if waiting.reason in _BY_WORK:
                return []
            victims = [uid for each in decisions.evictions if each.unit == self._key for uid in each.pods]
            if victims:
                # They go by themselves; others that are leaving may still be in the way.
                for uid in victims:
                    self._state.remove_pod(uid)
                continue
            remedy = self._remedy(decisions, waiting)
            if remedy is None or remedy in found:
                # It was done, and did not help: neighbours that it wants are where no node can be added.
                return [each for each in found if not isinstance(each, AddNodes | GrowNode | LabelNode)]
            _note(found, remedy)
            if not apply(remedy, self._state, self._unit):
                return []
        return []

    @property
    def _unit(self) -> Unit:
        return self._state.units[self._key]

    def _decide(self) -> Decisions:
        return schedule(self._state, self._policy, self._now)

    def _will_start(self, decisions: Decisions) -> bool:
        served = [each.unit for each in decisions.starts] + [each.unit for each in decisions.evictions]
        return self._key in served

    def _remedy(self, decisions: Decisions, waiting: Waiting) -> Remedy | None:
        refusal = next(closed_gates(self._state, self._policy, standing(self._unit)), None)
        if refusal is not None:
            return refusal.remedy
        if waiting.reason is Reason.WAITING_FOR_QUOTA:
            return self._more_quota(decisions)
        if waiting.reason in _BY_ROOM:
            ends = self._ends()
            if ends:
                return AwaitEnd([each.title for each in ends])
        return self._more_nodes(decisions) if self._may_add_nodes else self._change_node(waiting)

    def _ahead(self, decisions: Decisions) -> list[Unit]:
        """The units that would take what comes free before it, and it itself."""
        keys = list(decisions.waiting)
        earlier = keys[: keys.index(self._key)]
        takers = [key for key in earlier if decisions.waiting[key].reason not in _BY_GATE]
        served = [each.unit for each in decisions.starts]
        return [self._state.units[key] for key in dict.fromkeys([*served, *takers, self._key])]

    def _more_quota(self, decisions: Decisions) -> RaiseQuota:
        """Enough for what the queue holds, for those ahead in it, and for the unit."""
        queue = self._unit.queue
        whole = dict(self._state.held.get(queue, {}))
        for unit in self._ahead(decisions):
            if unit.queue == queue:
                add(whole, asked_by(standing(unit).waiting))
        most = self._state.queues[queue].spec.quota
        named = most.requests if most is not None else {}
        return RaiseQuota(queue, {name: n for name, n in whole.items() if name in named})

    def _more_nodes(self, decisions: Decisions) -> AddNodes:
        """A node for each pod of the unit, and of those ahead, who would take them first."""
        pods = [each for unit in self._ahead(decisions) for each in standing(unit).waiting]
        most: Amounts = {}
        for each in pods:
            for name, amount in each.shape.requests.items():
                most[name] = max(most.get(name, 0), amount)
        return AddNodes(len(pods), most | {PODS: _PODS_PER_NODE})

    # What the only node lacks.

    def _change_node(self, waiting: Waiting) -> Remedy | None:
        """Label the node, or let it offer more of what can be chosen; None if neither is what it lacks."""
        stands, queue = standing(self._unit), self._state.queues[self._unit.queue]
        node = next((each for each in self._state.nodes.by_column if each is not None), None)
        if node is None or not stands.waiting:
            return None
        labels = {
            key: value
            for key, value in self._wanted_labels(stands.waiting, queue).items()
            if node.metadata.labels.get(key) != value
        }
        if labels:
            return LabelNode(node.metadata.name, labels)
        asked = dict(asked_by(stands.first or stands.waiting))
        if waiting.reason in _BY_ROOM:
            for each in self._others():
                add(asked, each.shape.requests)
        has = self._state.nodes.allocatable[node.metadata.name]
        lacking = {name: n for name, n in asked.items() if n > has.get(name, 0) and name != PODS}
        fixed = sorted(name for name in lacking if name not in _CHOSEN)
        if fixed:
            return AskForNone(node.metadata.name, fixed)
        return GrowNode(node.metadata.name, lacking) if lacking else None

    def _wanted_labels(self, pods: Sequence[Tracked], queue: Queue) -> dict[str, str]:
        """The labels that selectors ask for; of an expression with In, the first value."""
        selector = queue.spec.node_selector or {}
        wanted: dict[str, str] = dict(selector.get("matchLabels") or {})
        for each in selector.get("matchExpressions") or ():
            if each["operator"] == "In":
                wanted[each["key"]] = each["values"][0]
        for pod in pods:
            wanted |= pod.pod.spec.node_selector
        return wanted

    # Whose end would help.

    def _ends(self) -> list[Tracked]:
        """The fewest pods after whose end it starts; more if others go first; none if that does not help."""
        others = self._others()
        few = self._fewest(others)
        if few and self._starts_without(few):
            return few
        if not others or not self._starts_without(others):
            return []
        enough = smallest_prefix(len(others), lambda prefix: self._starts_without(others[:prefix]))
        return others[:enough]

    def _others(self) -> list[Tracked]:
        """Everybody else that holds something: who is leaving anyhow, who ends soonest, who came last."""
        ends = {each.uid: end for end, each in known_ends(self._state, set())}
        others = [each for each in self._state.pods.values() if each.holds and each.key != self._key]

        def order(each: Tracked) -> tuple[bool, float, float, str]:
            end = ends[each.uid].timestamp() if each.uid in ends else float("inf")
            return (not each.leaving, end, -each.order[0].timestamp(), each.uid)

        return sorted(others, key=order)

    def _fewest(self, others: Sequence[Tracked]) -> list[Tracked]:
        state, ground = self._state, self._state.ground()
        releases = Releases(state, [Item((each,)) for each in others])

        def fits(room: Room, gone: frozenset[str]) -> bool:
            return fit(state, self._policy, self._unit, after(ground, room, gone)) is not None

        return releases.pods(fewest(releases, ground.room, fits) or ())

    def _starts_without(self, pods: Sequence[Tracked]) -> bool:
        for each in pods:
            self._state.remove_pod(each.uid)
        starts = self._will_start(self._decide())
        for each in pods:
            self._state.put_pod(each.pod)
        return starts


def _note(found: list[Remedy], remedy: Remedy) -> None:
    """One more remedy; a quota that has to be raised twice is raised once, by enough."""
    if isinstance(remedy, RaiseQuota):
        for number, each in enumerate(found):
            if isinstance(each, RaiseQuota) and each.queue == remedy.queue:
                found[number] = RaiseQuota(each.queue, each.requests | remedy.requests)
                return
    found.append(remedy)


def _earliest_start(state: State, policy: Policy, unit: Unit, waiting: Waiting) -> datetime | None:
    """When it starts at the latest if nobody goes before it, where pods' end times tell."""
    stands, queue = standing(unit), state.queues.get(unit.queue)
    known = known_ends(state, set())
    if queue is None or not stands.first:
        return None
    if waiting.reason is Reason.WAITING_FOR_QUOTA:
        own = [(end, each) for end, each in known if each.key and state.units[each.key].queue == unit.queue]
        held = state.held.get(unit.queue, {})
        reserved = reserve_quota(queue, unit.key, own, held, stands.asked)
        return reserved.at if reserved is not None else None
    if waiting.reason not in (Reason.WAITING_FOR_RESOURCES, Reason.FRAGMENTED):
        return None
    ground = state.ground()

    def fits(room: Room, gone: frozenset[str]) -> Placement | None:
        return fit(state, policy, unit, after(ground, room, gone))

    found = reserve_nodes(state, unit.key, known, ground.room, fits)
    return found.at if found is not None else None


def fit(state: State, policy: Policy, unit: Unit, ground: Ground) -> Placement | None:
    """Where the unit's first set would go."""
    members = [each.member for each in standing(unit).first]
    return place(ground, members, state.eligible_for(state.queues[unit.queue]), policy.topology)


def after(ground: Ground, room: Room, gone: frozenset[str]) -> Ground:
    return ground.with_room(room)._replace(neighbours=ground.neighbours.without(gone))
