"""`bireme scheduler`: place the pods of queued jobs on a cluster."""

import sys

import click


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="Default: $KUBECONFIG, ~/.kube/config, or in-cluster.",
)
@click.option("--context", help="A context of the kubeconfig.")
@click.option(
    "--home",
    default="default",
    show_default=True,
    help="Namespace of the leader's lease and of the ConfigMap `resource-shapes`.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Take turns with other schedulers.",
)
@click.option(
    "--preemption/--no-preemption",
    default=True,
    show_default=True,
    help="Let queues take from preemptible queues of lower priority.",
)
@click.option(
    "--backfill/--no-backfill",
    default=True,
    show_default=True,
    help="Put off starts that would delay a known start of a group ahead.",
)
@click.option(
    "--permissions/--no-permissions",
    default=False,
    show_default=True,
    help="Ask queues' namespaceSelector here too, where no webhook does; who may by RBAC alone then may not.",
)
@click.option(
    "--topology",
    multiple=True,
    metavar="LABEL",
    help="Pack a group into one domain of this label of nodes if it fits; the narrowest first.",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    show_default=True,
    help="Where /healthz, /readyz and /metrics listen; `*` is everywhere.",
)
@click.option("--health-port", default=8082, show_default=True, type=click.IntRange(0, 65535))
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
def command(
    kubeconfig: str | None,
    context: str | None,
    home: str,
    topology: tuple[str, ...],
    health_host: str,
    health_port: int,
    log_format: str,
    *,
    leader_elect: bool,
    preemption: bool,
    backfill: bool,
    permissions: bool,
) -> None:
    """Place the pods of queued jobs until SIGTERM: whole groups or nothing, in the order of the queues."""
    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.kube.errors import KubeError
    from bireme.run.scheduler import Options, run_scheduler
    from bireme.scheduling import Policy

    log_to(sys.stderr, as_json=log_format == "json")
    policy = Policy(preemption=preemption, backfill=backfill, topology=topology, permissions=permissions)
    options = Options(kubeconfig, context, home, leader_elect, health_host, health_port, policy)
    try:
        run(run_scheduler(options))
    except (KubeError, OSError) as error:
        raise click.ClickException(str(error)) from error
