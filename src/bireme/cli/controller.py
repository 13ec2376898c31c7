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
@click.option(
    "--webhooks/--no-webhooks", default=False, show_default=True, help="Serve admission webhooks too."
)
@click.option("--webhook-host", default="*", show_default=True, help="Where they listen; `*` is everywhere.")
@click.option("--webhook-port", default=9443, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--webhook-name",
    "webhook_names",
    multiple=True,
    help="A name or address that they are reached by; the Service's when left out.",
)
@click.option(
    "--webhook-certificates",
    type=click.Choice(["own", "external"]),
    default="own",
    show_default=True,
    help="Who fills the Secret `bireme-webhooks` in the lease's namespace: this process, or somebody else.",
)
@click.option(
    "--webhook-configuration",
    default="bireme-webhooks",
    show_default=True,
    help="The webhook configurations to tell whom to trust.",
)
@click.option(
    "--webhook-drain-seconds",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 600),
    help="How long to serve them after SIGTERM, not ready, until the API server calls another replica.",
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
    webhook_host: str,
    webhook_port: int,
    webhook_names: tuple[str, ...],
    webhook_certificates: str,
    webhook_configuration: str,
    webhook_drain_seconds: float,
    log_format: str,
    *,
    leader_elect: bool,
    kubeflow: bool,
    job_network_policies: bool,
    keep_messages: bool,
    webhooks: bool,
) -> None:
    """Run the jobs of a cluster until SIGTERM."""
    import msgspec

    from bireme.cli.loops import run
    from bireme.control.logs import log_to
    from bireme.kube.errors import KubeError
    from bireme.planning import Settings
    from bireme.run.cluster import Options, run_controller
    from bireme.run.webhooks import WebhookOptions

    log_to(sys.stderr, as_json=log_format == "json")
    settings = Settings(
        keep_messages=keep_messages, gang_engine=gang_engine, job_network_policies=job_network_policies
    )
    if controller_image:
        settings = msgspec.structs.replace(settings, controller_image=controller_image)
    served = WebhookOptions(
        webhook_host,
        webhook_port,
        webhook_names,
        webhook_certificates == "own",
        webhook_configuration,
        webhook_drain_seconds,
    )
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
        served if webhooks else None,
    )
    try:
        run(run_controller(options))
    except (KubeError, OSError) as error:
        raise click.ClickException(str(error)) from error
