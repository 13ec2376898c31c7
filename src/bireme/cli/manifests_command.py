"""`bireme manifests`: print everything that an installation is made of."""

from typing import Any

import click

from bireme.cli.failures import Failure
from bireme.cli.sources import Source, read_sources

_SETTING_HINT = "write it as kubeflow.enabled=true; deploy/helm/bireme/values.yaml lists every value"


@click.command()
@click.option(
    "-n", "--namespace", default="bireme-system", show_default=True, help="Where Bireme is installed."
)
@click.option("-f", "--values", "files", multiple=True, help="A file of values, as for the Helm chart.")
@click.option("--set", "settings", multiple=True, help="One value: kubeflow.enabled=true.")
def command(namespace: str, files: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Print all objects of an installation as YAML, webhooks and CRDs included.

    The same as the Helm chart makes of the same values. The namespace itself is printed if it is
    bireme-system: any other must exist, and is neither changed nor, by `kubectl delete`, taken away.

    \b
    bireme manifests | kubectl apply --server-side -f -
    bireme manifests -n tools --set watchNamespace=team-a --set kubeflow.enabled=true
    """
    from bireme.api.names import is_dns_1123
    from bireme.installation.objects import build_objects
    from bireme.installation.values import ValuesError, read_values
    from bireme.manifest.writer import write

    if not is_dns_1123(namespace):
        raise click.BadParameter(f"`{namespace}` is no name of a namespace", param_hint="--namespace")
    try:
        values = read_values(_given(files, settings))
    except ValuesError as error:
        raise Failure(str(error), "deploy/helm/bireme/values.yaml lists every value") from error
    click.echo(write(build_objects(values, namespace)), nl=False)


def _given(files: tuple[str, ...], settings: tuple[str, ...]) -> dict[str, Any]:
    """Files in their order, then single values; the last one counts."""
    from bireme.installation.values import overlay

    given: dict[str, Any] = {}
    for source in read_sources(files):
        given = overlay(given, _file_values(source))
    for setting in settings:
        given = overlay(given, _single_value(setting))
    return given


def _file_values(source: Source) -> dict[str, Any]:
    from bireme.manifest import read

    manifest = read(source.data)
    for problem in manifest.problems:
        place = f"{source.name}:{problem.span.line}:{problem.span.column}"
        raise Failure(f"{place}: {problem.message}", problem.hint or "")
    documents = [document.value for document in manifest.documents]
    if len(documents) > 1 or not all(isinstance(value, dict) for value in documents):
        raise Failure(f"{source.name}: values are one map", _SETTING_HINT)
    return dict(documents[0]) if documents else {}  # type: ignore[call-overload]


def _single_value(setting: str) -> dict[str, Any]:
    path, equals, text = setting.partition("=")
    if not equals or not path:
        raise click.BadParameter(f"`{setting}` sets nothing\n\nhint: {_SETTING_HINT}", param_hint="--set")
    value: Any = _parsed(text)
    for name in reversed(path.split(".")):
        value = {name: value}
    result: dict[str, Any] = value
    return result


def _parsed(text: str) -> Any:
    """As Helm reads a value: whole numbers, true, false, null, JSON's lists and maps; all else is text."""
    import json

    if text in ("true", "false", "null") or text.isdecimal() or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
