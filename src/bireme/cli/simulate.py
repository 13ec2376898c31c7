"""`bireme simulate`: would a job start now, where, and at whose expense."""

from datetime import UTC, datetime
from typing import Any

import click

from bireme.cli.failures import Failure
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of


@click.command()
@click.option("-f", "--filename", "file", metavar="FILE|-", required=True, help="A queued job.")
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(file: str, home: str | None, asked: Asked) -> None:
    """Say whether a queued job would start now, on which nodes, and what would have to make way.

    Nothing is created. Exit status: 0 if it would start now or after an eviction, 1 if it would wait.
    """
    starts, lines = run(_simulate(choose(asked), asked.namespace, file, home))
    for line in lines:
        click.echo(line)
    raise SystemExit(0 if starts else 1)


async def _simulate(
    target: Target, namespace: str | None, file: str, home: str | None
) -> tuple[bool, list[str]]:
    async with connected(target, namespace) as connection:
        now = datetime.now(UTC)  # noqa: TID251 - a command asks the clock
        made = _objects(file, connection.namespace, now)
        return await _decide(connection, made, home, now)


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
) -> tuple[bool, list[str]]:
    from bireme.cli.explanations import tell
    from bireme.run.queues import decode_group, decode_pod, load_state
    from bireme.scheduling import schedule
    from bireme.scheduling.explain import explain
    from bireme.scheduling.units import Key

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    group = next(each for each in objects if each["kind"] == "PodGroup")
    key = Key(group["metadata"]["namespace"], group["metadata"]["name"])
    if key in state.units:
        raise Failure(f"{key.short} is there already", "`bireme why` says what it waits for")
    state.put_group(decode_group(group))
    for each in objects:
        if each["kind"] == "Pod":
            state.put_pod(decode_pod(each))
    policy = scheduler.policy
    decisions = schedule(state, policy, now)
    names = {uid: tracked.pod.metadata.name for uid, tracked in state.pods.items()}
    for start in decisions.starts:
        if start.unit == key:
            lines = [f"  {names[uid]}: {node}" for uid, node in start.nodes.items()]
            return True, ["starts now", *lines]
    for evict in decisions.evictions:
        if evict.unit == key:
            return True, ["starts after evicting", *(f"  {names[uid]}" for uid in evict.pods)]
    explanation = explain(state, policy, now, decisions, key)
    assert explanation is not None
    return False, tell(explanation, here=connection.target.daemon is not None)
