"""What remedies do to a cluster: applied to a copy, they show whether they help."""

from functools import singledispatch
from itertools import count
from typing import Any

import msgspec

from bireme.api.scheduler import ROLE_LABEL, PodGroup, PodGroupSpec, Queue, QueueSpec, QuotaRequirements
from bireme.scheduling.objects import Json, Node, Pod, Profiles
from bireme.scheduling.reasons import (
    AddMembers,
    AddNodes,
    AskForNone,
    AskLess,
    AwaitEnd,
    CreateGroup,
    CreateQueue,
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
from bireme.scheduling.shares import quota
from bireme.scheduling.state import State
from bireme.scheduling.units import Unit


@singledispatch
def apply(remedy: Remedy, state: State, unit: Unit) -> bool:  # noqa: ARG001
    """Let the state be as if somebody had done this for the unit; False if that can't be shown."""
    return False


@apply.register
def _(remedy: CreateQueue, state: State, unit: Unit) -> bool:  # noqa: ARG001
    metadata = {"name": remedy.queue}
    state.put_queue(msgspec.convert({"metadata": metadata, "spec": {"namespaceSelector": {}}}, Queue))
    return True


@apply.register
def _(remedy: CreateGroup, state: State, unit: Unit) -> bool:
    first = min(unit.pods.values(), key=lambda each: each.order).pod.metadata
    metadata = msgspec.structs.replace(first, name=remedy.name, namespace=remedy.namespace)
    queue = PodGroupSpec().queue
    state.put_group(PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=len(unit.pods), queue=queue)))
    return True


@apply.register
def _(remedy: OpenQueue, state: State, unit: Unit) -> bool:  # noqa: ARG001
    return _change_queue(state, remedy.queue, closed=False)


@apply.register
def _(remedy: Permit, state: State, unit: Unit) -> bool:  # noqa: ARG001
    return _change_queue(state, remedy.queue, namespace_selector={})


@apply.register
def _(remedy: RepairSelector, state: State, unit: Unit) -> bool:  # noqa: ARG001
    if remedy.field == "nodeSelector":
        return _change_queue(state, remedy.queue, node_selector=None)
    return _change_queue(state, remedy.queue, namespace_selector={})


@apply.register
def _(remedy: RaiseQuota, state: State, unit: Unit) -> bool:  # noqa: ARG001
    most = (quota(state.queues[remedy.queue]) or {}) | remedy.requests
    requests: dict[str, Any] = dict(write_amounts(most))
    return _change_queue(state, remedy.queue, quota=QuotaRequirements(requests=requests))


@apply.register
def _(remedy: AskLess, state: State, unit: Unit) -> bool:  # noqa: ARG001
    """The other half of it: the profile allows more."""
    return all(
        _change_queue(state, name, resource_shape_profile="")
        for name, queue in list(state.queues.items())
        if queue.spec.resource_shape_profile == remedy.profile
    )


@apply.register
def _(remedy: WriteProfile, state: State, unit: Unit) -> bool:  # noqa: ARG001
    known = state.profiles
    state.profiles = Profiles(
        known.most | {remedy.profile: dict(remedy.most)}, known.unreadable - {remedy.profile}
    )
    return True


@apply.register
def _(remedy: Repair, state: State, unit: Unit) -> bool:
    """A pod without the claims that are in its way."""
    for each in list(unit.pods.values()):
        if each.pod.metadata.name == remedy.pod:
            spec = msgspec.structs.replace(each.pod.spec, volumes=(), resource_claims=())
            state.put_pod(msgspec.structs.replace(each.pod, spec=spec))
    return True


def _change_queue(state: State, name: str, **changes: Any) -> bool:
    queue = state.queues[name]
    spec: QueueSpec = msgspec.structs.replace(queue.spec, **changes)
    state.put_queue(msgspec.structs.replace(queue, spec=spec))
    return True


@apply.register
def _(remedy: AddMembers, state: State, unit: Unit) -> bool:
    """More pods like one that is there, of the same role where there is one."""
    model = [each.pod for each in unit.pods.values()]
    if not model:
        return False
    numbers = count(1)
    for role, missing in remedy.roles.items():
        alike = next((each for each in model if each.metadata.labels.get(ROLE_LABEL, "") == role), model[0])
        for _ in range(missing):
            state.put_pod(_another(alike, role, f"added-{next(numbers)}"))
    return True


def _another(pod: Pod, role: str, name: str) -> Pod:
    labels = pod.metadata.labels | ({ROLE_LABEL: role} if role else {})
    uid = f"{pod.metadata.uid}-{name}"
    metadata = msgspec.structs.replace(
        pod.metadata, name=f"{pod.metadata.name}-{name}", uid=uid, labels=labels, deletion_timestamp=None
    )
    spec = msgspec.structs.replace(pod.spec, node_name="", scheduling_gates=())
    return Pod(metadata=metadata, spec=spec)


@apply.register
def _(remedy: AddNodes, state: State, unit: Unit) -> bool:
    queue = state.queues.get(unit.queue)
    selector = (queue.spec.node_selector if queue is not None else None) or {}
    labels: dict[str, str] = dict(selector.get("matchLabels") or {})
    for each in unit.pods.values():
        labels |= each.pod.spec.node_selector
    for number in range(remedy.count):
        name = f"added-{number}"
        own = labels | {"kubernetes.io/hostname": name}
        body = {
            "metadata": {"name": name, "labels": own},
            "status": {"allocatable": write_amounts(remedy.allocatable)},
        }
        state.put_node(msgspec.convert(body, Node))
    return True


@apply.register
def _(remedy: LabelNode, state: State, unit: Unit) -> bool:  # noqa: ARG001
    node = state.nodes.by_column[state.nodes.columns[remedy.node]]
    assert node is not None
    labels = node.metadata.labels | remedy.labels
    metadata = msgspec.structs.replace(node.metadata, labels=labels)
    state.put_node(msgspec.structs.replace(node, metadata=metadata))
    return True


@apply.register
def _(remedy: GrowNode, state: State, unit: Unit) -> bool:  # noqa: ARG001
    node = state.nodes.by_column[state.nodes.columns[remedy.node]]
    assert node is not None
    allocatable = node.status.allocatable | write_amounts(remedy.allocatable)
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    state.put_node(msgspec.structs.replace(node, status=status))
    return True


@apply.register
def _(remedy: AskForNone, state: State, unit: Unit) -> bool:
    for each in list(unit.pods.values()):
        if each.waits:
            containers = tuple(_without(item, remedy.resources) for item in each.pod.spec.containers)
            first = tuple(_without(item, remedy.resources) for item in each.pod.spec.init_containers)
            spec = msgspec.structs.replace(each.pod.spec, containers=containers, init_containers=first)
            state.put_pod(msgspec.structs.replace(each.pod, spec=spec))
    return True


def _without(container: Json, resources: list[str]) -> Json:
    lists = {
        name: {key: value for key, value in amounts.items() if key not in resources}
        for name, amounts in (container.get("resources") or {}).items()
        if isinstance(amounts, dict)
    }
    return {**container, "resources": lists}


@apply.register
def _(remedy: AwaitEnd, state: State, unit: Unit) -> bool:  # noqa: ARG001
    names = set(remedy.pods)
    for uid, each in list(state.pods.items()):
        if each.title in names:
            state.remove_pod(uid)
    return True
