"""`bireme scheduler`: place the pods of queued jobs on a cluster."""

import sys

import click

from bireme.cli.processes import process_options


@click.command()
@process_options(health_port=8082)
@click.option(
    "--home",
    default="default",
    show_default=True,
    help="Namespace of the leader's lease and of the ConfigMap `resource-shapes`.",
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
    metavar="LABEL[,LABEL...]",
    help="Pack a group into one domain of this label of nodes if it fits; the narrowest first.",
)
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
    labels = tuple(label for word in topology for label in word.split(",") if label)
    policy = Policy(preemption=preemption, backfill=backfill, topology=labels, permissions=permissions)
    options = Options(kubeconfig, context, home, leader_elect, health_host, health_port, policy)
    try:
        run(run_scheduler(options))
    except (KubeError, OSError) as error:
        raise click.ClickException(str(error)) from error
