"""`bireme why`: what a queued job waits for."""

from datetime import UTC, datetime
from typing import Any

import click

from bireme.cli.failures import Failure, say
from bireme.cli.lookup import find_job
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of

# What is printed for a job that waits for nothing.
_NOT_WAITING = "NotWaiting"


@click.command()
@click.argument("word", metavar="JOB")
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(word: str, home: str | None, asked: Asked) -> None:
    """Say why a queued job waits: one word, the numbers, who holds what it needs, what would help."""
    for line in run(_why(choose(asked), asked.namespace, word, home)):
        click.echo(line)


async def _why(target: Target, namespace: str | None, word: str, home: str | None) -> list[str]:
    async with connected(target, namespace) as connection:
        found = await find_job(connection, word)
        if not (found.object["spec"].get("scheduler") or {}).get("t9kScheduler"):
            raise Failure(f"{word} is not in a queue", "`bireme get` shows its phase")
        return await _explain(connection, found.object["metadata"], home)


async def _explain(connection: Connection, metadata: dict[str, Any], home: str | None) -> list[str]:
    from bireme.kube.errors import Forbidden
    from bireme.run.queues import load_state
    from bireme.scheduling import schedule
    from bireme.scheduling.explain import explain
    from bireme.scheduling.units import Key

    try:
        scheduler = await scheduler_of(connection, home)
        state = await load_state(connection.client, scheduler)
    except Forbidden:
        say("the whole cluster may not be read: this is what the scheduler wrote down")
        return await _written_down(connection, metadata)
    now = datetime.now(UTC)  # noqa: TID251 - a command asks the clock
    policy = scheduler.policy
    decisions = schedule(state, policy, now)
    explanation = explain(state, policy, now, decisions, Key(metadata["namespace"], metadata["name"]))
    if explanation is None:
        return [_NOT_WAITING]
    from bireme.cli.explanations import tell

    return tell(explanation, here=connection.target.daemon is not None)


async def _written_down(connection: Connection, metadata: dict[str, Any]) -> list[str]:
    from bireme.api.kinds import POD_GROUP
    from bireme.kube.errors import NotFound
    from bireme.kube.resources import resource_of

    try:
        group = await connection.client.get(resource_of(POD_GROUP), metadata["namespace"], metadata["name"])
    except NotFound:
        return [_NOT_WAITING]
    waiting = (group.get("status") or {}).get("waiting")
    if not waiting:
        return [_NOT_WAITING]
    lines = [str(waiting["reason"]), f"  {waiting.get('message', '')}"]
    if waiting.get("position"):
        lines.append(f"  position {waiting['position']} in queue {group['spec']['queue']}")
    if waiting.get("earliestStart"):
        lines.append(f"  starts by {waiting['earliestStart']}")
    return lines
