"""The objects of manifests, once nothing is wrong with them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bireme.api.kinds import JOB_KINDS, find_kind
from bireme.cli.failures import Failure
from bireme.cli.sources import Source, read_sources

if TYPE_CHECKING:
    from bireme.cli.diagnostics import Diagnostic
    from bireme.cli.validate import Checked

Object = dict[str, Any]


class Manifests(NamedTuple):
    """The objects as they are written, and the warnings about them, which the caller shows."""

    objects: list[Object]
    warnings: "Sequence[Diagnostic]" = ()

    def show_warnings(self) -> None:
        if self.warnings:
            from bireme.cli.diagnostics import show

            show(self.warnings)


def load(files: Sequence[str], *, recursive: bool | None = None) -> Manifests:
    """Read and validate manifests. Errors are shown at their place, and end the command.

    Warnings are not shown yet: the line that names the target comes before them. `recursive` is None for a
    command that has no such option.
    """
    return load_sources(list(read_sources(files, recursive=recursive)))


def load_sources(sources: Sequence[Source]) -> Manifests:
    # Only here: commands that read no manifest need not wait for a YAML parser.
    from bireme.cli.diagnostics import show
    from bireme.cli.validate import check_source

    reports = [check_source(source) for source in sources]
    diagnostics = [diagnostic for report in reports for diagnostic in report.diagnostics]
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    if errors:
        show(diagnostics)
        raise Failure(f"nothing was sent: {errors} error{'' if errors == 1 else 's'} in the manifest")
    objects = [_written(checked) for report in reports for checked in report.objects]
    if not objects:
        raise Failure(f"no object in {', '.join(source.name for source in sources)}")
    return Manifests(objects, diagnostics)


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
