"""`bireme up`: start the embedded mode in the background."""

from pathlib import Path

import click

from bireme.cli.places import capacity_options, data_dir_option, data_folder, driver_option


@click.command()
@data_dir_option
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Default: that of the last time.")
@click.option(
    "--keep-finished", default="1h", show_default=True, help="How long a job is kept after its end."
)
@driver_option("process")
@capacity_options
def command(data_dir: Path | None, port: int, keep_finished: str, driver: str, cpu: str, memory: str) -> None:
    """Start the embedded mode in the background: jobs run on this machine, without a cluster.

    Returns when it is ready, and prints the path of the kubeconfig, with which kubectl works too. One that
    runs already is fine; it stays until `bireme down`.
    """
    from bireme.cli.failures import Failure, say
    from bireme.run.presence import StartError, ensure

    arguments: tuple[str, ...] = ("--port", str(port), "--keep-finished", keep_finished, "--driver", driver)
    arguments += ("--cpu", cpu, "--memory", memory)
    try:
        daemon, is_new = ensure(data_folder(data_dir), stays=True, arguments=arguments)
    except StartError as error:
        raise Failure(str(error)) from error
    say(f"{'ready' if is_new else 'running already'}: {daemon.url} (process {daemon.pid})")
    say(f"for kubectl: export KUBECONFIG={daemon.kubeconfig}")
    click.echo(daemon.kubeconfig)
