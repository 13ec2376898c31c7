"""Options of the commands that run on a cluster for good."""

from collections.abc import Callable
from typing import TypeVar

import click

T = TypeVar("T")


def process_options(
    health_port: int, *, leader_elect: bool = True
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Which cluster, whether to take turns, where health is told, and how to log."""
    election = click.option(
        "--leader-elect/--no-leader-elect",
        default=True,
        show_default=True,
        help="Take turns with others of its kind.",
    )
    options = (
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False),
            help="Default: $KUBECONFIG, ~/.kube/config, or in-cluster.",
        ),
        click.option("--context", help="A context of the kubeconfig."),
        *((election,) if leader_elect else ()),
        click.option(
            "--health-host",
            default="127.0.0.1",
            show_default=True,
            help="Where /healthz, /readyz and /metrics listen; `*` is everywhere.",
        ),
        click.option("--health-port", default=health_port, show_default=True, type=click.IntRange(0, 65535)),
        click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True),
    )

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
