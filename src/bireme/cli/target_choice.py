"""Which API server a command talks to: that of this machine's daemon, or a cluster's.

Only what the user has said decides, in this order:

1. `--context` or `--kubeconfig`: that cluster, as kubectl would find it.
2. `--data-dir`: the daemon of that folder.
3. The choice that `bireme use` saved.
4. The daemon of the default folder.

Whether a daemon runs, $KUBECONFIG and ~/.kube/config never decide: the first changes by itself when the
daemon reaches its idle timeout, and the others belong to kubectl. They would send a command to another
target than the one before it, and the command may be `delete`.

The saved choice is one file per user. It holds absolute paths, so that neither the current directory nor
the environment changes its meaning. A file that can't be read is an error for every command that depends
on it, never a reason to take another target; `bireme use` replaces it.

`decide` is pure. `read_choice` adds the file.
"""

import os
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from bireme.cli.failures import Failure
from bireme.cli.places import Asked
from bireme.private_files import read_file

FILE: Final = "target.json"
MEND: Final = (
    "`bireme use local` returns to this machine, `bireme use CONTEXT` chooses a cluster;"
    " --context or --data-dir choose for one command"
)


class SavedLocal(msgspec.Struct, frozen=True, tag="local", tag_field="target"):
    """`bireme use local` was the last choice."""


class SavedCluster(msgspec.Struct, frozen=True, tag="cluster", tag_field="target"):
    """A context, and the files in which it was found."""

    context: str
    kubeconfig: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.context or not self.kubeconfig:
            raise ValueError("context or kubeconfig is empty")
        if not all(Path(path).is_absolute() for path in self.kubeconfig):
            raise ValueError("kubeconfig has a relative path")

    def __str__(self) -> str:
        return f"context {self.context} of {', '.join(self.kubeconfig)}"


SavedTarget = SavedLocal | SavedCluster


class Local(NamedTuple):
    """The daemon of a folder on this machine; None is the default folder."""

    data_dir: Path | None = None


class Cluster(NamedTuple):
    """A cluster; no files are those that kubectl reads, no context is their current one."""

    kubeconfig: tuple[str, ...] = ()
    context: str | None = None
    saved: SavedCluster | None = None


Choice = Local | Cluster


def decide(asked: Asked, saved: SavedTarget | None) -> Choice:
    """Return whom a command talks to. Raises click.UsageError for options that contradict each other."""
    if asked.is_cluster and asked.data_dir is not None:
        hint = "leave out --data-dir, or --context and --kubeconfig"
        raise click.UsageError(f"--data-dir is for this machine, and a cluster was named\n\nhint: {hint}")
    if asked.is_cluster:
        return Cluster(() if asked.kubeconfig is None else (asked.kubeconfig,), asked.context)
    if asked.data_dir is None and isinstance(saved, SavedCluster):
        return Cluster(saved.kubeconfig, saved.context, saved)
    return Local(asked.data_dir)


def read_choice(asked: Asked) -> Choice:
    """Return whom a command talks to. The saved choice is not read where options decide."""
    is_said = asked.is_cluster or asked.data_dir is not None
    return decide(asked, None if is_said else load())


def path_of_saved() -> Path | None:
    """Return the path of the saved choice by XDG's rules; None for a user without a home."""
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        # XDG Base Directory Specification: relative paths in these variables are invalid, ignore them.
        folder = configured if configured.is_absolute() else Path.home() / ".config"
    except RuntimeError:
        return None
    return folder / "bireme" / FILE


def load() -> SavedTarget | None:
    """Return the saved choice, or None if there is none. Raises Failure if it can't be read."""
    path = path_of_saved()
    if path is None:
        return None
    try:
        saved: SavedTarget = msgspec.json.decode(read_file(path), type=SavedTarget)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"can't read the saved target {path}: {error.strerror}", MEND) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(f"can't read the saved target {path}: {error}", MEND) from error
    return saved


def save(saved: SavedTarget) -> Path:
    """Write the choice atomically, readable by its owner alone; return its path."""
    path = path_of_saved()
    if path is None:
        raise Failure("you have no home directory", "set HOME or XDG_CONFIG_HOME")
    temporary = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp creates the file with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(saved) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise Failure(f"can't write {path}: {error.strerror}") from error
    return path
