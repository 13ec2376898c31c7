"""`bireme up`: start the embedded mode in the background."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from bireme.cli.durations import duration
from bireme.cli.failures import Failure, say
from bireme.cli.output import echo_data
from bireme.cli.places import capacity_options, data_dir_option, data_folder, driver_option

if TYPE_CHECKING:
    from bireme.run.presence import Daemon


def _checked(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """The daemon reads it once more; but one that runs already would not."""
    duration(value)
    return value


@click.command()
@data_dir_option
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Default: that of the last time.")
@click.option(
    "--keep-finished",
    default="1h",
    show_default=True,
    callback=_checked,
    help="How long a job is kept after its end; 0 keeps it for ever.",
)
@driver_option("process")
@capacity_options
@click.pass_context
def command(ctx: click.Context, /, data_dir: Path | None, **options: Any) -> None:
    """Start the embedded mode in the background: jobs run on this machine, without a cluster.

    Returns when it is ready, and prints the path of the kubeconfig, with which kubectl works too. One that
    runs already is fine, unless it has other settings than those that are asked for; it stays until
    `bireme down`.
    """
    from bireme.cli.targets import say_local
    from bireme.run.presence import StartError, ensure

    folder = data_folder(data_dir)
    words = {name: f"--{name.replace('_', '-')}" for name in options}
    arguments = tuple(text for name, value in options.items() for text in (words[name], str(value)))
    given = {name: str(options[name]) for name in words if _is_given(ctx, name)}
    try:
        daemon, is_new = ensure(
            folder,
            stays=True,
            arguments=arguments,
            accept=lambda running: _refuse_others(running, given),
        )
    except StartError as error:
        raise Failure(str(error)) from error
    say_local(folder)
    say(f"{'ready' if is_new else 'running already'}: {daemon.url} (process {daemon.pid})")
    say(f"for kubectl: export KUBECONFIG={daemon.kubeconfig}")
    echo_data(daemon.kubeconfig)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _refuse_others(daemon: "Daemon", given: Mapping[str, str]) -> None:
    """Fail if a daemon that runs has other settings than those that were given, or does not tell."""
    others = [name for name, value in given.items() if not _HAS[name](daemon, value)]
    if others:
        told = " and ".join(f"--{name.replace('_', '-')} {given[name]}" for name in others)
        raise Failure(
            f"a daemon runs already (process {daemon.pid}), with its own settings: not with {told}",
            "`bireme down` stops it, and all that runs in it; then start it anew",
        )


def _has_port(daemon: "Daemon", value: str) -> bool:
    return value == "0" or daemon.url.endswith(f":{value}")


def _keeps(daemon: "Daemon", value: str) -> bool:
    span = duration(value)
    return daemon.keep_finished_seconds == (span.total_seconds() if span else 0)


def _is_same(own: str | None, value: str) -> bool:
    """Whether two quantities are the same; an empty one is all there is."""
    from bireme.api.quantity import parse_quantity

    if not own or not value:
        return own == value
    return parse_quantity(own) == parse_quantity(value)


_HAS: Final[dict[str, Callable[["Daemon", str], bool]]] = {
    "port": _has_port,
    "keep_finished": _keeps,
    "driver": lambda daemon, value: daemon.driver == value,
    "cpu": lambda daemon, value: _is_same(daemon.cpu, value),
    "memory": lambda daemon, value: _is_same(daemon.memory, value),
}
