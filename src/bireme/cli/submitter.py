"""What jobs on this machine take from the user who submits them: directory, PATH, environment, ulimits."""

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import NamedTuple

from bireme.cli.failures import Failure
from bireme.cli.targets import Connection
from bireme.node.submitter import (
    DIRECTORY,
    DRIVER,
    PATH,
    SUBMITTER,
    Selection,
    Submitter,
    read_limits,
    read_umask,
    save,
    select_variables,
)
from bireme.run.presence import Daemon


class SubmitterOptions(NamedTuple):
    """Command line options about what jobs inherit from the submitter."""

    first: tuple[str, ...] = ()
    """Folders in which programs are found before those of PATH."""
    driver: str = ""
    selection: Selection = "usual"
    """Which variables of this process jobs get."""
    names: tuple[str, ...] = ()
    """Variables that jobs get whatever the selection is."""

    @property
    def path(self) -> str:
        """PATH for jobs; programs that came with this Python, such as mpirun, are found last."""
        own = os.environ.get("PATH", os.defpath).split(os.pathsep)
        return os.pathsep.join(dict.fromkeys([*self.first, *own, str(Path(sys.executable).parent)]))


def annotations_for(connection: Connection, options: SubmitterOptions) -> dict[str, str]:
    """Return the annotations that tell this machine's node where jobs come from; none for a cluster."""
    if connection.target.daemon is None:
        return {}
    variables = select_variables(os.environ, options.selection, options.names)
    submitter = Submitter(variables, read_umask(), read_limits(), options.selection)
    annotations = {PATH: options.path, SUBMITTER: _saved(connection.target.daemon, submitter)}
    if options.driver:
        annotations[DRIVER] = options.driver
    with contextlib.suppress(FileNotFoundError):
        annotations[DIRECTORY] = str(Path.cwd())
    return annotations


def _saved(daemon: Daemon, submitter: Submitter) -> str:
    folder = Path(daemon.kubeconfig).parent
    try:
        return save(folder, submitter)
    except ValueError as error:
        raise Failure(f"{error}", "--env-none passes no variables but those of --env") from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"the disk of {folder} is full: no job can be started"
        raise Failure(message, "`bireme delete JOB` removes a job with its output") from error
