"""`bireme crds`: print the CustomResourceDefinitions."""

import click

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, Kind, kinds_named
from bireme.cli.output import echo_data
from bireme.manifest.writer import write


@click.command()
@click.argument("kinds", nargs=-1)
def command(kinds: tuple[str, ...]) -> None:
    """Print the CRDs of all kinds, or of KINDS, as YAML.

    \b
    bireme crds | kubectl apply -f -
    bireme crds genericjob mpijobs.kubeflow.org
    """
    chosen = list(KINDS) if not kinds else [kind for word in kinds for kind in _named(word)]
    echo_data(write([build_crd(kind) for kind in dict.fromkeys(chosen)]), nl=False)


def _named(word: str) -> list[Kind]:
    found = list(kinds_named(word))
    if not found:
        known = ", ".join(kind.crd_name for kind in KINDS)
        raise click.UsageError(f"no kind is named {word}\n\nhint: known kinds: {known}")
    return found
