"""`bireme controller`: run jobs on a cluster."""

import sys

import click


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="Default: $KUBECONFIG, ~/.kube/config, or in-cluster.",
)
@click.option("--context", help="A context of the kubeconfig.")
@click.option("-n", "--namespace", help="Run the jobs of this namespace only; of all when left out.")
@click.option(
    "--lease-namespace", default="default", show_default=True, help="Where the lease of the leader is."
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Take turns with other controllers.",
)
@click.option(
    "--kubeflow/--no-kubeflow",
    default=False,
    show_default=True,
    help="Run MPIJobs of kubeflow.org/v1alpha2 too.",
)
@click.option(
    "--health-host",
    default="127.0.0.1",
    show_default=True,
    help="Where /healthz, /readyz and /metrics listen.",
)
@click.option("--health-port", default=8081, show_default=True, type=click.IntRange(0, 65535))
@click.option("--controller-image", help="Image with kubectl, for Kubeflow's launchers.")
@click.option(
    "--keep-messages/--no-keep-messages",
    default=True,
    show_default=True,
    help="Keep the end of a failed replica's output in the job's status.",
)
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
def command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    lease_namespace: str,
    health_host: str,
    health_port: int,
    controller_image: str | None,
    log_format: str,
    *,
    leader_elect: bool,
    kubeflow: bool,
    keep_messages: bool,
) -> None:
    """Run the jobs of a cluster until SIGTERM."""
    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.kube.errors import KubeError
    from bireme.planning import Settings
    from bireme.run.cluster import Options, run_controller

    log_to(sys.stderr, as_json=log_format == "json")
    settings = Settings(keep_messages=keep_messages)
    if controller_image:
        settings = Settings(keep_messages=keep_messages, controller_image=controller_image)
    options = Options(
        kubeconfig,
        context,
        namespace,
        lease_namespace,
        leader_elect,
        kubeflow,
        health_host,
        health_port,
        settings,
    )
    try:
        run(run_controller(options))
    except KubeError as error:
        raise click.ClickException(str(error)) from error
