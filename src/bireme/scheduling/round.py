"""One round: what starts, what has to go, and why the rest waits.

A round does a bounded amount of work for each queue (`Policy.steps_per_queue`, see `work`). When a queue has
used it, the round goes on with the other queues. It leaves the rest of the queue to the next round, which
begins at once (`Decisions.backlog`, `Decisions.wake_at`):

- The next round begins with the units of the queue that were not served, so each is served in turn.
- A unit that uses up the whole work of a queue alone waits as TooExpensive, behind all others of its queue.
  It is tried again after 1, 2, 4, … 60 s, one such unit per queue and round, with work of its own.
- A unit that was not served keeps what was found of it before.

Without a backlog, and as long as no queue is cut short, none of this changes a decision.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

import msgspec
import numpy as np

from bireme.api.scheduler import GangBinding, Queue
from bireme.scheduling.backfill import (
    Ahead,
    NodeReservation,
    QuotaReservation,
    ends_by,
    known_ends,
    leaving_ends,
    reserve_nodes,
    reserve_quota,
)
from bireme.scheduling.binding import begun, make_plan, overdue
from bireme.scheduling.decisions import Backlog, Decisions, Evict, Expire, MakeAnew, Retry, Start
from bireme.scheduling.durations import ends
from bireme.scheduling.gates import closed_gates, over_quota, quota_message
from bireme.scheduling.grounds import Grounds
from bireme.scheduling.placement import Ground, Placement, place
from bireme.scheduling.policy import Policy
from bireme.scheduling.reasons import (
    HELD,
    INCOMPLETE,
    NOT_REACHED,
    Reason,
    Waiting,
    show_time,
    too_expensive,
    waits_for,
)
from bireme.scheduling.requests import Amounts, add
from bireme.scheduling.room import Room
from bireme.scheduling.shares import dominant_share, limits, turn
from bireme.scheduling.shortage import why_it_does_not_fit
from bireme.scheduling.state import State
from bireme.scheduling.turns import in_turn
from bireme.scheduling.units import Key, Standing, Tracked, Unit, asked_by, lacking, standing
from bireme.scheduling.victims import Item, Releases, fewest, fewest_alike, preemptible_items
from bireme.scheduling.work import OverBudgetError

# How many units that fit nowhere are asked for a known start, before the round goes on without.
_RESERVATIONS_TRIED = 8
_LONGEST_RETRY_SECONDS = 60


def schedule(
    state: State,
    policy: Policy,
    now: datetime,
    backlog: Backlog = Backlog(),  # noqa: B008 - frozen
) -> Decisions:
    """Decide on everything that waits. The same arguments give the same decisions.

    `backlog` is that of the round before.
    """
    return Round(state, policy, now, backlog).run()


class Round:
    """The ground as the decisions made so far leave it."""

    def __init__(
        self,
        state: State,
        policy: Policy,
        now: datetime,
        backlog: Backlog = Backlog(),  # noqa: B008 - frozen
    ) -> None:
        self.state, self.policy, self.now, self._backlog = state, policy, now, backlog
        self.held: dict[str, Amounts] = {name: dict(amounts) for name, amounts in state.held.items()}
        self.decisions = Decisions([], [], [], [], {})
        self._grounds = Grounds(state)
        self._limits: dict[str, Amounts] = {}
        self._shares: dict[str, Fraction] = {}
        self._tried = 0
        self._ahead: Ahead | None = None
        self._ends: list[tuple[datetime, Tracked]] | None = None
        self._quota_reserved: dict[str, QuotaReservation] = {}
        self._unfit: dict[object, Waiting] = {}
        self._going: set[str] = set(self._grounds.leaving)
        self._completed: set[str] = set()
        self._takeable: dict[int, list[Item]] = {}
        self._evicted: set[str] = set()
        self._wake: list[datetime] = []
        # Steps that were done for each queue.
        self._used: dict[str, int] = {}
        self._served: dict[str, set[Key]] = {}
        self._not_served: dict[str, set[Key]] = {}
        self._expensive: dict[Key, Retry] = {}
        self._retried: set[str] = set()

    def run(self) -> Decisions:
        """Serve every unit once, as long as its queue has work left."""
        self._expire()
        skipped = self._go_on_with_begun()
        for unit in in_turn(self.state, self.share, skipped, self._backlog):
            self._serve_by_budget(unit)
        backlog = self._leave_backlog()
        return msgspec.structs.replace(
            self.decisions,
            waiting=self._in_order() if backlog or self._backlog else self.decisions.waiting,
            wake_at=min(self._wake, default=None),
            backlog=backlog,
        )

    # The work of a queue.

    def _serve_by_budget(self, unit: Unit) -> None:
        retry, most = self._backlog.expensive.get(unit.key), self.policy.steps_per_queue
        if retry is not None:
            if self.now < retry.at or unit.queue in self._retried:
                self._put_off(unit, retry)
                return
            self._retried.add(unit.queue)
        used = 0 if retry is not None else self._used.get(unit.queue, 0)
        if used >= most:
            self._not_served.setdefault(unit.queue, set()).add(unit.key)
            self.decisions.waiting[unit.key] = self._backlog.waiting.get(unit.key, NOT_REACHED)
            return
        starts = len(self.decisions.starts)
        self.state.work.begin(most - used)
        try:
            self._serve(unit)
        except OverBudgetError:
            if used == 0 and len(self.decisions.starts) == starts:
                self._put_off(unit, self._next_retry(retry))
            else:
                self._not_served.setdefault(unit.queue, set()).add(unit.key)
                self.decisions.waiting[unit.key] = self._backlog.waiting.get(unit.key, NOT_REACHED)
        else:
            self._served.setdefault(unit.queue, set()).add(unit.key)
        finally:
            self._used[unit.queue] = self._used.get(unit.queue, 0) + self.state.work.end()

    def _next_retry(self, retry: Retry | None) -> Retry:
        tries = retry.tries + 1 if retry is not None else 1
        seconds = min(2 ** min(tries - 1, 10), _LONGEST_RETRY_SECONDS)
        return Retry(tries, self.now + timedelta(seconds=seconds))

    def _put_off(self, unit: Unit, retry: Retry) -> None:
        self._expensive[unit.key] = retry
        self.decisions.waiting[unit.key] = too_expensive(self.policy.steps_per_queue, retry.at)
        self._wake.append(max(retry.at, self.now))

    def _leave_backlog(self) -> Backlog:
        """Note which queues were cut short; their rest is served in the next round, at once."""
        served: dict[str, frozenset[Key]] = {}
        for queue, missed in self._not_served.items():
            before = self._backlog.served.get(queue, frozenset())
            if missed - before:
                served[queue] = before | self._served.get(queue, frozenset())
        if served:
            self._wake.append(self.now)
        if not self._not_served and not self._expensive:
            return Backlog()
        return Backlog(served, dict(self.decisions.waiting), self._expensive)

    def _in_order(self) -> dict[Key, Waiting]:
        """What waits in the order of a round that serves all: people are told a place in line."""
        units, waiting = self.state.units, self.decisions.waiting
        keys = sorted(waiting, key=lambda key: (key in self._expensive, turn(units[key])))
        return {key: waiting[key] for key in keys}

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
        found = self._place_begun(unit, queue, pods) if queue is not None and pods else None
        if found is not None:
            self._start(unit, pods, asked_by(pods), found, plan)
            # Evicted in the same round, the part that is bound would go, and the rest come.
            self._completed |= set(unit.pods)
            return
        self.decisions.waiting[unit.key] = HELD if pods else INCOMPLETE
        if queue is not None:
            shapes = dict.fromkeys(each.shape for each in pods if not each.shape.excess)
            self._grounds.keep_clear([self.state.eligible(shape, queue) for shape in shapes])

    def _place_begun(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Placement | None:
        """Find a place within the work of the queue; what was begun goes first, and is tried each round."""
        used = self._used.get(unit.queue, 0)
        self.state.work.begin(self.policy.steps_per_queue - used)
        try:
            return self._place(self._grounds.now, queue, pods)
        except OverBudgetError:
            return None
        finally:
            self._used[unit.queue] = used + self.state.work.end()

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
        waiting = self._within_quota(unit, queue, asked)
        if waiting is not None:
            return waiting
        signature = self._signature(queue, pods, evicts=evicts)
        known = self._unfit.get(signature) if signature is not None else None
        if known is not None:
            return known
        lasting = self._lasts(queue)
        found = self._place(self._grounds.usable(lasting=lasting), queue, pods)
        if found is not None:
            self._start(unit, pods, asked, found)
            return None
        waiting = self._claim(unit, queue, pods, lasting=lasting)
        if waiting is None and evicts:
            waiting = self._preempt(unit, queue, pods)
        if waiting is not None:
            return waiting
        waiting = self._lacks(unit, queue, pods)
        if signature is not None:
            self._unfit[signature] = msgspec.structs.replace(waiting, earliest_start=None)
        return waiting

    def _lasts(self, queue: Queue) -> bool:
        """Whether pods that start now may still be there at the start that is reserved."""
        reserved = self._grounds.reserved
        return reserved is None or not ends_by(queue, reserved.at, self.now)

    def _signature(self, queue: Queue, pods: Sequence[Tracked], *, evicts: bool) -> object:
        """Pods of the same signature fit or do not fit alike; None if that can't be told."""
        shapes = {each.shape for each in pods}
        if self._grounds.has_relations(pods):
            return None
        if len(shapes) == 1:
            kinds: object = (pods[0].shape.number, len(pods))
        else:
            kinds = tuple(sorted(Counter(each.shape.number for each in pods).items()))
        return (queue.metadata.name, self._lasts(queue), evicts, kinds)

    def _within_quota(self, unit: Unit, queue: Queue, asked: Amounts) -> Waiting | None:
        name = queue.metadata.name
        held = self.held.get(name, {})
        shortages = over_quota(queue, held, asked)
        reserved = self._quota_reserved.get(name)
        if shortages:
            if reserved is None and self.policy.backfill:
                self._reserve_quota(unit, queue, asked)
            return Waiting(Reason.WAITING_FOR_QUOTA, quota_message(name, shortages), shortages)
        if reserved is None or ends_by(queue, reserved.at, self.now):
            return None
        if all(asked.get(each, 0) <= left for each, left in reserved.left.items() if asked.get(each)):
            return None
        at = show_time(reserved.at)
        message = f"would delay {reserved.unit.short}, whose quota is free at {at} at the latest"
        return Waiting(Reason.WAITING_FOR_QUOTA, message)

    def _reserve_quota(self, unit: Unit, queue: Queue, asked: Amounts) -> None:
        name = queue.metadata.name
        own = [
            (end, each)
            for end, each in [*leaving_ends(self._grounds.leaving.values(), self.now), *self._known_ends()]
            if each.key is not None and self.state.units[each.key].queue == name
        ]
        reservation = reserve_quota(queue, unit.key, own, self.held.get(name, {}), asked)
        if reservation is not None:
            self._quota_reserved[name] = reservation

    def _known_ends(self) -> list[tuple[datetime, Tracked]]:
        if self._ends is None:
            self._ends = known_ends(self.state, self._going)
        return self._ends

    def _place(self, ground: Ground, queue: Queue, pods: Sequence[Tracked]) -> Placement | None:
        if any(each.shape.excess for each in pods):
            return None
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
        self._grounds.start(found, pods, lasting=self._lasts(queue))
        self._charge_quota(unit, queue, asked)
        nodes = {each.uid: self.state.nodes.name(found.columns[each.uid]) for each in pods}
        if plan is None and len(pods) > 1:
            plan = make_plan({each.pod.metadata.name: nodes[each.uid] for each in pods}, self.now)
        self.decisions.starts.append(Start(unit.key, nodes, plan))

    def _charge_quota(self, unit: Unit, queue: Queue, asked: Amounts) -> None:
        self._shares.pop(unit.queue, None)
        add(self.held.setdefault(unit.queue, {}), asked)
        reserved = self._quota_reserved.get(unit.queue)
        if reserved is not None and not ends_by(queue, reserved.at, self.now):
            add(reserved.left, {name: n for name, n in asked.items() if name in reserved.left}, -1)

    # Making way.

    def _claim(self, unit: Unit, queue: Queue, pods: Sequence[Tracked], *, lasting: bool) -> Waiting | None:
        """Hold what pods that are leaving will give back, if that suffices."""
        if self._grounds.later is self._grounds.now:
            return None
        found = self._place(self._grounds.awaited(lasting=lasting), queue, pods)
        if found is None:
            return None
        self._claim_place(unit, queue, pods, found)
        used, columns = set(found.columns.values()), self.state.nodes.columns
        awaited = [each for each in self._grounds.leaving.values() if columns.get(each.node) in used]
        return waits_for(awaited, self._evicted)

    def _claim_place(self, unit: Unit, queue: Queue, pods: Sequence[Tracked], found: Placement) -> None:
        self._grounds.claim(found, pods, lasting=self._lasts(queue))
        self._charge_quota(unit, queue, asked_by(pods))

    def _preempt(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Waiting | None:
        """Evict the fewest pods of lower queues that make the whole set fit; nobody if nothing does."""
        if not self.policy.preemption:
            return None
        items = self._items(queue, pods)
        if not items:
            return None
        victims = self._fewest(items, queue, pods)
        found = self._place_without(victims, queue, pods) if victims else None
        if found is None:
            return None
        self._evict(unit, victims)
        self._claim_place(unit, queue, pods, found)
        return waits_for(victims, self._evicted)

    def _fewest(self, items: Sequence[Item], queue: Queue, pods: Sequence[Tracked]) -> list[Tracked]:
        releases, shape, room = Releases(self.state, items), pods[0].shape, self._grounds.later.room
        if all(each.shape is shape for each in pods) and not self._grounds.has_relations(pods):
            mask = self.state.eligible(shape, queue)
            alike = fewest_alike(releases, room, shape.requests, mask, len(pods))
            victims = releases.victims(alike or ())
            if alike is None or self._ahead is None or self._place_without(victims, queue, pods) is not None:
                return victims

        def fits(room: Room, gone: frozenset[str]) -> bool:
            return self._place_after(room, gone, queue, pods) is not None

        return releases.victims(fewest(releases, room, fits) or ())

    def _place_without(
        self, victims: Sequence[Tracked], queue: Queue, pods: Sequence[Tracked]
    ) -> Placement | None:
        """Where the pods would go with the victims gone."""
        freed = Releases(self.state, [Item(tuple(victims))]).freed(self._grounds.later.room, 1)
        return self._place_after(freed, frozenset(each.uid for each in victims), queue, pods)

    def _place_after(
        self, room: Room, gone: frozenset[str], queue: Queue, pods: Sequence[Tracked]
    ) -> Placement | None:
        """Where the pods would go in this room, once others are gone.

        The unit ahead whose start is known comes first then, too: whom it would keep waiting gains nothing by
        the end of others, and would ask for it again and again.
        """
        ground = self._grounds.later_without(room, gone)
        if self._ahead is not None:
            reserved = self._reservation(self._ahead, room, gone)
            if reserved is None:
                return None
            if not ends_by(queue, reserved.at, self.now):
                ground = ground.with_room(room.least(reserved.room))
        return self._place(ground, queue, pods)

    def _items(self, queue: Queue, pods: Sequence[Tracked]) -> list[Item]:
        """What may be taken, as far as it is on nodes that the pods could use."""
        priority = queue.spec.priority
        if priority not in self._takeable:
            self.state.work.spend(len(self.state.pods) // 4)
            spared = self._going | self._completed
            self._takeable[priority] = preemptible_items(self.state, priority, self.held, spared)
        if not self._takeable[priority]:
            return []
        self.state.work.spend(len(self._takeable[priority]) // 2)
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
        self._ends = None
        # What did not fit before may fit into what more victims leave.
        self._unfit.clear()
        self._evicted |= set(uids)
        with self.state.work.uninterrupted():
            self._grounds.let_go(victims)
            if self._ahead is not None:
                reserved = self._reservation(self._ahead, self._grounds.later.room, frozenset())
                if reserved is not None:
                    self._grounds.reserve(reserved)

    # Waiting.

    def _lacks(self, unit: Unit, queue: Queue, pods: Sequence[Tracked]) -> Waiting:
        grounds, reserved = self._grounds, self._grounds.reserved
        if reserved is not None and self._place(grounds.usable(lasting=False), queue, pods) is not None:
            message = (
                f"would delay {reserved.unit.short}, which starts at {show_time(reserved.at)} at the latest"
            )
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
        ahead = Ahead(unit.key, queue, pods)
        found = self._reservation(ahead, grounds.later.room, frozenset())
        if found is not None:
            self._ahead = ahead
            grounds.reserve(found)

    def _reservation(self, ahead: Ahead, room: Room, gone: frozenset[str]) -> NodeReservation | None:
        """When a unit fits into a room at the latest, with some pods gone and others at their known end."""

        def fit(room: Room, ended: frozenset[str]) -> Placement | None:
            return self._place(self._grounds.later_without(room, gone | ended), ahead.queue, ahead.pods)

        known = [each for each in self._known_ends() if each[1].uid not in gone]
        return reserve_nodes(self.state, ahead.unit, known, room, fit)
