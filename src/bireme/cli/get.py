"""`bireme get`: print jobs or other objects."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from bireme.cli.failures import Failure, fail_with, say
from bireme.cli.lookup import Found, find, look_up
from bireme.cli.output import echo, echo_data
from bireme.cli.places import Asked, target_options
from bireme.cli.table import TABLE, print_table
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.cli.vocabulary import JOBS, ask, no_such_kind, qualified, resources_for
from bireme.kube.errors import NotFound
from bireme.kube.resources import Resource
from bireme.terminal_text import escape_json

Object = dict[str, Any]


class Scope(NamedTuple):
    """Where to look, and for what; None is every namespace."""

    connection: Connection
    namespace: str | None
    selector: str = ""


class Wish(NamedTuple):
    """The object of this name in the collections that its kind may mean, or all objects of them."""

    resources: list[Resource]
    name: str | None = None


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND [NAME]...|KIND/NAME...]")
@click.option("-o", "--output", type=click.Choice(["wide", "yaml", "json", "name"]))
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", help="Only objects with these labels, such as app=hello.")
@target_options
def command(
    words: tuple[str, ...], output: str | None, selector: str, asked: Asked, *, all_namespaces: bool
) -> None:
    """Print the jobs, or objects of another KIND: a table, or whole objects with -o.

    \b
    bireme get
    bireme get mpijob hello -o yaml
    bireme get pods -o wide
    bireme get genericjob/hello pod/hello-worker-0

    Exit status: 1 if something that was named is not there; what is there is printed.
    """
    wanted = read_words(words)
    if wanted[0][1] is not None and (all_namespaces or selector):
        option = "--all-namespaces" if all_namespaces else "--selector"
        raise click.UsageError(f"{option} goes with a kind, not with names")
    run(_get(choose(asked), asked.namespace, wanted, output, selector, all_namespaces=all_namespaces))


def read_words(words: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """Kind and name of all that is asked for, None where no name is given. Raises click.UsageError."""
    if not words:
        return [("jobs", None)]
    pairs = [word.rpartition("/") for word in words]
    if all(kind and name for kind, _, name in pairs):
        return [(kind, name) for kind, _, name in pairs]
    # A kind, names of it, and objects with kinds of their own.
    first, others = words[0], pairs[1:]
    has_names = any(not slash for _, slash, _ in others) or not any(slash for _, slash, _ in others)
    if "/" in first or not has_names or not all(name and (kind or not slash) for kind, slash, name in pairs):
        hint = "bireme get KIND NAME NAME, or bireme get KIND/NAME KIND/NAME"
        raise click.UsageError(f"{' '.join(words)}: not a kind and names of it\n\nhint: {hint}")
    return [(kind or first, name) for kind, _, name in others] or [(first, None)]


async def _get(
    target: Target,
    namespace: str | None,
    wanted: list[tuple[str, str | None]],
    output: str | None,
    selector: str,
    *,
    all_namespaces: bool,
) -> None:
    async with connected(target, namespace) as connection:
        scope = Scope(connection, None if all_namespaces else connection.namespace, selector)
        wishes, failures = await _wishes(connection, wanted)
        if output in ("wide", None):
            failures += await _print_tables(scope, wishes, wide=output == "wide")
        else:
            failures += await _print_objects(scope, wishes, output)
    fail_with(failures)


async def _wishes(
    connection: Connection, wanted: list[tuple[str, str | None]]
) -> tuple[list[Wish], list[Failure]]:
    """What the words mean on this server, and what is wrong with those that mean nothing."""
    wishes, failures = [], []
    for word, name in wanted:
        try:
            wishes.append(Wish(await resources_for(connection, word), name))
        except Failure as failure:
            hint = await _meant(connection, word) if len(wanted) == 1 else ""
            failures.append(Failure(failure.message, hint or failure.hint))
    return wishes, failures


async def _meant(connection: Connection, name: str) -> str:
    """What to say to somebody who gave the name of a job or a pod, where a kind was to stand."""
    found = [*await find(connection, name), *await find(connection, f"pod/{name}")]
    words = dict.fromkeys(f"`bireme get {each.resource.kind.lower()}/{each.name}`" for each in found)
    return f"did you mean {' or '.join(words)}?" if words else ""


# ---- tables


async def _print_tables(scope: Scope, wishes: list[Wish], *, wide: bool) -> list[Failure]:
    found, failures = [], []
    for wish in wishes:
        tables = await _tables(scope, wish)
        found += tables
        if not tables and wish.name is not None:
            failures.append(_missing(wish, scope.namespace))
        elif not tables:
            _say_none(wish, scope.namespace)
    kinds = {resource for resource, _ in found}
    for index, (resource, table) in enumerate(_joined(found)):
        prefix = f"{qualified(resource)}/" if len(kinds) > 1 else ""
        if index:
            echo()
        spaces = scope.namespace is None and resource.namespaced
        echo("\n".join(print_table(table, wide=wide, prefix=prefix, namespaced=spaces)))
    return failures


async def _tables(scope: Scope, wish: Wish) -> list[tuple[Resource, Object]]:
    """What the server prints, of each of the collections that have something."""
    tables: list[tuple[Resource, Object]] = []
    options = {"labelSelector": scope.selector} if scope.selector else {}
    for resource in wish.resources:
        place = scope.namespace if resource.namespaced else None
        try:
            table = await ask(scope.connection, resource.path(place, wish.name), TABLE, **options)
        except NotFound:
            continue
        tables.append((resource, table))
    if not tables and wish.name is None:
        raise no_such_kind(scope.connection, wish.resources[0])
    return [(resource, table) for resource, table in tables if table.get("rows")]


def _joined(found: list[tuple[Resource, Object]]) -> Iterator[tuple[Resource, Object]]:
    """One table for each kind, though its objects were asked for one by one."""
    for resource in dict.fromkeys(resource for resource, _ in found):
        tables = [table for each, table in found if each == resource]
        yield resource, tables[0] | {"rows": [row for table in tables for row in table["rows"]]}


def _missing(wish: Wish, namespace: str | None) -> Failure:
    where = f" of namespace {namespace}" if any(each.namespaced for each in wish.resources) else ""
    return Failure(f"there is no {wish.name} among the {_collections(wish.resources)}{where}")


def _say_none(wish: Wish, namespace: str | None) -> None:
    where = f" in namespace {namespace}" if namespace else " in any namespace"
    of_spaces = any(each.namespaced for each in wish.resources)
    say(f"no {_collections(wish.resources)}{where if of_spaces else ''}")


def _collections(resources: list[Resource]) -> str:
    """Their plurals; with the group where two have the same."""
    if tuple(resources) == JOBS:
        return "jobs"
    plurals = [each.plural for each in resources]
    return " or ".join(
        each.plural if plurals.count(each.plural) == 1 else each.full_name for each in resources
    )


# ---- objects


async def _print_objects(scope: Scope, wishes: list[Wish], output: str | None) -> list[Failure]:
    objects: list[Found] = []
    failures = []
    for wish in wishes:
        found = await _objects(scope, wish)
        objects += found
        if not found and wish.name is not None:
            failures.append(_missing(wish, scope.namespace))
    if objects or not failures:
        _print(objects, output, is_one=len(wishes) == 1 and wishes[0].name is not None)
    return failures


async def _objects(scope: Scope, wish: Wish) -> list[Found]:
    if wish.name is not None:
        tried = [await look_up(scope.connection, resource, wish.name) for resource in wish.resources]
        return [found for found in tried if found is not None]
    objects, has_kind = [], False
    for resource in wish.resources:
        place = scope.namespace if resource.namespaced else None
        try:
            listing = await scope.connection.client.list(
                resource, place, type=dict, label_selector=scope.selector
            )
        except NotFound:
            continue
        has_kind = True
        objects += [Found(resource, item) for item in listing.items]
    if not has_kind:
        raise no_such_kind(scope.connection, wish.resources[0])
    return objects


def _print(found: list[Found], output: str | None, *, is_one: bool) -> None:
    if output == "name":
        for each in found:
            echo(each.title)
        return
    objects = [_plain(each.object) for each in found]
    whole: Object = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects}
    if is_one and len(objects) == 1:
        whole = objects[0]
    if output == "yaml":
        from bireme.manifest.writer import write

        echo_data(write([whole]), nl=False)
    else:
        import msgspec

        echo_data(escape_json(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()))


def _plain(obj: Object) -> Object:
    """Without the record of who wrote which field, as kubectl prints it."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return obj | {"metadata": metadata}
