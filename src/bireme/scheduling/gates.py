"""What keeps a unit from being placed before any node is looked at."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bireme.api.scheduler import GROUP_LABEL, Queue
from bireme.scheduling.labels import selector_problem, selects
from bireme.scheduling.policy import Policy
from bireme.scheduling.reasons import (
    AddMembers,
    AskLess,
    CreateGroup,
    CreateQueue,
    OpenQueue,
    Permit,
    RaiseQuota,
    Reason,
    Remedy,
    Repair,
    RepairSelector,
    Shortage,
    Waiting,
    WriteProfile,
)
from bireme.scheduling.requests import PODS, show, total
from bireme.scheduling.shares import quota, unreadable_quota
from bireme.scheduling.state import State
from bireme.scheduling.storage import Unusable
from bireme.scheduling.units import Standing, Tracked, asked_by, lacking


class Refusal(NamedTuple):
    """A closed gate, and what opens it."""

    waiting: Waiting
    remedy: Remedy


def closed_gates(state: State, policy: Policy, standing: Standing) -> Iterator[Refusal]:
    """Every gate that is closed for the unit, in the order in which they are told."""
    name = standing.unit.queue
    queue = state.queues.get(name)
    if queue is None:
        message = f"queue {name} does not exist"
        yield Refusal(Waiting(Reason.MISCONFIGURED, message), CreateQueue(name))
        return
    for gate in _GATES:
        yield from gate(state, policy, standing, queue)


def _configuration(state: State, policy: Policy, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    key = standing.unit.key
    if key.group and standing.unit.group is None:
        message = f"PodGroup {key.group}, which the pods' label {GROUP_LABEL} names, does not exist"
        yield Refusal(Waiting(Reason.MISCONFIGURED, message), CreateGroup(key.namespace, key.group))
    yield from _selectors(policy, standing, queue)
    for name in unreadable_quota(queue):
        message = f"queue {standing.unit.queue}: its quota of {name} is not a quantity"
        remedy = RaiseQuota(standing.unit.queue, {name: standing.asked.get(name, 0)})
        yield Refusal(Waiting(Reason.MISCONFIGURED, message), remedy)
    for tracked in standing.waiting:
        problem = "" if tracked.plain else _problem(state, tracked)
        if problem:
            name = tracked.pod.metadata.name
            yield Refusal(Waiting(Reason.MISCONFIGURED, f"pod {name}: {problem}"), Repair(name, problem))
            return
    yield from _shape_profile(state, standing, queue)


def _selectors(policy: Policy, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    """Refuse queues whose selectors cannot be read; without permissions, nodeSelector alone matters."""
    selectors = {"nodeSelector": queue.spec.node_selector}
    if policy.permissions:
        selectors["namespaceSelector"] = queue.spec.namespace_selector
    name = standing.unit.queue
    for field, selector in selectors.items():
        problem = selector_problem(selector) if selector is not None else ""
        if problem:
            message = f"queue {name}: its {field} cannot be read and selects nothing: {problem}"
            yield Refusal(Waiting(Reason.MISCONFIGURED, message), RepairSelector(name, field, problem))


def _problem(state: State, tracked: Tracked) -> str:
    if tracked.pod.spec.resource_claims:
        return "resource claims can't be used with a queue"
    if tracked.shape.excess:
        return tracked.shape.excess
    namespace, *claims = tracked.shape.claims
    state.work.spend(len(claims))
    for name in claims:
        reach = state.storage.reach(namespace, name)
        if isinstance(reach, Unusable):
            return reach.message
    return ""


def _shape_profile(state: State, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    profile = queue.spec.resource_shape_profile
    if not profile:
        return
    most = state.profiles.most.get(profile)
    if most is None:
        is_there = profile in state.profiles.unreadable
        what = "can't be read: its value is not a map of quantities" if is_there else "is missing"
        message = f"the key {profile} of the ConfigMap resource-shapes, the queue's shape profile, {what}"
        remedy = WriteProfile(standing.unit.queue, profile, _largest(standing))
        yield Refusal(Waiting(Reason.MISCONFIGURED, message), remedy)
        return
    for tracked in standing.waiting:
        requests = tracked.shape.requests
        over = {name: n for name, n in most.items() if requests.get(name, 0) > n}
        if over:
            asked = _compare({name: requests[name] for name in over}, over, "at most")
            name = tracked.pod.metadata.name
            message = f"pod {name} asks for more than the shape profile {profile} allows: {asked}"
            yield Refusal(Waiting(Reason.MISCONFIGURED, message), AskLess(profile, over))
            return


def _largest(standing: Standing) -> dict[str, int]:
    """The most of each resource that one of the waiting pods asks for."""
    most: dict[str, int] = {}
    for tracked in standing.waiting:
        for name, amount in tracked.shape.requests.items():
            most[name] = max(most.get(name, 0), amount)
    return {name: amount for name, amount in most.items() if name != PODS}


def _open(_state: State, _policy: Policy, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    if queue.spec.closed:
        name = standing.unit.queue
        message = f"queue {name} is closed: it starts nothing new"
        yield Refusal(Waiting(Reason.QUEUE_CLOSED, message), OpenQueue(name))


def _permission(state: State, policy: Policy, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    unit, namespace = standing.unit, standing.unit.key.namespace
    if not policy.permissions:
        return
    if not selects(queue.spec.namespace_selector, state.namespaces.get(namespace, {})):
        message = f"queue {unit.queue}: its namespaceSelector does not select namespace {namespace}"
        yield Refusal(Waiting(Reason.NOT_PERMITTED, message), Permit(unit.queue, namespace))


def _quota_ever(_state: State, _policy: Policy, standing: Standing, queue: Queue) -> Iterator[Refusal]:
    most = quota(queue)
    if most is None:
        return
    # Pods that are leaving give back what they hold: a job is not larger for being replaced.
    staying = asked_by(standing.unit.running()) if standing.unit.held else {}
    whole = total([staying, standing.asked])
    over = {name: whole[name] for name, limit in most.items() if whole.get(name, 0) > limit}
    if over:
        name = standing.unit.queue
        message = f"asks for more than the whole quota of queue {name}: {_compare(over, most, 'quota')}"
        shortages = tuple(Shortage(each, n, most[each]) for each, n in sorted(over.items()))
        yield Refusal(Waiting(Reason.EXCEEDS_QUOTA_EVER, message, shortages), RaiseQuota(name, over))


def _members(_state: State, _policy: Policy, standing: Standing, _queue: Queue) -> Iterator[Refusal]:
    if standing.first:
        return
    unit, present = standing.unit, [*standing.settled, *standing.waiting]
    missing, roles = lacking(unit, present)
    if not missing:
        return
    any_role = missing - sum(roles.values())
    wanted = roles | ({"": any_role} if any_role else {})
    of_roles = ", ".join(f"{count} of role {role}" for role, count in sorted(roles.items()))
    members = "1 member" if unit.spec.min_member == 1 else f"{unit.spec.min_member} members"
    message = f"has {len(present)} of {members}" + (f"; lacks {of_roles}" if roles else "")
    yield Refusal(Waiting(Reason.INSUFFICIENT_MEMBERS, message), AddMembers(wanted))


_Gate = Callable[[State, Policy, Standing, Queue], Iterator[Refusal]]
_GATES: tuple[_Gate, ...] = (_configuration, _open, _permission, _quota_ever, _members)


def over_quota(queue: Queue, held: Mapping[str, int], asked: Mapping[str, int]) -> tuple[Shortage, ...]:
    """By what a queue would pass its quota, if so much came to what it holds."""
    return tuple(
        Shortage(name, asked[name], max(0, limit - held.get(name, 0)))
        for name, limit in sorted((quota(queue) or {}).items())
        if asked.get(name, 0) and held.get(name, 0) + asked[name] > limit
    )


def quota_message(queue: str, shortages: tuple[Shortage, ...]) -> str:
    parts = ", ".join(
        f"asks for {show(each.resource, each.asked)} of {each.resource}, "
        f"{show(each.resource, each.free)} left"
        for each in shortages
    )
    return f"the quota of queue {queue} is used: {parts}"


def _compare(over: Mapping[str, int], most: Mapping[str, int], word: str) -> str:
    return ", ".join(
        f"{show(name, n)} of {name} ({word} {show(name, most[name])})" for name, n in sorted(over.items())
    )
