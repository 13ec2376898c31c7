"""`bireme doctor`: check an installation on a cluster, and say what to fix."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from bireme.cli.durations import duration
from bireme.cli.failures import USAGE, Failure, say
from bireme.cli.output import Styled, echo, echo_data
from bireme.cli.places import Asked, cluster_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bireme.installation.checkup import Finding
    from bireme.kube.clock import Clock
    from bireme.kube.config import ClusterConfig

PROBLEMS = 1
UNREACHABLE = 3
_PAUSE_SECONDS = 2.0
_MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "red")}


@click.command()
@click.option(
    "-n", "--namespace", default="bireme-system", show_default=True, help="Where Bireme is installed."
)
@cluster_options
@click.option(
    "--wait", type=duration, help="Look again until there are no errors, but no longer than this, such as 2m."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    namespace: str, kubeconfig: str | None, context: str | None, wait: timedelta | None, output: str
) -> None:
    """Check an installation on the cluster that --context, --kubeconfig or `bireme use` names.

    Looks at CRDs, the pods, leases and permissions of controller, webhooks and scheduler, what the API server
    asks the webhooks and whom it trusts, other operators, queues and the network, and says what to fix.
    Changes nothing.

    Exit status: 0 all is well, or there are warnings alone; 1 something is broken; 2 no cluster was named;
    3 the cluster can't be reached.
    """
    config = _cluster_config(Asked(kubeconfig=kubeconfig, context=context))
    say(f"on {config.server} ({config.source}), namespace {namespace}")
    findings = _findings(config, namespace, wait or timedelta())
    if output == "json":
        echo_data(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        _show(findings)
    if _is_broken(findings):
        raise SystemExit(PROBLEMS)


def _is_broken(findings: "list[Finding]") -> bool:
    return any(finding.severity == "error" for finding in findings)


def _cluster_config(asked: Asked) -> "ClusterConfig":
    from bireme.cli.target_choice import Cluster, read_choice
    from bireme.cli.targets import cluster_config

    try:
        choice = read_choice(asked)
        if isinstance(choice, Cluster):
            return cluster_config(choice)
    except Failure as failure:
        raise Failure(failure.message, failure.hint, UNREACHABLE) from failure
    raise Failure(
        "no cluster was named",
        "`bireme doctor --context CONTEXT`; or `bireme use CONTEXT` for all commands",
        USAGE,
    )


def _findings(config: "ClusterConfig", namespace: str, patience: timedelta) -> "list[Finding]":
    """Look until nothing is broken, or until patience is over; return the last findings."""
    import asyncio

    from bireme.installation.checkup import examine
    from bireme.kube.client import Client
    from bireme.kube.errors import KubeError
    from bireme.kube.transport import HttpTransport
    from bireme.run.checkup import Examiner

    async def look() -> "list[Finding]":
        transport = HttpTransport(config)
        client = Client(transport, field_manager="bireme-cli")

        async def examine_once() -> "list[Finding]":
            return examine(await Examiner(client, namespace).look())

        try:
            return await look_until_well(examine_once, client.clock, patience)
        finally:
            await transport.close()

    try:
        return asyncio.run(look())
    except KubeError as error:
        hint = error.hint or "`kubectl cluster-info` must work first; see --kubeconfig and --context"
        raise Failure(str(error), hint, UNREACHABLE) from error


async def look_until_well(
    look: "Callable[[], Awaitable[list[Finding]]]", clock: "Clock", patience: timedelta
) -> "list[Finding]":
    """Look until nothing is broken, or until patience is over; return what was found last."""
    end = clock.now() + patience.total_seconds()
    while True:
        findings = await look()
        if not _is_broken(findings) or clock.now() + _PAUSE_SECONDS > end:
            return findings
        await clock.sleep(_PAUSE_SECONDS)


def _show(findings: "list[Finding]") -> None:
    for finding in findings:
        word, colour = _MARKS[finding.severity]
        head = Styled(f"{word}:", fg=colour, bold=finding.severity != "ok")
        echo(head, f" {finding.message}")
        if finding.fix:
            echo(Styled("hint:", fg="cyan", bold=True), f" {finding.fix}\n")
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    say(f"{errors} error{'s' if errors != 1 else ''}, {warnings} warning{'s' if warnings != 1 else ''}")
