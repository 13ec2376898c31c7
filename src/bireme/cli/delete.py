"""`bireme delete`: delete jobs or other objects."""

from typing import Any, TypeGuard

import click

from bireme.cli.failures import Failure
from bireme.cli.lookup import Found, find, only
from bireme.cli.places import Asked, target_options
from bireme.cli.sending import locate, remove
from bireme.cli.targets import Connection, choose, connected, run
from bireme.cli.vocabulary import JOBS, NoSuchKind
from bireme.kube.errors import NotFound

Object = dict[str, Any]


@click.command()
@click.argument("words", metavar="[JOB]...", nargs=-1)
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, help="What these manifests hold."
)
@click.option("--all", "every", is_flag=True, help="All jobs of the namespace.")
@click.option("--now", is_flag=True, help="Kill the pods at once.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until nothing is left.")
@target_options
def command(
    words: tuple[str, ...], files: tuple[str, ...], asked: Asked, *, every: bool, now: bool, wait: bool
) -> None:
    """Delete jobs with all their pods; KIND/NAME for other objects. Prints what was deleted.

    \b
    bireme delete hello
    bireme delete mpijob.kubeflow.org/hello pod/left
    bireme delete -f job.yaml
    bireme delete --all
    """
    if sum((bool(words), bool(files), every)) != 1:
        raise click.UsageError("name jobs, or give -f, or --all\n\nhint: bireme delete hello")
    objects = _read(files) if files else []
    run(_delete(asked, words, objects, every=every, now=now, wait=wait))


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
    asked: Asked, words: tuple[str, ...], objects: list[Object], *, every: bool, now: bool, wait: bool
) -> None:
    async with connected(choose(asked), asked.namespace) as connection:
        if every:
            doomed = await _all_jobs(connection)
        elif objects:
            doomed = await _of_manifests(connection, objects, asked.namespace)
        else:
            doomed = [only(await find(connection, word), word, "job") for word in words]
        for found in doomed:
            namespace = found.object["metadata"].get("namespace")
            if now:
                await _kill_pods(connection, found, namespace)
            await remove(connection.client, found.resource, namespace, found.object, wait=wait)
            click.echo(f"{found.title} deleted")


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
            click.echo(f"{obj['kind']} {obj['metadata']['name']} is not there", err=True)
    return found


async def _kill_pods(connection: Connection, found: Found, namespace: str | None) -> None:
    from bireme.cli.sending import kill_pods

    if namespace is not None:
        await kill_pods(connection.client, namespace, found.object["metadata"]["uid"])
