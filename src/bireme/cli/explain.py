"""`bireme explain`: describe a kind or a field, offline."""

import textwrap
from collections.abc import Iterator
from typing import Any

import click

from bireme.admission.words import closest
from bireme.api.kinds import KINDS, Kind, kinds_named
from bireme.api.schema import kind_schema
from bireme.api.variables import VariableGuide
from bireme.cli.output import echo

Schema = dict[str, Any]


@click.command()
@click.argument("path", metavar="KIND[.FIELD...]")
@click.option("--api-version", help="Which MPIJob, if both are meant: kubeflow.org/v1alpha2.")
@click.option("--recursive", is_flag=True, help="All fields below, names and types only.")
def command(path: str, api_version: str | None, *, recursive: bool) -> None:
    """Describe a kind or one of its fields, as `kubectl explain` does, offline.

    \b
    bireme explain mpijob.spec.worker.cmd
    bireme explain queue.spec --recursive
    """
    word, *fields = path.split(".")
    kind = _kind(word, api_version)
    schema = kind_schema(kind)
    for depth, field in enumerate(fields):
        schema = _child(schema, field, ".".join((word, *fields[:depth])))
    echo("\n".join(_page(kind, fields, schema, recursive=recursive)))


def _kind(word: str, api_version: str | None) -> Kind:
    found = [kind for kind in kinds_named(word) if api_version in (None, kind.api_version, kind.group)]
    if found:
        if len(found) > 1:
            others = ", ".join(kind.api_version for kind in found[1:])
            echo(f"there is another {found[0].kind}: --api-version {others}", err=True)
        return found[0]
    names = {name: kind for kind in KINDS for name in (kind.singular, kind.plural, *kind.short_names)}
    near = closest(word, names)
    hint = f"did you mean `{near}`?" if near else f"known kinds: {', '.join(sorted({k.kind for k in KINDS}))}"
    raise click.UsageError(f"no kind is named {word}\n\nhint: {hint}")


def _child(schema: Schema, field: str, where: str) -> Schema:
    fields = _fields(schema)
    if field in fields:
        child: Schema = fields[field]
        return child
    entries = _element(schema).get("additionalProperties")
    if entries is not None:
        return dict(entries)
    near = closest(field, fields)
    hint = f"\n\nhint: did you mean `{near}`?" if near else ""
    raise click.ClickException(f"{where} has no field {field}{hint}")


def _element(schema: Schema) -> Schema:
    """What a list holds, or the schema itself."""
    while "items" in schema:
        schema = schema["items"]
    return schema


def _fields(schema: Schema) -> dict[str, Schema]:
    schema = _element(schema)
    entries = schema.get("additionalProperties", {})
    fields: dict[str, Schema] = schema.get("properties") or _element(entries).get("properties", {})
    return fields


def _page(kind: Kind, fields: list[str], schema: Schema, *, recursive: bool) -> Iterator[str]:
    yield f"GROUP:      {kind.group}"
    yield f"KIND:       {kind.kind}"
    yield f"VERSION:    {kind.version}"
    yield ""
    if fields:
        yield f"FIELD: {fields[-1]} <{type_name(schema)}>"
        yield ""
    yield "DESCRIPTION:"
    yield textwrap.indent(textwrap.fill(_description(schema, fields), 76), "    ")
    yield from _limits(schema)
    if _fields(schema):
        yield ""
        yield "FIELDS:"
        yield from _list_fields(schema, 1, recursive=recursive)
    if kind.variables is not None and not fields:
        yield from _list_variables(kind.variables)


def _list_variables(guide: VariableGuide) -> Iterator[str]:
    yield ""
    yield "VARIABLES:"
    for name, meaning in guide.variables:
        yield f"  {name}"
        yield textwrap.indent(meaning, "    ")
    yield textwrap.indent(textwrap.fill(guide.rules, 76), "  ")


def _description(schema: Schema, fields: list[str]) -> str:
    if schema.get("description"):
        return str(schema["description"])
    if "template" in fields:
        below = fields[fields.index("template") + 1 :]
        return f"A field of Kubernetes: kubectl explain {'.'.join(('pod', *below))}"
    return "A field of Kubernetes."


def _limits(schema: Schema) -> Iterator[str]:
    for title, key in (
        ("ENUM", "enum"),
        ("DEFAULT", "default"),
        ("MINIMUM", "minimum"),
        ("MAXIMUM", "maximum"),
    ):
        if key in schema:
            value = schema[key]
            words = [_word(item) for item in value] if isinstance(value, list) else [_word(value)]
            yield f"{title}: {', '.join(words)}"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list_fields(schema: Schema, depth: int, *, recursive: bool) -> Iterator[str]:
    required = _element(schema).get("required", ())
    for name, child in sorted(_fields(schema).items()):
        mark = " -required-" if name in required else ""
        yield f"{'  ' * depth}{name}\t<{type_name(child)}>{mark}"
        if recursive:
            yield from _list_fields(child, depth + 1, recursive=True)
        elif child.get("description"):
            yield textwrap.indent(textwrap.fill(child["description"], 74), "    " * depth)


def type_name(schema: Schema) -> str:
    """A type as kubectl writes it: `[]string`, `map[string]Object`."""
    if "x-kubernetes-int-or-string" in schema:
        return "IntOrString"
    if "x-bireme-quantity" in schema:
        return "Quantity"
    match schema.get("type"):
        case "array":
            return f"[]{type_name(schema['items'])}"
        case "object" if "additionalProperties" in schema:
            return f"map[string]{type_name(schema['additionalProperties'])}"
        case "object":
            return "Object"
        case None:
            return "any"
        case other:
            return str(other)
