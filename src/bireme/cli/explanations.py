"""Explanations of the scheduler in words."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bireme.scheduling.reasons import (
    AddMembers,
    AddNodes,
    AskForNone,
    AskLess,
    AwaitEnd,
    CreateGroup,
    CreateQueue,
    Explanation,
    GrowNode,
    LabelNode,
    OpenQueue,
    Permit,
    RaiseQuota,
    Remedy,
    Repair,
    RepairSelector,
    WriteProfile,
)
from bireme.scheduling.requests import write_amounts

_NAMED = 8


def tell(explanation: Explanation, home: str) -> list[str]:
    """The reason's word, then all that is known, one fact a line. `home` is the scheduler's namespace."""
    lines = [explanation.reason.value, f"  {explanation.message}"]
    lines.append(f"  position {explanation.position} in queue {explanation.queue}")
    if explanation.earliest_start is not None:
        lines.append(f"  starts by {explanation.earliest_start:%Y-%m-%dT%H:%M:%SZ}")
    if explanation.holders:
        lines.append("  held by:")
        lines += [f"    {name}: {_amounts(held)}" for name, held in explanation.holders]
    if explanation.remedies:
        lines.append("  what would help:")
        lines += [f"    {remedy_text(each, home)}" for each in explanation.remedies]
    return lines


def remedy_text(remedy: Remedy, home: str) -> str:
    """What somebody can do, in one sentence."""
    if isinstance(remedy, WriteProfile):
        return _write_profile(remedy, home)
    return _TEXTS[type(remedy)](remedy)


def _ask_less(remedy: AskLess) -> str:
    most = _amounts(remedy.most)
    return f"ask for at most {most} per pod, or let the shape profile {remedy.profile} allow more"


def _write_profile(remedy: WriteProfile, home: str) -> str:
    most = ", ".join(f"{name}: {amount}" for name, amount in write_amounts(remedy.most).items())
    patch = f"""'{{"data": {{"{remedy.profile}": "{{{most}}}"}}}}'"""
    return (
        f"write the key {remedy.profile} of the ConfigMap resource-shapes in namespace {home}, such as"
        f" `kubectl -n {home} patch configmap resource-shapes --type=merge -p {patch}`"
        f" (`kubectl -n {home} create configmap resource-shapes` makes it),"
        f" or take resourceShapeProfile out of queue {remedy.queue}"
    )


def _add_members(remedy: AddMembers) -> str:
    roles = sorted(remedy.roles.items())
    parts = [f"{count} of role {role}" if role else str(count) for role, count in roles]
    return f"create {' and '.join(parts)} more {'pod' if sum(remedy.roles.values()) == 1 else 'pods'}"


def _add_nodes(remedy: AddNodes) -> str:
    each = _amounts(remedy.allocatable)
    if remedy.count == 1:
        return f"add 1 node with at least {each}, which its rules let in"
    return f"add {remedy.count} nodes with at least {each} each, which its rules let in"


def _grow_node(remedy: GrowNode) -> str:
    """This machine gets no neighbours, but how much CPU and memory it offers is its user's choice."""
    options = " ".join(f"--{name} {amount}" for name, amount in write_amounts(remedy.allocatable).items())
    return f"ask for less, or let this machine offer more: `bireme down`, then `bireme up {options}`"


def _label_node(remedy: LabelNode) -> str:
    labels = " ".join(f"{key}={value}" for key, value in sorted(remedy.labels.items()))
    return (
        f"give this machine's node the labels: `kubectl label --overwrite node {remedy.node} {labels}`,"
        " or change the nodeSelector that asks for them"
    )


def _await_end(remedy: AwaitEnd) -> str:
    named, more = remedy.pods[:_NAMED], len(remedy.pods) - _NAMED
    return f"wait for the end of {', '.join(named)}" + (f" and {more} more" if more > 0 else "")


_TEXTS: Final[dict[type[Remedy], Callable[[Any], str]]] = {
    CreateQueue: lambda it: f"create queue {it.queue}, or name another one",
    CreateGroup: lambda it: f"create PodGroup {it.namespace}/{it.name}",
    OpenQueue: lambda it: f"open queue {it.queue} (spec.closed: false)",
    Permit: lambda it: f"let queue {it.queue} select namespace {it.namespace} (spec.namespaceSelector)",
    RepairSelector: lambda it: f"write a {it.field} of queue {it.queue} that can be read: {it.problem}",
    RaiseQuota: lambda it: f"raise the quota of queue {it.queue} to {_amounts(it.requests)}",
    AskLess: _ask_less,
    Repair: lambda it: f"change pod {it.pod}: {it.problem}",
    AddMembers: _add_members,
    AddNodes: _add_nodes,
    LabelNode: _label_node,
    GrowNode: _grow_node,
    AskForNone: lambda it: f"ask for less of {', '.join(it.resources)}: this machine has no more",
    AwaitEnd: _await_end,
}


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in write_amounts(amounts).items())
