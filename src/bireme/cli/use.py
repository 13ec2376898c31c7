"""`bireme use`: save the target of all commands that name none."""

import os
from pathlib import Path
from typing import Final

import click

from bireme.cli.failures import Failure, say
from bireme.cli.output import echo

LOCAL: Final = "local"


@click.command()
@click.argument("name", metavar="[CONTEXT|local]", required=False)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="Where the context is. Default: $KUBECONFIG, ~/.kube/config.",
)
def command(name: str | None, kubeconfig: str | None) -> None:
    """Choose the cluster that commands talk to, or this machine, which is the default.

    \b
    bireme use                 print the present choice; the contexts go to standard error
    bireme use staging         the cluster of this context
    bireme use local           this machine

    The choice is kept in $XDG_CONFIG_HOME/bireme, or ~/.config/bireme. --context, --kubeconfig and --data-dir
    choose for one command. $KUBECONFIG and the current context of kubectl choose nothing.
    """
    if name == "" or kubeconfig == "":
        raise click.UsageError("CONTEXT or --kubeconfig is empty")
    if name is None:
        _show(kubeconfig)
    elif name == LOCAL:
        if kubeconfig is not None:
            raise click.UsageError("`bireme use local` is this machine, and has no kubeconfig")
        _use_local()
    else:
        _use_cluster(name, kubeconfig)


def _show(kubeconfig: str | None) -> None:
    from bireme.cli.target_choice import SavedCluster, load

    saved = load()
    echo(LOCAL if not isinstance(saved, SavedCluster) else saved.context)
    files = _absolute_paths(kubeconfig)
    if kubeconfig is None and isinstance(saved, SavedCluster):
        files = saved.kubeconfig
    if not files:
        return
    try:
        say(f"contexts of {', '.join(files)}: {', '.join(_context_names(files)) or 'none'}")
    except Failure as failure:
        say(f"contexts: {failure.message}")


def _use_local() -> None:
    from bireme.cli.places import data_folder
    from bireme.cli.target_choice import SavedLocal, save
    from bireme.cli.targets import local_title

    save(SavedLocal())
    say(f"commands talk to {local_title(data_folder(None))}")


def _use_cluster(context: str, kubeconfig: str | None) -> None:
    """Save a context that can be used now; whether its cluster can be reached is not tried."""
    from bireme.cli.target_choice import Cluster, SavedCluster, save
    from bireme.cli.targets import Target, cluster_config

    files = _absolute_paths(kubeconfig)
    if not files:
        raise Failure("there is no kubeconfig", "set KUBECONFIG, or name a file with --kubeconfig")
    names = _context_names(files)
    if context not in names:
        raise Failure(
            f"there is no context {context} in {', '.join(files)}", f"contexts: {', '.join(names) or 'none'}"
        )
    config = cluster_config(Cluster(files, context))
    save(SavedCluster(context, files))
    say(f"commands talk to {Target(config=config).title}")


def _absolute_paths(kubeconfig: str | None) -> tuple[str, ...]:
    """Return the files to read: the one given, or those of kubectl that exist."""
    from bireme.kube.config import kubeconfig_paths

    if kubeconfig is not None:
        return (str(Path(kubeconfig).absolute()),)
    return tuple(str(path.absolute()) for path in kubeconfig_paths(os.environ) if path.exists())


def _context_names(files: tuple[str, ...]) -> list[str]:
    from bireme.kube.config import read_kubeconfig
    from bireme.kube.errors import ConfigError

    try:
        return read_kubeconfig(files, os.environ).context_names
    except ConfigError as error:
        raise Failure(str(error), error.hint) from error
