"""`bireme apiserver`: Kubernetes' API on one machine."""

import sys
from pathlib import Path

import click

from bireme.cli.output import echo


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept. Default: $XDG_STATE_HOME/bireme, or ~/.local/state/bireme.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Default: that of the last time, or any that is free.",
)
@click.option(
    "--tls-cert", type=click.Path(dir_okay=False, path_type=Path), help="A certificate of your own."
)
@click.option("--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="The key of --tls-cert.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the token that clients must send.",
)
@click.option("--log-format", type=click.Choice(["json", "text"]), default="text", show_default=True)
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    token_file: Path | None,
    log_format: str,
) -> None:
    """Serve Kubernetes' API on this machine until SIGTERM, without a cluster.

    `kubectl --kubeconfig $(bireme kubeconfig)` talks to it. Jobs are stored and checked, but not run.
    """
    from bireme.apiserver.database import DatabaseError
    from bireme.apiserver.serving.folder import FolderError, default_path
    from bireme.apiserver.serving.server import ListenError
    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.run.apiserver import Options, run_apiserver

    log_to(sys.stderr, as_json=log_format == "json")
    options = Options(data_dir or default_path(), host, port, tls_cert, tls_key, token_file)
    try:
        run(run_apiserver(options, lambda text: echo(text, err=True, nl=False)))
    except (FolderError, DatabaseError, ListenError) as error:
        raise click.ClickException(str(error)) from error
