"""The objects of manifests, once nothing is wrong with them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bireme.api.kinds import JOB_KINDS, find_kind
from bireme.cli.failures import Failure
from bireme.cli.sources import Source, read_sources

if TYPE_CHECKING:
    from bireme.cli.validate import Checked

Object = dict[str, Any]


def load(files: Sequence[str], *, recursive: bool | None = None) -> list[Object]:
    """The objects as they are written. What is wrong is shown at its place, and ends the command.

    `recursive` is None for a command that has no such option.
    """
    return load_sources(list(read_sources(files, recursive=recursive)))


def load_sources(sources: Sequence[Source]) -> list[Object]:
    # Only here: commands that read no manifest need not wait for a YAML parser.
    from bireme.cli.diagnostics import show
    from bireme.cli.validate import check_source

    reports = [check_source(source) for source in sources]
    diagnostics = [diagnostic for report in reports for diagnostic in report.diagnostics]
    show(diagnostics)
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    if errors:
        raise Failure(f"nothing was sent: {errors} error{'' if errors == 1 else 's'} in the manifest")
    objects = [_written(checked) for report in reports for checked in report.objects]
    if not objects:
        raise Failure(f"no object in {', '.join(source.name for source in sources)}")
    return objects


def is_job(obj: Object) -> bool:
    return find_kind(obj.get("apiVersion"), obj.get("kind")) in JOB_KINDS


def with_metadata(obj: Object, **fields: Any) -> Object:
    """The object with these fields of its metadata."""
    return obj | {"metadata": (obj.get("metadata") or {}) | fields}


def with_annotations(obj: Object, annotations: dict[str, str]) -> Object:
    """The object with these annotations where it does not have its own."""
    own = (obj.get("metadata") or {}).get("annotations") or {}
    return with_metadata(obj, annotations=annotations | own)


def _written(checked: "Checked") -> Object:
    """What stands in the text, without the defaults: those are the server's to fill in."""
    value: Any = checked.document.value
    for step in checked.prefix:
        value = value[step]
    return dict(value)
