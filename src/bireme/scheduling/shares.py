"""Whose turn it is."""

from collections.abc import Mapping
from fractions import Fraction

from bireme.api.scheduler import Queue
from bireme.scheduling.requests import PODS, Amounts, is_quantity, read_available
from bireme.scheduling.state import State
from bireme.scheduling.units import Unit


def quota(queue: Queue) -> Amounts | None:
    """The most of each resource that a queue may hold, 0 if it can't be read; None without a quota."""
    if queue.spec.quota is None or not queue.spec.quota.requests:
        return None
    unreadable = dict.fromkeys(unreadable_quota(queue), 0)
    return unreadable | read_available(
        {name: text for name, text in queue.spec.quota.requests.items() if name not in unreadable}
    )


def unreadable_quota(queue: Queue) -> list[str]:
    """The resources whose amount is no quantity: nobody may have checked the queue."""
    requests = queue.spec.quota.requests if queue.spec.quota is not None else {}
    return sorted(name for name, text in requests.items() if not is_quantity(text))


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
