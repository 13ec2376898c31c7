"""The controller on a cluster: kubeconfig or in-cluster, leader election, health endpoints."""

import logging
from typing import NamedTuple

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB
from bireme.control.controller import Controller
from bireme.control.health import build_app, serve, stop
from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.planning import Settings
from bireme.run.leading import build_election, connected, lead_and_work, run_until_told

log = logging.getLogger("bireme")

LEASE_NAME = "bireme-controller"


class Options(NamedTuple):
    """What `bireme controller` was told."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    lease_namespace: str | None = None
    leader_elect: bool = True
    kubeflow: bool = False
    health_host: str = "127.0.0.1"
    health_port: int = 8081
    settings: Settings = Settings()

    @property
    def home(self) -> str:
        """The namespace of the lease."""
        return self.lease_namespace or self.namespace or "default"


async def run_controller(options: Options) -> None:
    """Run until SIGTERM or SIGINT; then stop cleanly, and give the lease back."""
    async with connected(options.kubeconfig, options.context) as clients:
        await _run(clients.work, clients.lease, options)


async def _run(client: Client, lease_client: Client, options: Options) -> None:
    metrics = Metrics()
    metrics.watch_calls(client.statistics)
    election = build_election(lease_client, options.home, LEASE_NAME) if options.leader_elect else None
    kinds = JOB_KINDS if options.kubeflow else [kind for kind in JOB_KINDS if kind is not KUBEFLOW_MPI_JOB]
    controller = Controller(
        client,
        options.settings,
        kinds=kinds,
        namespace=options.namespace,
        may_write=(lambda: election.is_leader) if election is not None else (lambda: True),
        metrics=metrics,
    )

    def not_ready() -> list[str]:
        """Whoever waits for the lease is ready to: its caches stay cold."""
        waits = election is not None and not election.is_leader
        return [] if waits else controller.not_ready()

    runner = await serve(build_app(metrics, not_ready), options.health_host, options.health_port)
    log.info("controller starts", extra={"kinds": [kind.crd_name for kind in kinds]})
    try:
        await run_until_told(lead_and_work(controller, election, metrics, LEASE_NAME))
    finally:
        await stop(runner)
        log.info("controller has stopped")
