"""`bireme why`: what a queued job, PodGroup or pod waits for."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from bireme.cli.failures import Failure, say
from bireme.cli.lookup import Found, find_job_or_pod
from bireme.cli.output import echo
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of

if TYPE_CHECKING:
    from bireme.scheduling.units import Key

# What is printed for a job that waits for nothing.
_NOT_WAITING = "NotWaiting"


@click.command()
@click.argument("word", metavar="JOB|podgroup/NAME|pod/NAME")
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(word: str, home: str | None, asked: Asked) -> None:
    """Say why a queued job waits: one word, the numbers, who holds what it needs, what would help.

    PodGroups that somebody made by hand, and pods that name a queue by label alone, are explained too.
    """
    for line in run(_why(choose(asked), asked.namespace, word, home)):
        echo(line)


async def _why(target: Target, namespace: str | None, word: str, home: str | None) -> list[str]:
    async with connected(target, namespace) as connection:
        found = await find_job_or_pod(connection, word)
        return await _explain(connection, _unit_of(found), home)


def _unit_of(found: Found) -> "Key":
    """Return what starts together with an object. Raises Failure for what no queue starts."""
    from bireme.api.scheduler import GROUP_LABEL, SCHEDULER_NAME, queue_named_by
    from bireme.scheduling.units import Key

    metadata, spec = found.object["metadata"], found.object.get("spec") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    if found.resource.kind == "PodGroup":
        return Key(namespace, name)
    if found.resource.kind != "Pod":
        if queue_named_by(found.object):
            return Key(namespace, name)
        hint = f"its condition Running says why it waits: `bireme get {found.title} -o yaml`"
        raise Failure(f"{name} is not in a queue", hint)
    if spec.get("schedulerName") != SCHEDULER_NAME:
        hint = f"pods of a queue have the schedulerName {SCHEDULER_NAME}"
        raise Failure(f"pod {name} is not in a queue", hint)
    group = (metadata.get("labels") or {}).get(GROUP_LABEL, "")
    return Key(namespace, group) if group else Key(namespace, "", name)


async def _explain(connection: Connection, key: "Key", home: str | None) -> list[str]:
    from bireme.kube.errors import Forbidden
    from bireme.run.queues import load_state
    from bireme.scheduling import schedule
    from bireme.scheduling.explain import explain

    try:
        scheduler = await scheduler_of(connection, home)
        state = await load_state(connection.client, scheduler)
    except Forbidden:
        say("the whole cluster may not be read: this is what the scheduler wrote down")
        return await _written_down(connection, key)
    now = datetime.now(UTC)  # noqa: TID251 - a command asks the clock
    policy = scheduler.policy
    decisions = schedule(state, policy, now)
    is_cluster = connection.target.daemon is None
    explanation = explain(state, policy, now, decisions, key, may_add_nodes=is_cluster)
    if explanation is None:
        return [_NOT_WAITING]
    from bireme.cli.explanations import tell

    return tell(explanation, scheduler.home)


async def _written_down(connection: Connection, key: "Key") -> list[str]:
    """Return the reason that the scheduler wrote into a PodGroup, or into the pod that stands alone."""
    from bireme.api.kinds import POD_GROUP
    from bireme.kube.errors import NotFound
    from bireme.kube.resources import PODS, resource_of

    try:
        if key.pod:
            return _told_by_pod(await connection.client.get(PODS, key.namespace, key.pod))
        group = await connection.client.get(resource_of(POD_GROUP), key.namespace, key.group)
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


def _told_by_pod(pod: dict[str, Any]) -> list[str]:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return [str(each.get("reason", "")), f"  {each.get('message', '')}"]
    return [_NOT_WAITING]
