"""A gang's plan while it is being bound: written down before the first pod is bound, gone after the last.

It lives in the PodGroup's status, so that whoever schedules next knows what was begun, and when.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from bireme.api.scheduler import GangBinding
from bireme.scheduling.units import Unit, lacking


def make_plan(nodes: Mapping[str, str], now: datetime) -> GangBinding:
    """The plan for pods, by name, and their nodes."""
    by_node: dict[str, list[str]] = {}
    for pod, node in nodes.items():
        by_node.setdefault(node, []).append(pod)
    return GangBinding(since=now, nodes={node: tuple(pods) for node, pods in by_node.items()})


def begun(unit: Unit) -> GangBinding | None:
    """The plan of a unit that is bound in part only."""
    status = unit.group.status if unit.group is not None else None
    plan = status.binding if status is not None else None
    if plan is None or not any(each.node and not each.leaving for each in unit.pods.values()):
        return None
    return plan if lacking(unit, unit.settled())[0] else None


def overdue(plan: GangBinding, now: datetime, seconds: int) -> bool:
    return now >= plan.since + timedelta(seconds=seconds)
