"""`bireme logs`: the output of a job's replicas, or of a pod."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any, NamedTuple

import click

from bireme.cli.durations import duration
from bireme.cli.endings import short_name
from bireme.cli.failures import Failure
from bireme.cli.lookup import Found, find_job_or_pod
from bireme.cli.places import Asked, target_options
from bireme.cli.screen import Lines, Screen
from bireme.cli.targets import Connection, choose, connected, run
from bireme.kube.errors import ApiError, NotFound
from bireme.kube.resources import PODS

Object = dict[str, Any]


class Wanted(NamedTuple):
    """Which part of the output."""

    follow: bool = False
    tail: int | None = None
    since: timedelta | None = None
    container: str | None = None
    previous: bool = False
    timestamps: bool = False

    def options(self) -> dict[str, Any]:
        return {
            "follow": self.follow,
            "tail_lines": self.tail,
            "since_seconds": max(1, round(self.since.total_seconds())) if self.since else None,
            "container": self.container,
            "previous": self.previous,
            "timestamps": self.timestamps,
        }


@click.command()
@click.argument("word", metavar="JOB|POD")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each replica.")
@click.option("--since", type=duration, help="Only what is newer than this, such as 10m.")
@click.option("-c", "--container", help="Another container than the first.")
@click.option("--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--timestamps", is_flag=True, help="When each line was written.")
@target_options
def command(
    word: str,
    tail: int | None,
    since: timedelta | None,
    container: str | None,
    asked: Asked,
    *,
    follow: bool,
    previous: bool,
    timestamps: bool,
) -> None:
    """Print what the replicas of a job have printed, each line with its replica's name; of a pod as it is.

    JOB may be KIND/NAME where two jobs have the same name. A followed job is followed to its end; Ctrl-C
    leaves it running.
    """
    wanted = Wanted(follow, tail, since, container, previous, timestamps)
    run(_logs(asked, word, wanted))


async def _logs(asked: Asked, word: str, wanted: Wanted) -> None:
    async with connected(choose(asked), asked.namespace) as connection:
        found = await find_job_or_pod(connection, word)
        screen = Screen(live=False)
        if found.resource is PODS:
            await _print(connection, found.object, wanted, screen, "")
        else:
            await _print_job(connection, found, wanted, screen)


async def _print_job(connection: Connection, job: Found, wanted: Wanted, screen: Screen) -> None:
    if wanted.follow:
        await _follow(connection, job, wanted, screen)
        return
    pods = await _pods(connection, job)
    names = [short_name(pod["metadata"]["name"], job.name) for pod in pods]
    for name in names:
        screen.add_name(name)
    for name, pod in zip(names, pods, strict=True):
        with contextlib.suppress(ApiError):
            await _print(connection, pod, wanted, screen, name)
    if not pods:
        raise Failure(
            f"no pod of {job.name} is left, and no output with them",
            "`bireme get -o yaml` shows what is known of its end",
        )


async def _follow(connection: Connection, job: Found, wanted: Wanted, screen: Screen) -> None:
    from bireme.cli.follow import JobFollower

    options = wanted.options()
    follower = JobFollower(
        connection.client, job.resource, job.object, screen, container=wanted.container, options=options
    )
    await follower.run()


async def _pods(connection: Connection, job: Found) -> list[Object]:
    """The pods of a job, launcher first, then by type and index."""
    selector = f"bireme.dev/job-uid={job.object['metadata']['uid']}"
    namespace = job.object["metadata"]["namespace"]
    listing = await connection.client.list(PODS, namespace, type=dict, label_selector=selector)
    return sorted(listing.items, key=_order)


def _order(pod: Object) -> tuple[str, int]:
    labels = pod["metadata"].get("labels") or {}
    index = labels.get("bireme.dev/replica-index", "0")
    return labels.get("bireme.dev/replica-type", ""), int(index) if index.isdigit() else 0


async def _print(connection: Connection, pod: Object, wanted: Wanted, screen: Screen, name: str) -> None:
    metadata, lines = pod["metadata"], Lines()
    options = wanted.options()
    options["container"] = options["container"] or pod["spec"]["containers"][0]["name"]
    output = connection.client.log(metadata["namespace"], metadata["name"], **options)
    try:
        async with contextlib.aclosing(output):
            async for chunk in output:
                screen.write(name, lines.feed(chunk))
    except NotFound as error:
        raise Failure(error.message) from error
    except asyncio.CancelledError:
        raise
    finally:
        screen.write(name, lines.end())
