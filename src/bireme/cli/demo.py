"""`bireme demo`: a small MPI job, from nothing to its result."""

import shutil
import signal
import sys
import tempfile
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bireme.cli.output import echo_data

if TYPE_CHECKING:
    from bireme.run.presence import Daemon


@click.command()
@click.option("--show", is_flag=True, help="Print the manifest instead of running it.")
def command(*, show: bool) -> None:
    """Run an MPI job with four ranks on two workers, and show what they compute together.

    Everything happens on this machine, in a folder that is removed afterwards; no cluster is needed.
    """
    manifest = files("bireme.cli").joinpath("demo.yaml").read_bytes()
    if show:
        echo_data(manifest.decode(), nl=False)
        return
    from bireme.cli.failures import Failure

    if find_spec("mpi4py") is None or _mpirun() is None:
        raise Failure("the demo needs mpirun and mpi4py", "pip install '.[mpi]' in a clone of Bireme")
    raise SystemExit(_in_temporary_folder(manifest))


def _mpirun() -> str | None:
    return shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")


def _in_temporary_folder(manifest: bytes) -> int:
    from bireme.cli.down import end, stop_all
    from bireme.cli.manifests import load_sources
    from bireme.cli.sources import Source
    from bireme.cli.targets import run, started

    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _end)
    objects = load_sources([Source("demo.yaml", manifest, None)]).objects
    with tempfile.TemporaryDirectory(prefix="bireme-demo-") as folder:
        data, work = Path(folder) / "data", Path(folder) / "work"
        work.mkdir()
        daemon = started(data, quiet=True)
        try:
            return run(_run(daemon, objects, work))
        finally:
            run(stop_all(daemon, 0))
            end(daemon, data)


def _end(signum: int, _frame: object) -> None:
    """Let the folder be removed, and the daemon be stopped, also where a terminal is closed."""
    raise SystemExit(128 + signum)


async def _run(daemon: "Daemon", objects: list[dict[str, object]], directory: Path) -> int:
    """Run the job in an empty directory: `python3 -c` imports from where it is started."""
    from bireme.cli.sending import plan_submissions, send
    from bireme.cli.submitter import SubmitterOptions, annotations_for
    from bireme.cli.targets import connected, embedded
    from bireme.cli.watching import watch_jobs
    from bireme.node.submitter import DIRECTORY

    async with connected(embedded(daemon)) as connection:
        options = SubmitterOptions(first=(str(Path(sys.executable).parent),))
        annotations = annotations_for(connection, options) | {DIRECTORY: str(directory)}
        submissions = await plan_submissions(connection, objects, None)
        return await watch_jobs(connection, send(connection, submissions, annotations))
