"""`bireme webhooks`: serve the admission webhooks of a cluster."""

import sys

import click

from bireme.cli.processes import process_options


@click.command()
@process_options(health_port=8083, leader_elect=False)
@click.option(
    "--home",
    default="default",
    show_default=True,
    help="Namespace of the installation, and of the ConfigMap `resource-shapes`.",
)
@click.option(
    "--certificates",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    help="Folder of the Secret `bireme-webhooks`: ca.crt and ca.key, or tls.crt and tls.key.",
)
@click.option(
    "--certificates-from",
    type=click.Choice(["own", "external"]),
    default="own",
    show_default=True,
    help="`own`: sign with ca.key; `external`: serve tls.crt, which somebody else renews.",
)
@click.option("--host", default="*", show_default=True, help="Where to listen; `*` is everywhere.")
@click.option("--port", default=9443, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A name or address that the API server calls; the Service's when left out.",
)
@click.option(
    "--controller-user",
    default="",
    help="Who makes the children of jobs; the account `bireme-controller` of --home when left out.",
)
@click.option(
    "--drain-seconds",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 600),
    help="How long to serve after SIGTERM, not ready, until the API server calls another replica.",
)
def command(
    kubeconfig: str | None,
    context: str | None,
    home: str,
    folder: str,
    certificates_from: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    controller_user: str,
    drain_seconds: float,
    health_host: str,
    health_port: int,
    log_format: str,
) -> None:
    """Serve admission webhooks until SIGTERM: defaults, validation, and who may use a queue."""
    from pathlib import Path

    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.kube.errors import KubeError
    from bireme.run.webhooks import Options, run_webhooks

    log_to(sys.stderr, as_json=log_format == "json")
    options = Options(
        Path(folder),
        home,
        certificates_from == "own",
        kubeconfig,
        context,
        host,
        port,
        names,
        controller_user,
        drain_seconds,
        health_host,
        health_port,
    )
    try:
        run(run_webhooks(options))
    except (KubeError, OSError) as error:
        raise click.ClickException(str(error)) from error
