"""`bireme validate`: check manifests, offline."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click

from bireme.admission import Problem, default, is_valid, validate
from bireme.api.kinds import find_kind
from bireme.api.paths import Path, format_path
from bireme.cli.diagnostics import Diagnostic, as_data, show
from bireme.cli.output import echo, echo_data
from bireme.cli.sources import STDIN, Source, read_sources
from bireme.manifest import Document, Manifest, Span, SyntaxProblem, read
from bireme.terminal_text import escape_json, one_line

# The line breaks of YAML; str.splitlines knows more of them.
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class Checked(NamedTuple):
    """An object of a manifest, defaulted, with its problems."""

    document: Document
    prefix: Path
    object: Any
    problems: list[Problem]


class Report(NamedTuple):
    """What was found in one source."""

    source: Source
    manifest: Manifest
    objects: list[Checked]
    diagnostics: list[Diagnostic]

    def count(self, severity: str) -> int:
        return sum(diagnostic.severity == severity for diagnostic in self.diagnostics)


@click.command()
@click.argument("more", metavar="[FILE|DIR|-]...", nargs=-1)
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, help="What to check; `-` is stdin."
)
@click.option("-R", "--recursive", is_flag=True, help="Look into the folders of a folder too.")
@click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]),
    help="json: the problems; yaml: the objects with defaults filled in.",
)  # fmt: skip
@click.option("--fix", is_flag=True, help="Rewrite what has one right fix; comments stay.")
def command(
    more: tuple[str, ...], files: tuple[str, ...], output: str | None, *, recursive: bool, fix: bool
) -> None:
    """Check manifests with the rules of a cluster, offline.

    Kinds that are not Bireme's pass through. Exit status: 0 if everything is valid (warnings
    included), 1 if something is not, 2 if the command line is wrong.
    """
    names = (*files, *more)
    if not names:
        raise click.UsageError("nothing to check\n\nhint: bireme validate -f job.yaml")
    reports = [_report(source, fix=fix) for source in read_sources(names, recursive=recursive)]
    diagnostics = [diagnostic for report in reports for diagnostic in report.diagnostics]
    if output != "json":
        show(diagnostics)
    valid = all(diagnostic.severity != "error" for diagnostic in diagnostics)
    if output == "json":
        _print_json(reports, diagnostics, valid=valid)
    elif output == "yaml":
        _print_yaml(reports, valid=valid)
    elif not (fix and STDIN in names):
        _print_summary(reports, diagnostics)
    raise SystemExit(0 if valid else 1)


def _report(source: Source, *, fix: bool) -> Report:
    if not fix:
        return check_source(source)
    from bireme.cli.fixes import repair

    report, fixed = repair(source)
    text = report.manifest.text
    if source.file is None:
        echo_data(text, nl=False)
    elif fixed:
        source.file.write_bytes(text.encode())
        echo(f"{source.name}: fixed {fixed} problem{'s' if fixed > 1 else ''}", err=True)
    return report


def check_source(source: Source) -> Report:
    """Read a source and check every object in it; diagnostics are in the order of the text."""
    manifest = read(source.data)
    lines = _LINE_BREAK.split(manifest.text)
    diagnostics = [_broken_text(source.name, problem, lines) for problem in manifest.problems]
    objects: list[Checked] = []
    for document in manifest.documents:
        for prefix, value in _objects(document.value):
            checked = _check_object(document, prefix, value)
            objects.append(checked)
            diagnostics += [_place(source.name, checked, problem, lines) for problem in checked.problems]
    diagnostics.sort(key=lambda diagnostic: (diagnostic.span.start, diagnostic.severity))
    return Report(source, manifest, objects, diagnostics)


def _objects(value: Any) -> Iterator[tuple[Path, Any]]:
    """The objects of a document: itself, or the items of a List."""
    if isinstance(value, Mapping) and _is_list(value):
        for index, item in enumerate(value["items"]):
            for prefix, inner in _objects(item):
                yield ("items", index, *prefix), inner
    else:
        yield (), value


def _is_list(value: Mapping[str, Any]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)


def _check_object(document: Document, prefix: Path, value: Any) -> Checked:
    if not isinstance(value, Mapping):
        message = "a manifest is an object with apiVersion and kind"
        return Checked(document, prefix, value, [Problem("error", (), "type", message, value)])
    missing = [
        Problem(
            "error", (field,), "required", "required field is missing", hint=f"such as {field}: {example}"
        )
        for field, example in (("apiVersion", "batch.tensorstack.dev/v1beta1"), ("kind", "MPIJob"))
        if not isinstance(value.get(field), str)
    ]
    if missing:
        return Checked(document, prefix, value, missing)
    defaulted = default(value)
    return Checked(document, prefix, defaulted, validate(defaulted))


def _place(name: str, checked: Checked, problem: Problem, lines: list[str]) -> Diagnostic:
    document, path = checked.document, (*checked.prefix, *problem.path)
    found = document.find_key(path) if problem.at_key else document.find(path)
    span = found or document.nearest(path)
    return Diagnostic(
        name,
        span,
        problem.severity,
        problem.message,
        problem.hint,
        _line(lines, span),
        format_path(path),
        problem,
    )


def _broken_text(name: str, problem: SyntaxProblem, lines: list[str]) -> Diagnostic:
    return Diagnostic(name, problem.span, "error", problem.message, problem.hint, _line(lines, problem.span))


def _line(lines: list[str], span: Span) -> str:
    return lines[span.line - 1] if span.line <= len(lines) else ""


def _print_summary(reports: list[Report], diagnostics: list[Diagnostic]) -> None:
    for report in reports:
        for checked in report.objects if not report.manifest.problems else ():
            if is_valid(checked.problems):
                echo(f"{report.source.name}: {_title(checked.object)}")
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    warnings = len(diagnostics) - errors
    if diagnostics:
        echo(f"\n{_plural(errors, 'error')}, {_plural(warnings, 'warning')}", err=True)


def _title(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, Mapping) else None
    checked = "valid" if find_kind(obj["apiVersion"], obj["kind"]) else "not a kind of Bireme, passed through"
    return f"{one_line(obj['kind'])} {one_line(str(name or '(no name)'))}: {checked}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _print_json(reports: list[Report], diagnostics: list[Diagnostic], *, valid: bool) -> None:
    import msgspec

    data = {
        "valid": valid,
        "files": len(reports),
        "objects": sum(len(report.objects) for report in reports),
        "errors": sum(report.count("error") for report in reports),
        "warnings": sum(report.count("warning") for report in reports),
        "problems": [as_data(diagnostic) for diagnostic in diagnostics],
    }
    echo_data(escape_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()))


def _print_yaml(reports: list[Report], *, valid: bool) -> None:
    from bireme.manifest.writer import write

    if valid:
        echo_data(write([checked.object for report in reports for checked in report.objects]), nl=False)
