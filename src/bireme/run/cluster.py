"""The controller on a cluster: kubeconfig or in-cluster, leader election, health endpoints."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from typing import NamedTuple, Protocol

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB
from bireme.control.controller import Controller
from bireme.control.health import build_app, serve
from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.lease import LeaderElection
from bireme.kube.transport import HttpTransport
from bireme.planning import Settings
from bireme.run.webhooks import WebhookOptions, Webhooks

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
    webhooks: WebhookOptions | None = None

    @property
    def home(self) -> str:
        """The namespace of the lease, and of the webhooks' certificates."""
        return self.lease_namespace or self.namespace or "default"


async def run_controller(options: Options) -> None:
    """Run until SIGTERM or SIGINT; then stop cleanly, and give the lease back."""
    config = load_config(kubeconfig=options.kubeconfig, context=options.context, environ=os.environ)
    transport = HttpTransport(config)
    # Of its own: a renewal of the lease must not queue behind the pods of a thousand jobs.
    lease_transport = HttpTransport(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    try:
        await _run(Client(transport), Client(lease_transport), options, stop)
    finally:
        await transport.close()
        await lease_transport.close()


async def _run(client: Client, lease_client: Client, options: Options, stop: asyncio.Event) -> None:
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
    webhooks = _webhooks(lease_client, options, metrics)

    def not_ready() -> list[str]:
        """Whoever waits for the lease is ready to: its caches stay cold, but it may serve webhooks."""
        waits = election is not None and not election.is_leader
        return [*(() if waits else controller.not_ready()), *(webhooks.not_ready() if webhooks else ())]

    runner = await serve(build_app(metrics, not_ready), options.health_host, options.health_port)
    log.info("controller starts", extra={"kinds": [kind.crd_name for kind in kinds]})
    tasks = [
        asyncio.create_task(lead_and_work(controller, election, metrics)),
        asyncio.create_task(stop.wait()),
        *([asyncio.create_task(webhooks.run())] if webhooks else ()),
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
        log.info("controller has stopped")


def _webhooks(client: Client, options: Options, metrics: Metrics) -> Webhooks | None:
    return Webhooks(client, options.home, options.webhooks, metrics) if options.webhooks else None


def build_election(client: Client, namespace: str, lease: str) -> LeaderElection:
    """Stand for election under a name of our own."""
    return LeaderElection(client, namespace, lease, f"{socket.gethostname()}_{uuid.uuid4()}")


class Worker(Protocol):
    """Works until cancelled."""

    async def run(self) -> None: ...


async def lead_and_work(
    worker: Worker, election: LeaderElection | None, metrics: Metrics, lease: str = LEASE_NAME
) -> None:
    """Lead, then work, until the lease is lost; without an election, work until cancelled.

    Caches of a process that waits for the lease stay cold.
    """
    if election is None:
        await worker.run()
        return
    async with asyncio.TaskGroup() as group:
        lead = group.create_task(election.run())
        try:
            await election.wait_until_leading()
            metrics.leader.labels(lease).set(1)
            log.info("leading")
            work = group.create_task(worker.run())
            await election.wait_until_lost()
            metrics.leader.labels(lease).set(0)
            log.warning("the lease is lost: this process ends")
            work.cancel()
        finally:
            lead.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await lead
