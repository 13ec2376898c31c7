"""`bireme simulate`: would a job start now, where, and at whose expense."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from bireme.cli.failures import Failure, say
from bireme.cli.output import echo
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of

if TYPE_CHECKING:
    from bireme.run.queues import Visible
    from bireme.scheduling import State
    from bireme.scheduling.units import Key

STARTS, WAITS, UNKNOWN = 0, 1, 3
"""Exit statuses."""


@click.command()
@click.option("-f", "--filename", "file", metavar="FILE|-", required=True, help="A queued job.")
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(file: str, home: str | None, asked: Asked) -> None:
    """Say whether a queued job would start now, on which nodes, and what would have to make way.

    Nothing is created. Exit status: 0 if it would start now or after an eviction, 1 if it would wait, 3 if
    that can't be told because you may not read nodes and the pods of all namespaces.
    """
    code, lines = run(_simulate(choose(asked), asked.namespace, file, home))
    for line in lines:
        echo(line)
    raise SystemExit(code)


async def _simulate(
    target: Target, namespace: str | None, file: str, home: str | None
) -> tuple[int, list[str]]:
    from bireme.kube.errors import Forbidden
    from bireme.run.queues import load_visible

    async with connected(target, namespace) as connection:
        now = datetime.now(UTC)  # noqa: TID251 - a command asks the clock
        made = _objects(file, connection.namespace, now)
        try:
            return await _decide(connection, made, home, now)
        except Forbidden:
            return _decide_by_queue(await load_visible(connection.client, connection.namespace), made)


def _objects(file: str, namespace: str, now: datetime) -> list[dict[str, Any]]:
    """What the controller would create for the one job of the file."""
    from bireme.cli.render import render_file

    objects = render_file(file, namespace)
    groups = [each for each in objects if each["kind"] == "PodGroup"]
    if len(groups) != 1:
        hint = "set spec.scheduler.t9kScheduler.queue"
        raise Failure(f"{file}: {len(groups) or 'no'} queued jobs, where there must be one", hint)
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for number, each in enumerate(objects):
        each["metadata"] |= {"uid": f"simulated-{number}", "creationTimestamp": stamp, "namespace": namespace}
    return objects


async def _decide(
    connection: Connection, objects: list[dict[str, Any]], home: str | None, now: datetime
) -> tuple[int, list[str]]:
    from bireme.cli.explanations import tell
    from bireme.run.queues import load_state
    from bireme.scheduling import schedule
    from bireme.scheduling.explain import explain

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    key = _add(state, objects)
    policy = scheduler.policy
    decisions = schedule(state, policy, now)
    names = {uid: tracked.pod.metadata.name for uid, tracked in state.pods.items()}
    for start in decisions.starts:
        if start.unit == key:
            lines = [f"  {names[uid]}: {node}" for uid, node in start.nodes.items()]
            return STARTS, ["starts now", *lines]
    for evict in decisions.evictions:
        if evict.unit == key:
            return STARTS, ["starts after evicting", *(f"  {names[uid]}" for uid in evict.pods)]
    explanation = explain(state, policy, now, decisions, key, may_add_nodes=connection.target.daemon is None)
    assert explanation is not None
    return WAITS, tell(explanation, scheduler.home)


def _add(state: "State", objects: list[dict[str, Any]]) -> "Key":
    """Let a group and its pods be there. Raises Failure if a group of that name is there already."""
    from bireme.run.queues import decode_group, decode_pod
    from bireme.scheduling.units import Key

    group = next(each for each in objects if each["kind"] == "PodGroup")
    key = Key(group["metadata"]["namespace"], group["metadata"]["name"])
    if key in state.units:
        raise Failure(f"{key.short} is there already", "`bireme why` says what it waits for")
    state.put_group(decode_group(group))
    for each in objects:
        if each["kind"] == "Pod":
            state.put_pod(decode_pod(each))
    return key


def _decide_by_queue(visible: "Visible", objects: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Decide what a queue alone decides: whether it is there and open, and whether its quota has room."""
    import msgspec

    from bireme.scheduling import Policy, State
    from bireme.scheduling.gates import closed_gates, over_quota, quota_message
    from bireme.scheduling.reasons import Reason

    say("nodes and the pods of other namespaces may not be read: whether there is room can't be told")
    state = State()
    # Claims and shape profiles may not be read either: they are left out of what is decided.
    state.storage.is_local = True
    for each in visible.queues:
        spec = msgspec.structs.replace(each.spec, resource_shape_profile="")
        state.put_queue(msgspec.structs.replace(each, spec=spec))
    for group in visible.groups:
        state.put_group(group)
    unit = state.units[_add(state, objects)]
    standing = unit.standing()
    refusal = next(closed_gates(state, Policy(permissions=False), standing), None)
    if refusal is not None:
        return WAITS, [refusal.waiting.reason.value, f"  {refusal.waiting.message}"]
    queue = state.queues[unit.queue]
    short = over_quota(queue, visible.held(queue), standing.asked)
    if short:
        return WAITS, [Reason.WAITING_FOR_QUOTA.value, f"  {quota_message(unit.queue, short)}"]
    return UNKNOWN, [f"queue {unit.queue} lets it start, if nodes have room and nobody is ahead of it"]
