"""`bireme kubeconfig`: where the kubeconfig of the embedded API server is."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="That of the server. Default: $XDG_STATE_HOME/bireme, or ~/.local/state/bireme.",
)
def command(data_dir: Path | None) -> None:
    """Print the path of the embedded API server's kubeconfig.

    For example: kubectl --kubeconfig $(bireme kubeconfig) get pods
    """
    from bireme.apiserver.serving.folder import Folder, default_path

    path = Folder(data_dir or default_path()).kubeconfig
    if not path.exists():
        raise click.ClickException(
            f"no API server runs here: there is no {path}\n\nhint: start one with `bireme up`"
        )
    click.echo(path)
