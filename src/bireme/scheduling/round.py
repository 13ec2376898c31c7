"""One round: what starts, what has to go, and why the rest waits."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

import msgspec
import numpy as np

from bireme.api.scheduler import GangBinding, Queue
from bireme.scheduling.backfill import (
    QuotaReservation,
    ends_by,
    known_ends,
    reserve_nodes,
    reserve_quota,
)
from bireme.scheduling.binding import begun, make_plan, overdue
from bireme.scheduling.decisions import Decisions, Evict, Expire, MakeAnew, Start
from bireme.scheduling.durations import ends
from bireme.scheduling.gates import closed_gates, over_quota, quota_message
from bireme.scheduling.grounds import Grounds
from bireme.scheduling.placement import Ground, Placement, place
from bireme.scheduling.policy import Policy
from bireme.scheduling.reasons import Reason, Waiting
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.room import Room
from bireme.scheduling.shares import dominant_share, limits
from bireme.scheduling.shortage import why_it_does_not_fit
from bireme.scheduling.state import State
from bireme.scheduling.turns import in_turn
from bireme.scheduling.units import Key, Standing, Tracked, Unit, asked_by, lacking, standing
from bireme.scheduling.victims import Item, Releases, fewest, fewest_alike, preemptible_items

# How many units that fit nowhere are asked for a known start, before the round goes on without.
_RESERVATIONS_TRIED = 8
_NAMED_VICTIMS = 3


def schedule(state: State, policy: Policy, now: datetime) -> Decisions:
    """Decide on everything that waits. The same state, policy and time give the same decisions."""
    return Round(state, policy, now).run()


class Round:
    """The ground as the decisions made so far leave it."""

    def __init__(self, state: State, policy: Policy, now: datetime) -> None:
        self.state, self.policy, self.now = state, policy, now
        self.held: dict[str, Amounts] = {name: dict(amounts) for name, amounts in state.held.items()}
        self.decisions = Decisions([], [], [], [], {})
        self._grounds = Grounds(state)
        self._limits: dict[str, Amounts] = {}
        self._shares: dict[str, Fraction] = {}
        self._tried = 0
        self._quota_reserved: dict[str, QuotaReservation] = {}
        self._unfit: dict[object, Waiting] = {}
        self._going: set[str] = set(self._grounds.leaving)
        self._takeable: dict[int, list[Item]] = {}
        self._evicted: set[str] = set()
        self._wake: list[datetime] = []

    def run(self) -> Decisions:
        """Serve every unit once."""
        self._expire()
        skipped = self._go_on_with_begun()
        for unit in in_turn(self.state, self.share, skipped):
            self._serve(unit)
        return msgspec.structs.replace(self.decisions, wake_at=min(self._wake, default=None))

    def share(self, name: str) -> Fraction:
        """The queue's dominant share with what was decided so far."""
        known = self._shares.get(name)
        if known is None:
            known = self._shares[name] = self._share(name)
        return known

    def _share(self, name: str) -> Fraction:
        queue = self.state.queues.get(name)
        if queue is None:
            return Fraction(0)
        if name not in self._limits:
            self._limits[name] = limits(self.state, queue)
        return dominant_share(self.held.get(name, {}), self._limits[name])

    def _expire(self) -> None:
        for end, tracked in ends(self.state):
            if end > self.now:
                self._wake.append(end)
            elif tracked.key is not None:
                queue = self.state.units[tracked.key].queue
                self.decisions.expirations.append(Expire(tracked.uid, queue))
                self._going.add(tracked.uid)
        self.decisions.expirations.sort(key=lambda each: each.pod)

    # Units that are bound in part.

    def _go_on_with_begun(self) -> set[Key]:
        units = [(plan, unit) for unit in self.state.begun.values() if (plan := begun(unit)) is not None]
        for plan, unit in sorted(units, key=lambda each: (each[0].since, each[1].key)):
            self._go_on(plan, unit)
        return {unit.key for _, unit in units}

    def _go_on(self, plan: GangBinding, unit: Unit) -> None:
        """Complete what was begun before anything else starts, or give it up when its time is over."""
        if overdue(plan, self.now, self.policy.binding_seconds):
            self.decisions.made_anew.append(MakeAnew(unit.key, tuple(sorted(unit.pods))))
            return
        self._wake.append(plan.since + timedelta(seconds=self.policy.binding_seconds))
        queue, pods = self.state.queues.get(unit.queue), standing(unit, self._going).first
        found = self._place(self._grounds.now, queue, pods) if queue is not None and pods else None
        if found is not None:
            self._start(unit, pods, asked_by(pods), found, plan)
            return
        message = "a part of it is bound, and the rest lost its place; it is held until that is found"
        self.decisions.waiting[unit.key] = Waiting(Reason.WAITING_FOR_RESOURCES, message)
        if queue is not None:
            self._grounds.keep_clear([self.state.eligible(each.shape, queue) for each in pods])

    # Units that wait.

    def _serve(self, unit: Unit) -> None:
        stands = standing(unit, self._going)
        if not stands.waiting:
            return
        refusal = next(closed_gates(self.state, self.policy, stands), None)
        if refusal is not None:
            waiting: Waiting | None = refusal.waiting
        else:
            waiting = self._serve_sets(stands, self.state.queues[unit.queue])
        if waiting is not None:
            self.decisions.waiting[unit.key] = waiting

    def _serve_sets(self, stands: Standing, queue: Queue) -> Waiting | None:
        """What must start at once, then what may follow one by one."""
        completes = not stands.settled or lacking(stands.unit, stands.settled)[0] > 0
        waiting = self._try(stands.unit, queue, stands.first, stands.asked, evicts=completes)
        if waiting is not None or len(stands.first) == len(stands.waiting):
            return waiting
        chosen = {each.uid for each in stands.first}
        for each in stands.waiting:
            if waiting is None and each.uid not in chosen:
                waiting = self._try(stands.unit, queue, [each], each.shape.requests, evicts=False)
        return waiting

    def _try(
        self, unit: Unit, queue: Queue, pods: list[Tracked], asked: Amounts, *, evicts: bool
    ) -> Waiting | None:
        """Start the pods, or make way for them, or say why they wait.

        Nobody is evicted for pods beyond a group's minimum.
        """
        waiting = self._within_quota(unit, queue, pods, asked)
        if waiting is not None:
            return waiting
        signature = self._signature(queue, pods, evicts=evicts)
        known = self._unfit.get(signature) if signature is not None else None
        if known is not None:
            return known
        lasting = self._lasts(queue, pods)
        found = self._place(self._grounds.usable(lasting=lasting), queue, pods)
        if found is not None:
            self._start(unit, pods, asked, found)
            return None
        waiting = self._claim(unit, queue, pods)
        if waiting is None and evicts:
            waiting = self._preempt(unit, queue, pods)
        if waiting is not None:
            return waiting
        waiting = self._lacks(unit, queue, pods)
        if signature is not None:
            self._unfit[signature] = msgspec.structs.replace(waiting, earliest_start=None)
        return waiting

    def _lasts(self, queue: Queue, pods: Sequence[Tracked]) -> bool:
        """Whether pods may still be there at the start that is reserved."""
        reserved = self._grounds.reserved
        return reserved is None or not ends_by(queue, pods, reserved.at)

    def _signature(self, queue: Queue, pods: Sequence[Tracked], *, evicts: bool) -> object:
        """Pods of the same signature fit or do not fit alike; None if that can't be told."""
        shapes = {each.shape for each in pods}
        if any(shape.relations for shape in shapes):
            return None
        if len(shapes) == 1:
            kinds: object = (pods[0].shape.number, len(pods))
        else:
            kinds = tuple(sorted(Counter(each.shape.number for each in pods).items()))
        return (queue.metadata.name, self._lasts(queue, pods), evicts, kinds)

    def _within_quota(
        self, unit: Unit, queue: Queue, pods: Sequence[Tracked], asked: Amounts
    ) -> Waiting | None:
        name = queue.metadata.name
        held = self.held.get(name, {})
        shortages = over_quota(queue, held, asked)
        reserved = self._quota_reserved.get(name)
        if shortages:
            if reserved is None and self.policy.backfill:
                self._reserve_quota(unit, queue, asked)
            return Waiting(Reason.WAITING_FOR_QUOTA, quota_message(name, shortages), shortages)
        if reserved is None or ends_by(queue, pods, reserved.at):
            return None
        if all(asked.get(each, 0) <= left for each, left in reserved.left.items() if asked.get(each)):
            return None
        message = (
            f"would delay {reserved.unit.short}, whose quota is free at {_time(reserved.at)} at the latest"
        )
        return Waiting(Reason.WAITING_FOR_QUOTA, message)

    def _reserve_quota(self, unit: Unit, queue: Queue, asked: Amounts) -> None:
        name = queue.metadata.name
        own = [
            (end, each)
            for end, each in self._known_ends()
            if each.key is not None and self.state.units[each.key].queue == name
        ]
        reservation = reserve_quota(queue, unit.key, own, self.held.get(name, {}), asked)
        if reservation is not None:
            self._quota_reserved[name] = reservation

    def _known_ends(self) -> list[tuple[datetime, Tracked]]:
        return known_ends(self.state, self._going)

    def _place(self, ground: Ground, queue: Queue, pods: Sequence[Tracked]) -> Placement | None:
        members = [each.member for each in pods]
        return place(ground, members, self.state.eligible_for(queue), self.policy.topology)

    def _start(
        self,
        unit: Unit,
        pods: Sequence[Tracked],
        asked: Amounts,
        found: Placement,
        plan: GangBinding | None = None,
    ) -> None:
        queue = self.state.queues[unit.queue]
        self._grounds.start(found, pods, lasting=self._lasts(queue, pods))
        self._charge_quota(unit, queue, pods, asked)
        nodes = {each.uid: self.state.nodes.name(found.columns[each.uid]) for each in pods}
        if plan is None and len(pods) > 1:
            plan = make_plan({each.pod.metadata.name: nodes[each.uid] for each in pods}, self.now)
        self.decisions.starts.append(Start(unit.key, nodes, plan))

    def _charge_quota(self, unit: Unit, queue: Queue, pods: Sequence[Tracked], asked: Amounts) -> None:
        self._shares.pop(unit.queue, None)
        add(self.held.setdefault(unit.queue, {}), asked)
        reserved = self._quota_reserved.get(unit.queue)
        if reserved is not None and not ends_by(queue, pods, reserved.at):
            add(reserved.left, {name: n for name, n in asked.items() if name in reserved.left}, -1)

    # Making way.

    def _claim(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Waiting | None:
        """Hold what pods that are leaving will give back, if that suffices."""
        if self._grounds.later is self._grounds.now:
            return None
        found = self._place(self._grounds.later, queue, pods)
        if found is None:
            return None
        self._claim_place(unit, queue, pods, found)
        used, columns = set(found.columns.values()), self.state.nodes.columns
        awaited = [each for each in self._grounds.leaving.values() if columns.get(each.node) in used]
        reason = Reason.WAITING_FOR_RESOURCES
        if any(_is_disrupted(each) or each.uid in self._evicted for each in awaited):
            reason = Reason.WAITING_FOR_VICTIMS
        return Waiting(reason, _awaited_message(awaited))

    def _claim_place(self, unit: Unit, queue: Queue, pods: Sequence[Tracked], found: Placement) -> None:
        self._grounds.claim(found, pods)
        self._charge_quota(unit, queue, pods, asked_by(pods))

    def _preempt(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Waiting | None:
        """Evict the fewest pods of lower queues that make the whole set fit; nobody if nothing does."""
        if not self.policy.preemption:
            return None
        items = self._items(queue, pods)
        if not items:
            return None
        releases = Releases(self.state, items)

        chosen = self._fewest(releases, queue, pods)
        if not chosen:
            return None
        victims = releases.victims(chosen)
        self._evict(unit, victims)
        found = self._place(self._grounds.later, queue, pods)
        assert found is not None
        self._claim_place(unit, queue, pods, found)
        return Waiting(Reason.WAITING_FOR_VICTIMS, _awaited_message(victims))

    def _fewest(self, releases: Releases, queue: Queue, pods: Sequence[Tracked]) -> list[int] | None:
        shape, room = pods[0].shape, self._grounds.later.room
        if all(each.shape is shape for each in pods) and not self._grounds.has_relations(pods):
            mask = self.state.eligible(shape, queue)
            return fewest_alike(releases, room, shape.requests, mask, len(pods))

        def fits(room: Room, gone: frozenset[str]) -> bool:
            return self._place(self._grounds.later_without(room, gone), queue, pods) is not None

        return fewest(releases, room, fits)

    def _items(self, queue: Queue, pods: Sequence[Tracked]) -> list[Item]:
        """What may be taken, as far as it is on nodes that the pods could use."""
        priority = queue.spec.priority
        if priority not in self._takeable:
            self._takeable[priority] = preemptible_items(self.state, priority, self.held, self._going)
        if not self._takeable[priority]:
            return []
        mask = np.zeros(self.state.nodes.room.size, dtype=bool)
        for shape in {each.shape for each in pods}:
            mask |= self.state.eligible(shape, queue)
        columns = self.state.nodes.columns
        return [
            item
            for item in self._takeable[priority]
            if any((column := columns.get(pod.node)) is not None and mask[column] for pod in item.pods)
        ]

    def _evict(self, unit: Unit, victims: Sequence[Tracked]) -> None:
        uids = tuple(each.uid for each in victims)
        self.decisions.evictions.append(Evict(unit.key, uids))
        self._going |= set(uids)
        self._takeable.clear()
        # What did not fit before may fit into what more victims leave.
        self._unfit.clear()
        self._evicted |= set(uids)
        self._grounds.let_go(victims)

    # Waiting.

    def _lacks(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Waiting:
        grounds, reserved = self._grounds, self._grounds.reserved
        if reserved is not None and self._place(grounds.usable(lasting=False), queue, pods) is not None:
            message = f"would delay {reserved.unit.short}, which starts at {_time(reserved.at)} at the latest"
            return Waiting(Reason.WAITING_FOR_RESOURCES, message)
        waiting = why_it_does_not_fit(self.state, queue, pods, grounds.usable(lasting=False).room)
        if waiting.reason is not Reason.DOES_NOT_FIT_ANY_NODE:
            self._reserve(unit, queue, pods)
        if grounds.reserved is not None and grounds.reserved.unit == unit.key:
            return msgspec.structs.replace(waiting, earliest_start=grounds.reserved.at)
        return waiting

    def _reserve(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> None:
        """Let nothing that comes later delay the first unit whose start is known."""
        grounds = self._grounds
        if grounds.reserved is not None or not self.policy.backfill or self._tried >= _RESERVATIONS_TRIED:
            return
        self._tried += 1

        def fit(room: Room, gone: frozenset[str]) -> Placement | None:
            return self._place(grounds.later_without(room, gone), queue, pods)

        found = reserve_nodes(self.state, unit.key, self._known_ends(), grounds.later.room, fit)
        if found is not None:
            grounds.reserve(found)


def _is_disrupted(tracked: Tracked) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" for each in tracked.pod.status.conditions
    )


def _awaited_message(pods: Sequence[Tracked]) -> str:
    names = [each.pod.metadata.name for each in pods]
    more = f" and {len(names) - _NAMED_VICTIMS} more" if len(names) > _NAMED_VICTIMS else ""
    verb = "has" if len(names) == 1 else "have"
    return f"starts when {', '.join(names[:_NAMED_VICTIMS])}{more} {verb} ended"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
