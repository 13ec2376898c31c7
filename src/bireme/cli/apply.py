"""`bireme apply`: create or change the objects of manifests."""

import contextlib
import difflib
from typing import Any, NamedTuple

import click

from bireme.cli.confirmation import ask as ask_user
from bireme.cli.confirmation import can_ask
from bireme.cli.failures import Failure, say
from bireme.cli.output import Styled, echo
from bireme.cli.places import Asked, target_options, yes_option
from bireme.cli.sending import apply, describe, for_target, locate_all, warn_of_quota
from bireme.cli.submitter import SubmitterOptions, annotations_for
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.cli.vocabulary import qualified
from bireme.kube.errors import NotFound
from bireme.kube.resources import Resource

Object = dict[str, Any]

_SERVERS_OWN = (
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
)


class Change(NamedTuple):
    """An object that is to be sent, and what is there now."""

    resource: Resource
    namespace: str | None
    object: Object
    there: Object | None


@click.command()
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, required=True, help="Manifests."
)
@click.option("-R", "--recursive", is_flag=True, help="Look into the folders of a folder too.")
@yes_option
@click.option("--force-conflicts", is_flag=True, help="Take over fields that somebody else has set.")
@target_options
def command(
    files: tuple[str, ...], asked: Asked, *, recursive: bool, yes: bool, force_conflicts: bool
) -> None:
    """Create the objects of manifests, or change them to what the manifests say.

    On a terminal the changes are shown first, and you are asked. Nothing is sent if a manifest is wrong.
    """
    from bireme.cli.manifests import load

    manifests = load(files, recursive=recursive)
    target = choose(asked)
    manifests.show_warnings()
    ask = not yes and can_ask(files)
    run(_apply(target, asked.namespace, manifests.objects, ask=ask, force=force_conflicts))


async def _apply(
    target: Target, namespace: str | None, objects: list[Object], *, ask: bool, force: bool
) -> None:
    async with connected(target, namespace) as connection:
        annotations = annotations_for(connection, SubmitterOptions())
        places = await locate_all(connection, objects, namespace)
        changes = [
            await _plan(connection, obj, resource, place, annotations)
            for obj, (resource, place) in zip(objects, places, strict=True)
        ]
        if ask:
            shown = [await _shown(connection, change, force=force) for change in changes]
            if any(shown) and not ask_user(f"apply this on {target.title}?"):
                raise Failure("nothing was changed")
        for change in changes:
            made = await apply(connection, change.resource, change.namespace, change.object, force=force)
            echo(f"{qualified(change.resource)}/{made['metadata']['name']} {_verb(change, made)}")
            await warn_of_quota(connection, made)


async def _plan(
    connection: Connection,
    obj: Object,
    resource: Resource,
    place: str | None,
    annotations: dict[str, str],
) -> Change:
    name = obj["metadata"].get("name")
    there = None
    if name:
        with contextlib.suppress(NotFound):
            there = await connection.client.get(resource, place, name)
    # Whoever sent a job first is its caller: another directory later would be a change of the job.
    sent = for_target(connection, obj, annotations) if there is None else _with_origin(obj, there)
    return Change(resource, place, sent, there)


def _with_origin(obj: Object, there: Object) -> Object:
    from bireme.cli.manifests import with_annotations
    from bireme.node.submitter import DIRECTORY, PATH, SUBMITTER

    said = there["metadata"].get("annotations") or {}
    kept = {name: said[name] for name in (DIRECTORY, PATH, SUBMITTER) if name in said}
    return with_annotations(obj, kept) if kept else obj


async def _shown(connection: Connection, change: Change, *, force: bool) -> bool:
    """Show what would change; whether anything would."""
    if change.there is None:
        say(f"+ {describe(change.object)} is new")
        return True
    after = await apply(
        connection, change.resource, change.namespace, change.object, force=force, dry_run=True
    )
    lines = differences(change.there, after)
    say(f"~ {describe(change.object)}:" if lines else f"= {describe(change.object)} stays as it is")
    for line in lines:
        say(Styled(line, fg="green" if line.startswith("+") else "red" if line.startswith("-") else None))
    return bool(lines)


def differences(before: Object, after: Object) -> list[str]:
    """The lines of YAML that differ, with some around them; what only the server writes is left out."""
    lines = difflib.unified_diff(_text(before), _text(after), n=2, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _text(obj: Object) -> list[str]:
    from bireme.manifest.writer import write

    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
    plain = {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}
    return write([plain]).splitlines()


def _verb(change: Change, made: Object) -> str:
    if change.there is None:
        return "created"
    same = change.there["metadata"].get("resourceVersion") == made["metadata"].get("resourceVersion")
    return "unchanged" if same else "changed"
