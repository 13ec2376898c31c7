"""`bireme controller`: run jobs on a cluster."""

import sys

import click

from bireme.cli.processes import process_options

# Said here too, so that --help need not import the plan; a test compares.
ENGINES = ("bireme", "t9k", "volcano", "coscheduling", "native", "kueue")


@click.command()
@process_options(health_port=8081)
@click.option("-n", "--namespace", help="Run the jobs of this namespace only; of all when left out.")
@click.option(
    "--lease-namespace", help="Where the lease of the leader is; by default that of -n, else `default`."
)
@click.option(
    "--kubeflow/--no-kubeflow",
    default=False,
    show_default=True,
    help="Run MPIJobs of kubeflow.org/v1alpha2 too.",
)
@click.option(
    "--gang-engine",
    type=click.Choice(ENGINES),
    default="bireme",
    show_default=True,
    help="Who places the pods of queued jobs.",
)
@click.option("--controller-image", help="Image with kubectl, for Kubeflow's launchers.")
@click.option(
    "--job-network-policies/--no-job-network-policies",
    default=False,
    show_default=True,
    help="Create a NetworkPolicy for each job that lets only its own pods in.",
)
@click.option(
    "--keep-messages/--no-keep-messages",
    default=True,
    show_default=True,
    help="Keep the end of a failed replica's output in the job's status.",
)
def command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    lease_namespace: str | None,
    health_host: str,
    health_port: int,
    gang_engine: str,
    controller_image: str | None,
    log_format: str,
    *,
    leader_elect: bool,
    kubeflow: bool,
    job_network_policies: bool,
    keep_messages: bool,
) -> None:
    """Run the jobs of a cluster until SIGTERM."""
    import msgspec

    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.kube.errors import KubeError
    from bireme.planning import Settings
    from bireme.run.cluster import Options, run_controller

    log_to(sys.stderr, as_json=log_format == "json")
    settings = Settings(
        keep_messages=keep_messages, gang_engine=gang_engine, job_network_policies=job_network_policies
    )
    if controller_image:
        settings = msgspec.structs.replace(settings, controller_image=controller_image)
    options = Options(
        kubeconfig,
        context,
        namespace or None,
        lease_namespace or None,
        leader_elect,
        kubeflow,
        health_host,
        health_port,
        settings,
    )
    try:
        run(run_controller(options))
    except (KubeError, OSError) as error:
        raise click.ClickException(str(error)) from error
