"""`bireme down`: stop the embedded mode and all that runs in it."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bireme.cli.failures import Failure, say
from bireme.cli.output import echo
from bireme.cli.places import data_dir_option, data_folder
from bireme.cli.targets import Connection, connected, embedded, found, run, say_local, started
from bireme.kube.errors import ServerError
from bireme.run import leftovers

if TYPE_CHECKING:
    from bireme.run.presence import Daemon

_END_SECONDS = 15.0
_HARD_SECONDS = 10.0
_LEFT_SECONDS = 5.0
_NO_SPACE = "InsufficientStorage"


@click.command()
@data_dir_option
@click.option(
    "--grace-seconds",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="How long pods have to end by themselves.",
)
def command(data_dir: Path | None, grace_seconds: int) -> None:
    """Stop all pods, then the daemon. Jobs that have not ended are deleted; others are kept.

    Pods have some time to end by themselves, then they are killed. Nothing of them is left running.
    """
    folder = data_folder(data_dir)
    daemon = found(folder)
    say_local(folder)
    if daemon is None and leftovers.find(folder):
        say("the daemon is gone, but pods of it are left: starting it once more to stop them")
        daemon = started(folder)
    if daemon is None:
        say(f"not running ({folder})")
        return
    for line in run(stop_all(daemon, grace_seconds)):
        echo(line)
    end(daemon, folder)
    echo(f"stopped the daemon (process {daemon.pid})")


async def stop_all(daemon: "Daemon", grace_seconds: int) -> list[str]:
    """Stop all that runs; return what that was, a line each.

    If the disk is so full that not even deletions are saved, the pods are killed with the daemon.
    """
    async with connected(embedded(daemon)) as connection:
        try:
            return await _stop(connection, grace_seconds)
        except ServerError as error:
            if error.reason != _NO_SPACE:
                raise
            say(f"warning: {error.message}")
            say("all pods are killed; jobs that have not ended start again with the next daemon")
            return []


async def _stop(connection: Connection, grace_seconds: int) -> list[str]:
    from bireme.run.chores import stop_pods, wait_stopped

    client = connection.client
    told = [f"stopped {name}" for name in await _delete_jobs(connection)]
    pods = await stop_pods(client, grace_seconds)
    try:
        async with asyncio.timeout(grace_seconds + _HARD_SECONDS):
            await wait_stopped(client)
    except TimeoutError:
        await stop_pods(client, 0)
    return told + [f"stopped pod {name}" for name in sorted(_names(pods))]


async def _delete_jobs(connection: Connection) -> list[str]:
    """Delete the jobs that have not ended, so that nothing brings their pods back; return their names."""
    from bireme.run.chores import list_jobs
    from bireme.run.jobs import is_finished

    names = []
    for resource, job in await list_jobs(connection.client):
        metadata = job["metadata"]
        if not is_finished(job):
            await connection.client.delete(resource, metadata["namespace"], metadata["name"])
            names.append(f"{resource.kind} {metadata['namespace']}/{metadata['name']}")
    return names


def _names(pods: list[dict[str, dict[str, str]]]) -> Iterator[str]:
    for pod in pods:
        yield f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def end(daemon: "Daemon", folder: Path) -> None:
    """End the daemon itself, and wait until it and whatever it left are gone."""
    from bireme.run.presence import send_signal, wait_gone

    for signum in (signal.SIGTERM, signal.SIGKILL):
        if not send_signal(daemon, signum):
            break
        if wait_gone(daemon.pid, _END_SECONDS):
            break
    else:
        raise Failure(f"process {daemon.pid} does not end")
    if killed := leftovers.end(folder, _LEFT_SECONDS):
        say(f"processes that pods had left behind were killed: {killed}")
