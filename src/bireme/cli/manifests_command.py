"""`bireme manifests`: print everything that an installation is made of."""

from typing import TYPE_CHECKING, Any

import click

from bireme.cli.failures import Failure, say
from bireme.cli.output import echo_data
from bireme.cli.places import Asked, cluster_options
from bireme.cli.sources import Source, read_sources

if TYPE_CHECKING:
    from bireme.installation.authority import Authority

_SETTING_HINT = "write it as kubeflow.enabled=true; deploy/helm/bireme/values.yaml lists every value"


@click.command()
@click.option(
    "-n", "--namespace", default="bireme-system", show_default=True, help="Where Bireme is installed."
)
@click.option("-f", "--values", "files", multiple=True, help="A file of values, as for the Helm chart.")
@click.option("--set", "settings", multiple=True, help="One value: kubeflow.enabled=true.")
@click.option(
    "--authority",
    type=click.Path(exists=True, dir_okay=False),
    help="PEM file with the certificate and the key of the webhooks' authority.",
)
@cluster_options
def command(
    namespace: str,
    files: tuple[str, ...],
    settings: tuple[str, ...],
    authority: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print all objects of an installation as YAML, webhooks and CRDs included.

    The same as the Helm chart makes of the same values. The namespace itself is printed if it is
    bireme-system: any other must exist, and is neither changed nor, by `kubectl delete`, taken away.

    The Secret bireme-webhooks holds the key of the authority that the API server trusts the webhooks by. To
    upgrade, name the cluster: its authority is kept, and renewed when it is due. Without a cluster and
    without --authority a new one is made.

    \b
    bireme manifests | kubectl apply --server-side -f -
    bireme manifests --context CONTEXT | kubectl apply --server-side --force-conflicts -f -
    bireme manifests -n tools --set watchNamespace=team-a --set kubeflow.enabled=true
    """
    from bireme.api.names import is_dns_1123
    from bireme.installation.expressions import MissingValueError
    from bireme.installation.objects import build_objects
    from bireme.installation.values import ValuesError, read_values
    from bireme.manifest.writer import write

    if not is_dns_1123(namespace):
        raise click.BadParameter(f"`{namespace}` is no name of a namespace", param_hint="--namespace")
    try:
        values = read_values(_given(files, settings))
    except ValuesError as error:
        raise Failure(str(error), "deploy/helm/bireme/values.yaml lists every value") from error
    found = _authority(values, namespace, authority, Asked(kubeconfig=kubeconfig, context=context))
    try:
        objects = build_objects(values, namespace, found)
    except MissingValueError as error:
        raise Failure(str(error), "--set image.repository=registry.example/bireme") from error
    echo_data(write(objects), nl=False)


def _authority(values: dict[str, Any], namespace: str, file: str | None, asked: Asked) -> "Authority":
    """The authority of a file, else that of the cluster that is named, else a new one."""
    from pathlib import Path

    from bireme.control.webhooks.certificates import make_authority, read_authority, renew_authority
    from bireme.installation.authority import Authority
    from bireme.kube.clock import utc_now

    webhooks = values["webhooks"]
    if not webhooks["enabled"] or webhooks["certManager"]["enabled"]:
        return Authority()
    if file is not None:
        given = read_authority(Path(file).read_bytes())
        if given is None:
            raise Failure(f"{file}: no certificate of an authority with its key, both PEM")
        return given
    if asked.context is not None or asked.kubeconfig is not None:
        return renew_authority(_installed(namespace, asked), utc_now())
    say(
        "note: a new authority for the webhooks was made; to upgrade an installation, name its cluster with"
        " --context, so that it keeps its own"
    )
    return make_authority(utc_now())


def _installed(namespace: str, asked: Asked) -> "Authority":
    """The authority of the installation on a cluster; empty if there is none."""
    import asyncio
    import base64

    from bireme.cli.target_choice import Cluster, read_choice
    from bireme.cli.targets import cluster_config
    from bireme.installation.authority import Authority
    from bireme.installation.names import WEBHOOKS
    from bireme.kube.client import Client
    from bireme.kube.errors import KubeError, NotFound
    from bireme.kube.resources import SECRETS
    from bireme.kube.transport import HttpTransport

    choice = read_choice(asked)
    assert isinstance(choice, Cluster)

    async def look() -> dict[str, Any]:
        transport = HttpTransport(cluster_config(choice))
        try:
            secret = await Client(transport).get(SECRETS, namespace, WEBHOOKS)
        except NotFound:
            return {}
        finally:
            await transport.close()
        return secret.get("data") or {}

    try:
        data = asyncio.run(look())
    except KubeError as error:
        hint = error.hint or "`kubectl cluster-info` must work first; or name a file with --authority"
        raise Failure(str(error), hint) from error
    return Authority(*(base64.b64decode(data.get(name) or "") for name in ("ca.crt", "ca.key")))


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
