"""`bireme pause`: take a job's pods away, and keep everything else until it is resumed."""

from typing import Any

import click

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB
from bireme.cli.confirmation import confirm, require_terminal
from bireme.cli.failures import Failure
from bireme.cli.lookup import Found, find_job
from bireme.cli.output import echo
from bireme.cli.places import Asked, target_options, yes_option
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.kube.resources import resource_of
from bireme.run.jobs import is_finished, phase

Object = dict[str, Any]

_PAUSABLE = tuple(resource_of(kind) for kind in JOB_KINDS if kind is not KUBEFLOW_MPI_JOB)


@click.command()
@click.argument("words", metavar="JOB...", nargs=-1, required=True)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until no pod is left.")
@yes_option
@target_options
def command(words: tuple[str, ...], asked: Asked, *, wait: bool, yes: bool) -> None:
    """Pause jobs: their pods are stopped, and start anew after `bireme resume`.

    On a cluster you are asked first; without a terminal --yes is needed.

    \b
    bireme pause hello

    Exit status: 1 if one of them can't be paused, or has ended before it was.
    """
    target = choose(asked)
    ask = not yes and target.is_cluster
    if ask:
        require_terminal("pause", target.title)
    run(_pause(target, asked.namespace, words, wait=wait, ask=ask))


async def _pause(
    target: Target, namespace: str | None, words: tuple[str, ...], *, wait: bool, ask: bool
) -> None:
    async with connected(target, namespace) as connection:
        found = [await find_pausable(connection, word) for word in words]
        if ask:
            titles = [f"{each.title} in namespace {connection.namespace}" for each in found]
            question = f"stop all pods of {len(found)} job{'' if len(found) == 1 else 's'}"
            confirm(question, titles, target.title, otherwise="nothing was paused")
        for each in found:
            await switch(connection, each, paused=True)
        for each in found:
            if wait:
                await _await_pause(connection, each)
            echo(f"{each.title} paused")


async def _await_pause(connection: Connection, found: Found) -> None:
    from bireme.cli.wait import read_goal, until

    goal = read_goal("paused")
    job = await until(connection, found, goal)
    if job is None or not goal.test(job):
        raise Failure(f"{found.title} is not paused: it is {'gone' if job is None else phase(job)}")


async def find_pausable(connection: Connection, word: str) -> Found:
    """The job of that name, if it has not ended and its kind knows a pause."""
    found = await find_job(connection, word)
    if found.resource not in _PAUSABLE:
        kinds = ", ".join(resource.kind for resource in _PAUSABLE)
        raise Failure(f"{found.title}: this kind has no pause", f"these have one: {kinds}")
    if is_finished(found.object):
        raise Failure(f"{found.title} has ended: {phase(found.object)}")
    return found


async def switch(connection: Connection, found: Found, *, paused: bool) -> None:
    """Set the flag under the names that the job has for it: it has two, and they must agree."""
    pause = (found.object["spec"].get("runMode") or {}).get("pause") or {}
    flags = dict.fromkeys([name for name in ("enabled", "enable") if name in pause] or ["enabled"], paused)
    patch = {"spec": {"runMode": {"pause": flags}}}
    await connection.client.patch(found.resource, found.object["metadata"]["namespace"], found.name, patch)
