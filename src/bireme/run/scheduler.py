"""The scheduler of queues on a cluster, beside the cluster's own."""

import logging
from typing import NamedTuple

import msgspec

from bireme.control.health import build_app, serve, stop
from bireme.control.metrics import Metrics
from bireme.control.scheduler import Scheduler
from bireme.kube.client import Client
from bireme.run.leading import build_election, connected, lead_and_work, run_until_told
from bireme.run.queues import LEASE_NAME, POLICY_ANNOTATION
from bireme.scheduling import Policy

log = logging.getLogger("bireme")


class Options(NamedTuple):
    """What `bireme scheduler` was told."""

    kubeconfig: str | None = None
    context: str | None = None
    home: str = "default"
    leader_elect: bool = True
    health_host: str = "127.0.0.1"
    health_port: int = 8082
    policy: Policy = Policy()


async def run_scheduler(options: Options) -> None:
    """Run until SIGTERM or SIGINT; then stop cleanly, and give the lease back."""
    async with connected(options.kubeconfig, options.context, "bireme-scheduler") as clients:
        await _run(clients.work, clients.lease, options)


async def _run(client: Client, lease_client: Client, options: Options) -> None:
    metrics = Metrics()
    metrics.watch_calls(client.statistics)
    election = None
    if options.leader_elect:
        told = {POLICY_ANNOTATION: msgspec.json.encode(options.policy).decode()}
        election = build_election(lease_client, options.home, LEASE_NAME, told)
    scheduler = Scheduler(
        client,
        options.policy,
        home=options.home,
        may_write=(lambda: election.is_leader) if election is not None else (lambda: True),
        metrics=metrics,
    )

    def not_ready() -> list[str]:
        waits = election is not None and not election.is_leader
        return [] if waits else scheduler.not_ready()

    runner = await serve(build_app(metrics, not_ready), options.health_host, options.health_port)
    log.info("scheduler starts")
    try:
        await run_until_told(lead_and_work(scheduler, election, metrics, LEASE_NAME))
    finally:
        await stop(runner)
        log.info("scheduler has stopped")
