"""Whose turn it is."""

from collections.abc import Mapping
from fractions import Fraction

from bireme.api.scheduler import Queue
from bireme.scheduling.requests import PODS, Amounts, read_available
from bireme.scheduling.state import State
from bireme.scheduling.units import Unit


def quota(queue: Queue) -> Amounts | None:
    """The most of each resource that a queue may hold; None without a quota."""
    if queue.spec.quota is None or not queue.spec.quota.requests:
        return None
    return read_available(queue.spec.quota.requests)


def dominant_share(held: Mapping[str, int], limits: Mapping[str, int]) -> Fraction:
    """The largest share of any limit; more than all of nothing counts as all."""
    shares = [
        Fraction(held.get(name, 0), limit) if limit > 0 else Fraction(int(held.get(name, 0) > 0))
        for name, limit in limits.items()
        if name != PODS
    ]
    return max(shares, default=Fraction(0))


def limits(state: State, queue: Queue) -> Amounts:
    """What a queue's share is measured by: its quota, or all that its nodes have."""
    own = quota(queue)
    if own is not None:
        return own
    mask = state.nodes.selected(queue.metadata.name, queue.spec.node_selector)
    return state.nodes.whole.sum(mask, list(state.nodes.whole.free))


def turn(unit: Unit) -> tuple[object, ...]:
    """The order of units inside a queue: priority, then age."""
    return (-unit.spec.priority, unit.created, unit.key)
