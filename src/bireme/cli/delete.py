"""`bireme delete`: delete jobs or other objects."""

from typing import Any, NamedTuple, TypeGuard

import click

from bireme.cli.confirmation import confirm, require_terminal
from bireme.cli.failures import Failure, say
from bireme.cli.lookup import Found, find, only
from bireme.cli.output import echo
from bireme.cli.places import Asked, target_options, yes_option
from bireme.cli.sending import describe, locate, remove
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.cli.vocabulary import JOBS, NoSuchKind
from bireme.kube.errors import NotFound

Object = dict[str, Any]


class Selection(NamedTuple):
    """What to delete: jobs by name, the objects of manifests, or all jobs of the namespace."""

    words: tuple[str, ...]
    objects: list[Object]
    all_jobs: bool


@click.command()
@click.argument("words", metavar="[JOB]...", nargs=-1)
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, help="What these manifests hold."
)
@click.option("--all", "every", is_flag=True, help="All jobs of the namespace.")
@click.option("--now", is_flag=True, help="Kill the pods at once.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until nothing is left.")
@yes_option
@target_options
def command(
    words: tuple[str, ...],
    files: tuple[str, ...],
    asked: Asked,
    *,
    every: bool,
    now: bool,
    wait: bool,
    yes: bool,
) -> None:
    """Delete jobs with all their pods; KIND/NAME for other objects. Prints what was deleted.

    On a cluster, and with --all, you are asked first; without a terminal --yes is needed.

    \b
    bireme delete hello
    bireme delete mpijob.kubeflow.org/hello pod/left
    bireme delete -f job.yaml
    bireme delete --all --yes
    """
    if sum((bool(words), bool(files), every)) != 1:
        raise click.UsageError("name jobs, or give -f, or --all\n\nhint: bireme delete hello")
    objects = _read(files) if files else []
    target = choose(asked)
    ask = not yes and (every or target.is_cluster)
    if ask:
        require_terminal("delete --all" if every else "delete", target.title, files)
    selection = Selection(words, objects, every)
    run(_delete(target, asked.namespace, selection, now=now, wait=wait, ask=ask))


def _read(files: tuple[str, ...]) -> list[Object]:
    """What can be deleted need not be valid: a name will do."""
    from bireme.cli.sources import read_sources
    from bireme.manifest import read

    objects: list[Object] = []
    for source in read_sources(files):
        manifest = read(source.data)
        if manifest.problems:
            raise Failure(f"{source.name} can't be read", f"bireme validate -f {source.name}")
        for document in manifest.documents:
            if not _is_named(document.value):
                raise Failure(f"{source.name}: an object without apiVersion, kind or name")
            objects.append(document.value)
    return objects


def _is_named(value: Any) -> TypeGuard[Object]:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    return all(isinstance(value.get(key), str) for key in ("apiVersion", "kind")) and bool(
        value["metadata"].get("name")
    )


async def _delete(
    target: Target, namespace: str | None, selection: Selection, *, now: bool, wait: bool, ask: bool
) -> None:
    async with connected(target, namespace) as connection:
        doomed = await _select(connection, selection, namespace)
        if ask and doomed:
            count = f"{len(doomed)} object{'' if len(doomed) == 1 else 's'}"
            titles = [_title(found) for found in doomed]
            confirm(f"delete {count}", titles, target.title, otherwise="nothing was deleted")
        for found in doomed:
            namespace = found.object["metadata"].get("namespace")
            if now:
                await _kill_pods(connection, found, namespace)
            await remove(connection.client, found.resource, namespace, found.object, wait=wait)
            echo(f"{found.title} deleted")


async def _select(connection: Connection, selection: Selection, namespace: str | None) -> list[Found]:
    if selection.all_jobs:
        jobs = await _all_jobs(connection)
        if not jobs:
            say(f"no jobs in namespace {connection.namespace}")
        return jobs
    if selection.objects:
        return await _of_manifests(connection, selection.objects, namespace)
    return [only(await find(connection, word), word, "job") for word in selection.words]


def _title(found: Found) -> str:
    namespace = found.object["metadata"].get("namespace")
    return f"{found.title} in namespace {namespace}" if namespace else found.title


async def _all_jobs(connection: Connection) -> list[Found]:
    found = []
    for resource in JOBS:
        try:
            listing = await connection.client.list(resource, connection.namespace, type=dict)
        except NotFound:
            continue
        found += [Found(resource, item) for item in listing.items]
    return found


async def _of_manifests(connection: Connection, objects: list[Object], namespace: str | None) -> list[Found]:
    """Those that are there, the last of the manifest first."""
    found = []
    for obj in reversed(objects):
        try:
            resource, place = await locate(connection, obj, namespace)
            found.append(
                Found(resource, await connection.client.get(resource, place, obj["metadata"]["name"]))
            )
        except (NotFound, NoSuchKind):
            say(f"{describe(obj)} is not there")
    return found


async def _kill_pods(connection: Connection, found: Found, namespace: str | None) -> None:
    from bireme.cli.sending import kill_pods

    if namespace is not None:
        await kill_pods(connection.client, namespace, found.object["metadata"]["uid"])
