"""`bireme logs`: the output of a job's replicas, or of a pod."""

import contextlib
from datetime import timedelta
from typing import Any, NamedTuple

import click

from bireme.cli.durations import duration
from bireme.cli.endings import is_launcher, short_name
from bireme.cli.failures import Failure, fail_with, say
from bireme.cli.lookup import Found, find_job_or_pod
from bireme.cli.places import Asked, target_options
from bireme.cli.screen import Lines, Screen
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.kube.errors import ApiError
from bireme.kube.resources import PODS
from bireme.run.jobs import replicas

Object = dict[str, Any]

_NO_OUTPUT = (400, 404)
"""What a server answers where a container has no output: it has not started, was not restarted, is gone."""


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
    run(_logs(choose(asked), asked.namespace, word, wanted))


async def _logs(target: Target, namespace: str | None, word: str, wanted: Wanted) -> None:
    async with connected(target, namespace) as connection:
        screen = Screen()
        try:
            found = await find_job_or_pod(connection, word)
        except Failure:
            if not await _print_retained(connection, word, wanted, screen):
                raise
            return
        if found.resource is PODS:
            await _print_pod(connection, found, wanted, screen)
        else:
            await _print_job(connection, found, wanted, screen)


async def _print_retained(connection: Connection, word: str, wanted: Wanted, screen: Screen) -> bool:
    """Print the output of a pod that is gone, which this machine's node keeps for a while; False if not."""
    pod = _retained_pod(word.removeprefix("pod/"), connection.namespace)
    try:
        await _print(connection, pod, wanted, screen, "")
    except ApiError:
        return False
    return True


async def _print_pod(connection: Connection, pod: Found, wanted: Wanted, screen: Screen) -> None:
    try:
        await _print(connection, pod.object, wanted, screen, "")
    except ApiError as error:
        failed = None if wanted.container or wanted.previous else _failed_before(pod.object)
        hint = f"its {failed.told}: `bireme logs {pod.name} -c {failed.name}`" if failed else ""
        raise Failure(error.message or str(error), hint or error.hint) from error


async def _print_job(connection: Connection, job: Found, wanted: Wanted, screen: Screen) -> None:
    if wanted.follow and not wanted.previous and not wanted.container:
        await _follow(connection, job, wanted, screen)
        return
    pods = await _pods(connection, job)
    retained = [] if wanted.previous else _retained_pods(job, pods)
    chosen = [pod for pod in pods if wanted.container in (None, *_containers(pod))]
    if pods and not chosen:
        there = dict.fromkeys(
            name for pod in pods for name in _containers(pod) if not name.startswith("bireme-")
        )
        raise Failure(
            f"no pod of {job.name} has a container {wanted.container}", f"there are: {', '.join(there)}"
        )
    if wanted.follow and not wanted.previous:
        await _follow(connection, job, wanted, screen)
        return
    forgotten = await _print_replicas(connection, job, retained, wanted, screen)
    if not pods and len(forgotten) == len(retained):
        raise Failure(
            f"no pod of {job.name} is left, and no output with them",
            "`bireme get -o yaml` shows what is known of its end; a clean-up policy of None keeps pods",
        )
    refused = await _print_replicas(connection, job, chosen, wanted, screen)
    is_all = len(refused) + len(forgotten) == len(chosen) + len(retained)
    _tell_refused(job, refused, wanted, is_all=bool(refused) and is_all)


async def _print_replicas(
    connection: Connection, job: Found, pods: list[Object], wanted: Wanted, screen: Screen
) -> list[tuple[Object, ApiError]]:
    """Print the output of one after the other; return those that the server had none of, and why."""
    refused = []
    names = [short_name(pod["metadata"]["name"], job.name) for pod in pods]
    for name in names:
        screen.add_name(name)
    for name, pod in zip(names, pods, strict=True):
        try:
            await _print(connection, pod, wanted, screen, name)
        except ApiError as error:
            refused.append((pod, error))
    return refused


def _tell_refused(
    job: Found, refused: list[tuple[Object, ApiError]], wanted: Wanted, *, is_all: bool
) -> None:
    """Say why replicas have no output, but of those with the same trouble only the first.

    That they have not started is no failure.
    """
    fail_with(
        [
            Failure(error.message or str(error), error.hint)
            for _, error in refused
            if error.code not in _NO_OUTPUT
        ]
    )
    if wanted.previous:
        if is_all:
            raise Failure(f"{job.name} has no previous output: {refused[0][1].message}")
        return
    failed = {each: pod for pod, _ in reversed(refused) if (each := _failed_before(pod))}
    for each, pod in failed.items():
        name = short_name(pod["metadata"]["name"], job.name)
        say(f"{name} has no output: its {each.told}: `bireme logs {job.name} -c {each.name}`")
    if is_all and not failed:
        say(f"{job.name} has no output yet: {refused[0][1].message}")


class _Failed(NamedTuple):
    """An init container that has failed."""

    name: str
    code: int

    @property
    def told(self) -> str:
        return f"init container {self.name} has failed with exit code {self.code}"


def _failed_before(pod: Object) -> _Failed | None:
    """The init container for whose failure the others have not started; it may be about to try again.

    The last that failed: sidecars before it were only stopped with it.
    """
    for status in reversed((pod.get("status") or {}).get("initContainerStatuses") or ()):
        states = [(status.get(name) or {}).get("terminated") for name in ("state", "lastState")]
        ended = next(filter(None, states), None)
        if ended is not None and ended.get("exitCode"):
            return _Failed(status["name"], ended["exitCode"])
    return None


def _containers(pod: Object) -> list[str]:
    fields = ("initContainers", "containers")
    return [each["name"] for field in fields for each in pod["spec"].get(field) or ()]


async def _follow(connection: Connection, job: Found, wanted: Wanted, screen: Screen) -> None:
    from bireme.cli.follow import JobFollower

    options = wanted.options()
    follower = JobFollower(
        connection.client, job.resource, job.object, screen, container=wanted.container, options=options
    )
    await follower.run()


def _retained_pods(job: Found, there: list[Object]) -> list[Object]:
    """The pods of a job that its status tells of, and that are gone: an embedded node may have their output.

    A replica without a UID, of a job that has not started, had no pod: one of that name was another job's.
    """
    known = {pod["metadata"]["name"] for pod in there}
    namespace, has_started = (
        job.object["metadata"]["namespace"],
        "startTime" in (job.object.get("status") or {}),
    )
    names = [each["name"] for each in replicas(job.object) if each.get("uid") or has_started]
    return [_retained_pod(name, namespace) for name in names if name not in known]


def _retained_pod(name: str, namespace: str) -> Object:
    """A pod of which only the name is known; the node knows which container is its first."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [{"name": None}]}}


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
    """Print the output of a pod. Raises ApiError."""
    metadata = pod["metadata"]
    lines = Lines(of_mpirun=is_launcher(metadata.get("labels") or {}))
    options = wanted.options()
    options["container"] = options["container"] or pod["spec"]["containers"][0]["name"]
    output = connection.client.log(metadata["namespace"], metadata["name"], **options)
    try:
        async with contextlib.aclosing(output):
            async for chunk in output:
                screen.write(name, lines.feed(chunk))
    finally:
        screen.write(name, lines.end())
