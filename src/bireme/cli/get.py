"""`bireme get`: print jobs or other objects."""

from collections.abc import Iterator
from typing import Any

import click

from bireme.cli.failures import Failure, say
from bireme.cli.lookup import find
from bireme.cli.places import Asked, target_options
from bireme.cli.table import TABLE, print_table
from bireme.cli.targets import Connection, choose, connected, run
from bireme.cli.vocabulary import JOBS, ask, qualified, resources_for
from bireme.kube.errors import NotFound
from bireme.kube.resources import Resource

Object = dict[str, Any]


@click.command()
@click.argument("kind", required=False, metavar="[KIND|KIND/NAME]")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["wide", "yaml", "json", "name"]))
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", help="Only objects with these labels, such as app=hello.")
@target_options
def command(
    kind: str | None,
    names: tuple[str, ...],
    output: str | None,
    selector: str,
    asked: Asked,
    *,
    all_namespaces: bool,
) -> None:
    """Print the jobs, or objects of another KIND: a table, or whole objects with -o.

    \b
    bireme get
    bireme get mpijob hello -o yaml
    bireme get pods -o wide
    """
    run(_get(asked, kind or "jobs", names, output, selector, all_namespaces=all_namespaces))


async def _get(
    asked: Asked,
    kind: str,
    names: tuple[str, ...],
    output: str | None,
    selector: str,
    *,
    all_namespaces: bool,
) -> None:
    word, slash, name = kind.partition("/")
    names = (name, *names) if slash else names
    async with connected(choose(asked), asked.namespace) as connection:
        namespace = None if all_namespaces else connection.namespace
        resources = await resources_for(connection, word)
        if output in ("wide", None):
            await _print_tables(connection, resources, names, namespace, selector, wide=output == "wide")
        else:
            objects = [each async for each in _objects(connection, resources, names, namespace, selector)]
            _print_objects(objects, output, is_one=len(names) == 1)


async def _print_tables(
    connection: Connection,
    resources: list[Resource],
    names: tuple[str, ...],
    namespace: str | None,
    selector: str,
    *,
    wide: bool,
) -> None:
    found: list[tuple[Resource, Object]] = []
    for resource in resources:
        for path in _paths(resource, names, namespace):
            try:
                table = await ask(
                    connection, path, TABLE, **({"labelSelector": selector} if selector else {})
                )
            except NotFound:
                continue
            if table.get("rows"):
                found.append((resource, table))
    if not found:
        _miss(resources, names, namespace)
        return
    kinds = {resource for resource, _ in found}
    for index, (resource, table) in enumerate(_joined(found)):
        prefix = f"{qualified(resource)}/" if len(kinds) > 1 else ""
        if index:
            click.echo()
        spaces = namespace is None and resource.namespaced
        click.echo("\n".join(print_table(table, wide=wide, prefix=prefix, namespaced=spaces)))


def _paths(resource: Resource, names: tuple[str, ...], namespace: str | None) -> list[str]:
    place = namespace if resource.namespaced else None
    return [resource.path(place, name) for name in names] if names else [resource.path(place)]


def _joined(found: list[tuple[Resource, Object]]) -> Iterator[tuple[Resource, Object]]:
    """One table for each kind, though its objects were asked for one by one."""
    for resource in dict.fromkeys(resource for resource, _ in found):
        tables = [table for each, table in found if each == resource]
        yield resource, tables[0] | {"rows": [row for table in tables for row in table["rows"]]}


def _miss(resources: list[Resource], names: tuple[str, ...], namespace: str | None) -> None:
    what = "jobs" if tuple(resources) == JOBS else " or ".join(resource.plural for resource in resources)
    if names:
        raise Failure(f"there is no {' or '.join(names)} among the {what} of namespace {namespace}")
    say(f"no {what} in {f'namespace {namespace}' if namespace else 'any namespace'}")


async def _objects(
    connection: Connection,
    resources: list[Resource],
    names: tuple[str, ...],
    namespace: str | None,
    selector: str,
) -> Any:
    if names:
        for name in names:
            tried = [
                each for kind in resources for each in await find(connection, f"{qualified(kind)}/{name}")
            ]
            if not tried:
                _miss(resources, (name,), namespace)
            for found in tried:
                yield found.resource, found.object
        return
    for resource in resources:
        place = namespace if resource.namespaced else None
        try:
            listing = await connection.client.list(resource, place, type=dict, label_selector=selector)
        except NotFound:
            continue
        for item in listing.items:
            yield resource, item


def _print_objects(found: list[tuple[Resource, Object]], output: str | None, *, is_one: bool) -> None:
    if output == "name":
        for resource, obj in found:
            click.echo(f"{qualified(resource)}/{obj['metadata']['name']}")
        return
    objects = [_plain(obj) for _, obj in found]
    whole: Object = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects}
    if is_one and len(objects) == 1:
        whole = objects[0]
    if output == "yaml":
        from bireme.manifest.writer import write

        click.echo(write([whole]), nl=False)
    else:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())


def _plain(obj: Object) -> Object:
    """Without the record of who wrote which field, as kubectl prints it."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return obj | {"metadata": metadata}
