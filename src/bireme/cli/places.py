"""Where a command does its work: options, and what was said with them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from bireme.cli.failures import Failure

T = TypeVar("T")
_HELP = "Where the daemon keeps everything. Default: $XDG_STATE_HOME/bireme, or ~/.local/state/bireme."
_NAMESPACE_HELP = "Default: that of the kubeconfig's context, or `default`."


class Asked(NamedTuple):
    """What the user said about where."""

    data_dir: Path | None = None
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def is_cluster(self) -> bool:
        return self.kubeconfig is not None or self.context is not None


def data_dir_option(function: Callable[..., T]) -> Callable[..., T]:
    option = click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help=_HELP)
    return option(function)


def driver_option(default: str | None) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """What runs pods on this machine."""
    text = "What runs pods on this machine: its own programs, or podman, with their image."
    choice = click.Choice(["process", "podman"])
    return click.option("--driver", type=choice, default=default, show_default=bool(default), help=text)


def capacity_options(function: Callable[..., T]) -> Callable[..., T]:
    """What queued jobs may have of this machine."""
    for name, text in (("memory", "memory, such as 16Gi"), ("cpu", "CPUs, such as 4 or 500m")):
        told = f"How much queued jobs may have together: {text}. Default: all there is."
        function = click.option(f"--{name}", default="", callback=_quantity, help=told)(function)
    return function


def _quantity(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    from bireme.api.quantity import QuantityError, parse_quantity

    try:
        if value and parse_quantity(value).nanos <= 0:
            raise click.BadParameter(f"{value}: must be more than 0")
    except QuantityError as error:
        raise click.BadParameter(f"{error}; write it as 4, 500m or 16Gi") from error
    return value


def data_folder(data_dir: Path | None) -> Path:
    """Where the daemon keeps everything: as it was said, or by XDG's rules."""
    from bireme.apiserver.serving.folder import default_path

    try:
        folder = data_dir or default_path()
    except RuntimeError as error:
        raise Failure("you have no home directory", "set HOME, or name a folder with --data-dir") from error
    return folder if folder.is_absolute() else current_directory() / folder


def current_directory() -> Path:
    """Where the user is. Fails if that directory was deleted meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise Failure("the current directory is gone", "change to one that is there, say `cd ~`") from error


def target_options(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options that choose a target; it gets them as `asked`.

    Without them the command talks to the target that `bireme use` has saved, or to this machine.
    """

    @functools.wraps(function)
    def command(
        *args: Any,
        data_dir: Path | None,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        **kwargs: Any,
    ) -> T:
        return function(*args, asked=Asked(data_dir, kubeconfig, context, namespace), **kwargs)

    namespace_option = click.option("-n", "--namespace", help=_NAMESPACE_HELP)
    return data_dir_option(namespace_option(cluster_options(command)))


def cluster_options(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options that name a cluster. An empty value, as of an unset variable, is refused."""
    function = click.option(
        "--context", callback=_not_empty, help="Use the cluster of this context of the kubeconfig."
    )(function)
    return click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        callback=_not_empty,
        help="Use the cluster of this file.",
    )(function)


def yes_option(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command that may ask the option not to."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def _not_empty(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("it is empty")
    return value
