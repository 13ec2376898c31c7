"""The scheduler of queues on a cluster, beside the cluster's own."""

import asyncio
import logging
import os
import signal
from typing import NamedTuple

from bireme.control.health import build_app, serve
from bireme.control.metrics import Metrics
from bireme.control.scheduler import Scheduler
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.transport import HttpTransport
from bireme.run.cluster import build_election, lead_and_work
from bireme.scheduling import Policy

log = logging.getLogger("bireme")

LEASE_NAME = "bireme-scheduler"


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
    config = load_config(kubeconfig=options.kubeconfig, context=options.context, environ=os.environ)
    transport, lease_transport = HttpTransport(config), HttpTransport(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    try:
        await _run(
            Client(transport, field_manager="bireme-scheduler"), Client(lease_transport), options, stop
        )
    finally:
        await transport.close()
        await lease_transport.close()


async def _run(client: Client, lease_client: Client, options: Options, stop: asyncio.Event) -> None:
    metrics = Metrics()
    metrics.watch_calls(client.statistics)
    election = build_election(lease_client, options.home, LEASE_NAME) if options.leader_elect else None
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
    tasks = [
        asyncio.create_task(lead_and_work(scheduler, election, metrics, LEASE_NAME)),
        asyncio.create_task(stop.wait()),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner.cleanup()
        log.info("scheduler has stopped")
