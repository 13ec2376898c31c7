"""What holds for the scheduler on any cluster."""

import itertools
import os
from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.scheduling import Policy, State, schedule
from bireme.scheduling.decisions import Decisions
from bireme.scheduling.durations import longest
from bireme.scheduling.explain import explain
from bireme.scheduling.placement import place
from bireme.scheduling.reasons import Reason
from bireme.scheduling.remedies import apply
from bireme.scheduling.shares import quota
from bireme.scheduling.units import Key, lacking, standing
from bireme.scheduling.victims import Item, Releases, fewest, fewest_alike, preemptible_items
from support.scheduling import NOW, Cluster, node, queue

EXAMPLES = 50_000 if os.environ.get("BIREME_LONG") else 150
_MINUTES = 60
_EXPLAINED = 200
"""So many groups that wait have to be told what helps them, and be helped."""
_OPEN_TO_ALL = ("q0", "q1", "q2")

Step = tuple[str, Any]

_asks = st.fixed_dictionaries({"cpu": st.integers(1, 4)}, optional={"gpu": st.integers(1, 2)})
_queues = st.tuples(
    *(
        st.fixed_dictionaries(
            {"priority": st.integers(0, 2)},
            optional={
                "quota": st.fixed_dictionaries({"cpu": st.integers(1, 8)}),
                "preemptible": st.booleans(),
                "maxDuration": st.sampled_from(["10m", "1h", "0"]),
                "closed": st.just(True),
            },
        )
        for _ in _OPEN_TO_ALL
    )
)
_nodes = st.lists(
    st.fixed_dictionaries({"cpu": st.integers(1, 8)}, optional={"gpu": st.integers(1, 4)}),
    min_size=1,
    max_size=4,
)
_submit = st.tuples(
    st.just("submit"),
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from(_OPEN_TO_ALL),
            "pods": st.integers(1, 4),
            "priority": st.integers(0, 2),
            "surplus": st.integers(0, 1),
            "asks": _asks,
        }
    ),
)
_end = st.tuples(st.just("end"), st.integers(0, 20))
_leave = st.tuples(st.just("leave"), st.integers(0, 20))
_wait = st.tuples(st.just("wait"), st.integers(1, 30))
_node_gone = st.tuples(st.just("node"), st.integers(0, 3))
_steps = st.lists(st.one_of(_submit, _submit, _end, _leave, _wait, _node_gone), min_size=1, max_size=14)


class World(Cluster):
    """A cluster that lives: pods come, end and leave, nodes come back."""

    def __init__(
        self, nodes: list[dict[str, int]], queues: tuple[dict[str, Any], ...], policy: Policy
    ) -> None:
        made = [node(f"n{number}", **has) for number, has in enumerate(nodes)]
        self.made = made
        specs = [
            queue(name, each.get("quota"), **{key: value for key, value in each.items() if key != "quota"})
            for name, each in zip(_OPEN_TO_ALL, queues, strict=True)
        ]
        super().__init__(*made, queues=tuple(specs), policy=policy)
        self.count = 0

    def step(self, step: Step) -> None:
        sort, what = step
        if sort == "submit":
            self.count += 1
            least = max(1, what["pods"] - what["surplus"])
            options = {"least": least, "priority": what["priority"], **what["asks"]}
            self.submit(f"g{self.count}", what["queue"], what["pods"], **options)
        elif sort == "wait":
            self.now += timedelta(minutes=what)
        elif sort == "node":
            self._toggle(self.made[what % len(self.made)])
        else:
            self._end(what, leaves=sort == "leave")

    def _toggle(self, one: Any) -> None:
        if one.metadata.name in self.state.nodes.columns:
            self.state.remove_node(one.metadata.name)
            for uid in [uid for uid, each in self.state.pods.items() if each.node == one.metadata.name]:
                self.state.remove_pod(uid)
        else:
            self.state.put_node(one)

    def _end(self, number: int, *, leaves: bool) -> None:
        held = sorted(uid for uid, each in self.state.pods.items() if each.holds and not each.leaving)
        if held:
            uid = held[number % len(held)]
            self.terminate(uid) if leaves else self.finish(uid)


def _rebuilt(world: World) -> State:
    """The same cluster, told in another order."""
    other = State()
    for tracked in sorted(world.state.pods.values(), key=lambda each: each.uid, reverse=True):
        other.put_pod(tracked.pod)
    for unit in world.state.units.values():
        if unit.group is not None:
            other.put_group(unit.group)
    for one in reversed(world.state.queues.values()):
        other.put_queue(one)
    for each in reversed([each for each in world.state.nodes.by_column if each is not None]):
        other.put_node(each)
    other.namespaces = dict(world.state.namespaces)
    return other


def _check_limits(world: World, decisions: Decisions, before: dict[str, int]) -> None:
    """No node and no quota is exceeded by a start."""
    started = {each.unit.short for each in decisions.starts}
    for name, column in world.state.nodes.columns.items():
        for resource, row in world.state.nodes.room.free.items():
            assert row[column] >= 0, (name, resource, started)
    for name, one in world.state.queues.items():
        most = quota(one)
        if most is not None and any(world.state.units[each.unit].queue == name for each in decisions.starts):
            assert world.state.held[name].get("cpu", 0) <= most["cpu"]
    assert before is not None


def _check_whole(world: World, decisions: Decisions) -> None:
    """After its start a group has its minimum."""
    for start in decisions.starts:
        unit = world.state.units[start.unit]
        assert len(unit.settled()) >= unit.spec.min_member


def _check_evictions(world: World, decisions: Decisions) -> None:
    """Victims are of lower and preemptible queues, and the group fits once they have gone."""
    for evict in decisions.evictions:
        taker = world.state.queues[world.state.units[evict.unit].queue]
        for uid in evict.pods:
            key = world.state.pods[uid].key
            assert key is not None
            giver = world.state.queues[world.state.units[key].queue]
            assert giver.spec.priority < taker.spec.priority
            assert giver.spec.is_preemptible
    _check_victims_are_whole(world, {uid for evict in decisions.evictions for uid in evict.pods})


def _check_victims_are_whole(world: World, gone: set[str]) -> None:
    """Of a group that gives up pods nothing runs on, or it still has its minimum."""
    for key in {world.state.pods[uid].key for uid in gone}:
        assert key is not None
        unit = world.state.units[key]
        staying = [each for each in unit.settled() if each.uid not in gone]
        assert not any(each.holds for each in staying) or lacking(unit, staying)[0] == 0


def _check_work_conserving(world: World, decisions: Decisions) -> None:
    """What waits for resources with nobody ahead does not fit."""
    waiting = [key for key, each in decisions.waiting.items() if each.reason in _FOR_ROOM]
    if not waiting or decisions.starts or world.state.leaving() or decisions.evictions:
        return
    first = waiting[0]
    unit = world.state.units[first]
    members = [each.member for each in standing(unit).first]
    eligible = world.state.eligible_for(world.state.queues[unit.queue])
    assert place(world.state.ground(), members, eligible) is None


_FOR_ROOM = (Reason.WAITING_FOR_RESOURCES, Reason.FRAGMENTED, Reason.DOES_NOT_FIT_ANY_NODE)


@settings(max_examples=EXAMPLES, deadline=None)
@given(_nodes, _queues, _steps, st.booleans(), st.integers(1, 4))
def test_any_history_keeps_every_rule(
    nodes: list[dict[str, int]],
    queues: tuple[dict[str, Any], ...],
    steps: list[Step],
    preemption: bool,
    at_once: int,
) -> None:
    world = World(nodes, queues, Policy(preemption=preemption))
    for number in range(0, len(steps), at_once):
        for step in steps[number : number + at_once]:
            world.step(step)
        for _ in range(30):
            decisions = world.round()
            assert decisions == schedule(_rebuilt(world), world.policy, world.now)
            _check_evictions(world, decisions)
            _check_work_conserving(world, decisions)
            if not (decisions.starts or decisions.evictions or decisions.expirations):
                break
            before = dict(world.state.held.get("q0", {}))
            world.carry_out(decisions)
            _check_limits(world, decisions, before)
            _check_whole(world, decisions)
        else:
            pytest.fail("the scheduler does not come to rest: somebody is evicted in a circle")
        assert world.state.view() == _rebuilt(world).view()
        _check_order(world, decisions)


def _check_order(world: World, decisions: Decisions) -> None:
    """At rest, nothing that waits could start by going before those that wait ahead of it."""
    if any(longest(each) for each in world.state.queues.values()):
        return
    for key, waiting in decisions.waiting.items():
        if waiting.reason in (Reason.WAITING_FOR_RESOURCES, Reason.FRAGMENTED):
            unit = world.state.units[key]
            members = [each.member for each in standing(unit).first]
            eligible = world.state.eligible_for(world.state.queues[unit.queue])
            if not world.state.leaving():
                assert place(world.state.ground(), members, eligible) is None


# Victims.

_running = st.lists(
    st.tuples(st.sampled_from(_OPEN_TO_ALL[:2]), st.integers(1, 3), st.integers(0, 1), st.integers(1, 3)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(_nodes, _running, st.integers(1, 3), st.integers(1, 4))
def test_victims_are_the_least_protected_set_that_suffices(
    nodes: list[dict[str, int]], running: list[tuple[str, int, int, int]], pods: int, cpu: int
) -> None:
    queues = tuple({"priority": number} for number in range(3))
    world = World(nodes, queues, Policy())
    for number, (name, count, surplus, asks) in enumerate(running):
        world.submit(f"r{number}", name, count, least=max(1, count - surplus), cpu=asks)
    world.settle()
    key = world.submit("new", "q2", pods, cpu=cpu)
    members = [each.member for each in standing(world.state.units[key]).first]
    eligible = world.state.eligible_for(world.state.queues["q2"])
    items = preemptible_items(world.state, 2, world.state.held, set())
    releases = Releases(world.state, items)
    room = world.state.nodes.room

    def suffices(numbers: tuple[int, ...]) -> bool:
        chosen = Releases(world.state, [Item(tuple(releases.pods(numbers)))])
        ground = world.state.ground().with_room(chosen.freed(room, 1))
        return place(ground, members, eligible) is not None

    best = _brute_force(len(items), suffices, partial(_is_closed, items))
    shape = members[0].shape
    mask = world.state.eligible(shape, world.state.queues["q2"])
    assert fewest_alike(releases, room, shape.requests, mask, pods) == best

    def fits(after: Any, _gone: frozenset[str]) -> bool:
        return place(world.state.ground().with_room(after), members, eligible) is not None

    assert fewest(releases, room, fits) == best


def _is_closed(items: list[Item], numbers: tuple[int, ...]) -> bool:
    """Whether what goes with each item goes, too."""
    gone = {pod.uid for number in numbers for pod in items[number].pods}
    return all(pod.uid in gone for number in numbers for pod in items[number].rest)


def _brute_force(count: int, suffices: Any, may_go: Any) -> list[int] | None:
    """Of all sets that suffice, the one that spares the most protected first."""
    good = [
        numbers
        for size in range(count + 1)
        for numbers in itertools.combinations(range(count), size)
        if may_go(numbers) and suffices(numbers)
    ]
    if not good:
        return None
    return list(min(good, key=lambda numbers: sorted(numbers, reverse=True)))


# Explanations.


def test_what_is_said_to_help_does() -> None:
    waiting = 0

    @settings(max_examples=5_000 if EXAMPLES > 5_000 else 700, deadline=None)
    @given(_nodes, _queues, _steps)
    def check(nodes: list[dict[str, int]], queues: tuple[dict[str, Any], ...], steps: list[Step]) -> None:
        nonlocal waiting
        world = World(nodes, queues, Policy())
        for step in steps:
            world.step(step)
            world.settle()
        decisions = world.round()
        for key in decisions.waiting:
            _check_remedies(world, nodes, queues, decisions, key)
        waiting += len(decisions.waiting)

    check()
    assert waiting >= _EXPLAINED


def _check_remedies(
    world: World,
    nodes: list[dict[str, int]],
    queues: tuple[dict[str, Any], ...],
    decisions: Decisions,
    key: Key,
) -> None:
    """What is told to help one that waits is done to a copy of the cluster: there, it starts."""
    explanation = explain(world.state, world.policy, world.now, decisions, key)
    assert explanation is not None
    other = World(nodes, queues, world.policy)
    other.state, other.now = world.state.copy(), world.now
    for remedy in explanation.remedies:
        assert apply(remedy, other.state, other.state.units[key]), remedy
    before = set(other.state.units[key].pods)
    for _ in range(30):
        decided = other.round()
        other.carry_out(decided)
        if any(start.unit == key for start in decided.starts):
            return
    pytest.fail(f"{explanation.reason}: {explanation.remedies} do not help, {before}")


@settings(max_examples=EXAMPLES, deadline=None)
@given(_nodes, _queues, _steps)
def test_a_share_never_passes_what_a_quota_allows(
    nodes: list[dict[str, int]], queues: tuple[dict[str, Any], ...], steps: list[Step]
) -> None:
    world = World(nodes, queues, Policy())
    for step in steps:
        world.step(step)
        world.settle()
        for name, one in world.state.queues.items():
            most = quota(one)
            held = world.state.held.get(name, {}).get("cpu", 0)
            assert most is None or Fraction(held, most["cpu"]) <= 1


def test_equal_snapshots_give_equal_decisions_in_bytes() -> None:
    def decide() -> bytes:
        world = World([{"cpu": 4}] * 3, ({"priority": 1}, {"priority": 1}, {"priority": 2}), Policy())
        for number in range(6):
            world.submit(f"g{number}", _OPEN_TO_ALL[number % 3], 2, cpu=1)
        return msgspec.json.encode([msgspec.to_builtins(world.round().starts), NOW])

    assert decide() == decide()
