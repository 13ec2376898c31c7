"""Why a unit waits, in full: where it stands, who holds what it needs, and what would let it start.

Remedies are tried on a copy of the cluster, one after the other, until the unit starts there.
"""

from collections.abc import Sequence
from datetime import datetime

from bireme.scheduling.backfill import known_ends, reserve_nodes, reserve_quota
from bireme.scheduling.decisions import Decisions
from bireme.scheduling.gates import closed_gates
from bireme.scheduling.placement import Ground, Placement, place
from bireme.scheduling.policy import Policy
from bireme.scheduling.reasons import (
    AddNodes,
    AwaitEnd,
    Explanation,
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
_BY_GATE = (
    Reason.MISCONFIGURED,
    Reason.QUEUE_CLOSED,
    Reason.NOT_PERMITTED,
    Reason.EXCEEDS_QUOTA_EVER,
    Reason.INSUFFICIENT_MEMBERS,
)
_BY_ROOM = (Reason.WAITING_FOR_RESOURCES, Reason.FRAGMENTED, Reason.WAITING_FOR_VICTIMS)


def explain(
    state: State, policy: Policy, now: datetime, decisions: Decisions, key: Key
) -> Explanation | None:
    """Say why the unit waits after these decisions; None if it does not."""
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
        _Search(state.copy(), policy, now, key).remedies(),
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

    def __init__(self, state: State, policy: Policy, now: datetime, key: Key) -> None:
        self._state, self._policy, self._now, self._key = state, policy, now, key

    def remedies(self) -> list[Remedy]:
        found: list[Remedy] = []
        while len(found) < _MOST_REMEDIES:
            decisions = self._decide()
            waiting = decisions.waiting.get(self._key)
            if waiting is None or self._key in [each.unit for each in decisions.starts]:
                return found
            victims = [uid for each in decisions.evictions if each.unit == self._key for uid in each.pods]
            if victims:
                # They go by themselves; others that are leaving may still be in the way.
                for uid in victims:
                    self._state.remove_pod(uid)
                continue
            remedy = self._remedy(decisions, waiting)
            if remedy in found:
                # It was done, and did not help: neighbours that it wants are where no node can be added.
                return [each for each in found if not isinstance(each, AddNodes)]
            _note(found, remedy)
            if not apply(remedy, self._state, self._unit):
                return found
        return found

    @property
    def _unit(self) -> Unit:
        return self._state.units[self._key]

    def _decide(self) -> Decisions:
        return schedule(self._state, self._policy, self._now)

    def _will_start(self, decisions: Decisions) -> bool:
        served = [each.unit for each in decisions.starts] + [each.unit for each in decisions.evictions]
        return self._key in served

    def _remedy(self, decisions: Decisions, waiting: Waiting) -> Remedy:
        refusal = next(closed_gates(self._state, self._policy, standing(self._unit)), None)
        if refusal is not None:
            return refusal.remedy
        if waiting.reason is Reason.WAITING_FOR_QUOTA:
            return self._more_quota(decisions)
        if waiting.reason in _BY_ROOM:
            ends = self._ends()
            if ends:
                return AwaitEnd([each.title for each in ends])
        return self._more_nodes(decisions)

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
