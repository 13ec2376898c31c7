"""`bireme daemon`: the embedded mode in the foreground."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bireme.cli.durations import duration
from bireme.cli.output import echo_data
from bireme.cli.places import capacity_options, current_directory, data_folder, driver_option

if TYPE_CHECKING:
    from bireme.run.presence import Daemon


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept. Default: $XDG_STATE_HOME/bireme, or ~/.local/state/bireme.",
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Default: that of the last time.")
@click.option(
    "--idle-seconds",
    type=click.FloatRange(0),
    help="End when for so long there was no client and no job left; stay when left out.",
)
@click.option(
    "--keep-finished",
    type=duration,
    default="1h",
    show_default=True,
    help="How long a job is kept after its end; 0 keeps it for ever.",
)
@driver_option("process")
@capacity_options
@click.option("--log-format", type=click.Choice(["json", "text"]), default="text", show_default=True)
def command(
    data_dir: Path | None,
    port: int,
    idle_seconds: float | None,
    keep_finished: timedelta | None,
    driver: str,
    cpu: str,
    memory: str,
    log_format: str,
) -> None:
    """Run jobs on this machine until SIGTERM, without a cluster.

    This is what `bireme up` starts in the background. It prints one line of JSON when it is ready. Pods
    that run when it ends go on, and are found again by the next one; `bireme down` stops them.
    """
    from bireme.apiserver.database import DatabaseError
    from bireme.apiserver.serving.folder import FolderError
    from bireme.apiserver.serving.server import ListenError
    from bireme.cli.failures import Failure
    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.run.apiserver import Options
    from bireme.run.daemon import DaemonOptions, run_daemon

    log_to(sys.stderr, as_json=log_format == "json")
    folder = data_folder(data_dir)
    server = Options(folder, port=port)
    options = DaemonOptions(server, current_directory(), idle_seconds, keep_finished, driver, cpu, memory)
    try:
        run(run_daemon(options, _say_ready))
    except (FolderError, DatabaseError, ListenError) as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror or error}") from error


def _say_ready(daemon: "Daemon") -> None:
    import msgspec

    echo_data(msgspec.json.encode(daemon).decode())
    sys.stdout.flush()
    # Whoever waits for that line reads to the end of it, and has gone by the time of another.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
