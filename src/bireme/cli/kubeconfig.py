"""`bireme kubeconfig`: where the kubeconfig of the embedded API server is."""

from pathlib import Path

import click

from bireme.cli.output import echo_data


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
    from bireme.private_files import UnsafeFileError, check_folder

    folder = Folder(data_dir or default_path())
    path = folder.kubeconfig
    try:
        check_folder(folder.path)
    except FileNotFoundError:
        pass
    except UnsafeFileError as error:
        raise click.ClickException(error.message) from error
    if not path.exists():
        raise click.ClickException(
            f"no API server runs here: there is no {path}\n\nhint: start one with `bireme up`"
        )
    echo_data(str(path))
