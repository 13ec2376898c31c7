"""`bireme render`: the objects that a job would be made of, offline."""

from typing import Any

import click

from bireme.admission import default, is_valid, validate
from bireme.api.kinds import JOB_KINDS, find_kind
from bireme.api.paths import format_path
from bireme.cli.output import echo, echo_data
from bireme.cli.sources import read_sources
from bireme.manifest import read
from bireme.manifest.writer import write
from bireme.planning import Settings
from bireme.planning.observed import CLUSTER, EMBEDDED, Keys
from bireme.planning.offline import objects_of

_REDACTED = "<redacted>"


@click.command()
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, required=True, help="The jobs."
)
@click.option(
    "--profile", type=click.Choice(["cluster", "embedded"]), default="cluster", show_default=True,
    help="Where the job shall run.",
)  # fmt: skip
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of a job that names none."
)
@click.option(
    "--show-secrets", is_flag=True, help="Print keys instead of hiding them; they are made anew each time."
)
def command(files: tuple[str, ...], profile: str, namespace: str, *, show_secrets: bool) -> None:
    """Print the objects that a job is made of, as YAML, in the order of their creation.

    These are the children of the first pass, exactly as the controller creates them; only the UID of the
    job, which a cluster gives, is zero here. Objects that are no jobs are left out.
    """
    objects = [
        job for file in files for job in _render_file(file, namespace, profile, show_secrets=show_secrets)
    ]
    if not objects:
        raise click.ClickException("no job in what was given")
    made = [obj for job in objects for obj in job]
    if not made:
        echo("nothing is created: the job is paused", err=True)
    echo_data(write(made), nl=False)


def render_file(file: str, namespace: str) -> list[Any]:
    """The objects of all jobs of a file, as on a cluster."""
    return [obj for job in _render_file(file, namespace, "cluster", show_secrets=False) for obj in job]


def _render_file(file: str, namespace: str, profile: str, *, show_secrets: bool) -> list[list[Any]]:
    objects: list[list[Any]] = []
    for source in read_sources([file]):
        manifest = read(source.data)
        if manifest.problems:
            raise click.ClickException(
                f"{source.name} can't be read\n\nhint: bireme validate -f {source.name}"
            )
        for document in manifest.documents:
            objects += _render(source.name, document.value, namespace, profile, show_secrets=show_secrets)
    return objects


def _render(source: str, value: Any, namespace: str, profile: str, *, show_secrets: bool) -> list[list[Any]]:
    kind = find_kind(value.get("apiVersion"), value.get("kind")) if isinstance(value, dict) else None
    if kind not in JOB_KINDS:
        return []
    manifest = default(value)
    problems = validate(manifest)
    if not is_valid(problems):
        first = problems[0]
        raise click.ClickException(
            f"{source}: {format_path(first.path)}: {first.message}\n\nhint: bireme validate -f {source}"
        )
    settings = Settings(profile=EMBEDDED if profile == "embedded" else CLUSTER)
    keys = _keys(show_secrets=show_secrets)
    objects = objects_of(kind, manifest, namespace, keys=keys, settings=settings)
    return [[_shown(obj, show_secrets=show_secrets) for obj in objects]]


def _keys(*, show_secrets: bool) -> Keys:
    if not show_secrets:
        return Keys()
    from bireme.control.keys import generate_keys

    return generate_keys()


def _shown(obj: dict[str, Any], *, show_secrets: bool) -> dict[str, Any]:
    if obj["kind"] != "Secret" or show_secrets:
        return obj
    return {**obj, "data": dict.fromkeys(obj["data"], _REDACTED)}
