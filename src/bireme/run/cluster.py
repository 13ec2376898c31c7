"""The controller on a cluster: kubeconfig or in-cluster, leader election, health endpoints."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from typing import NamedTuple

from bireme.api.kinds import JOB_KINDS, KUBEFLOW_MPI_JOB
from bireme.control.controller import Controller
from bireme.control.health import build_app, serve
from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.lease import LeaderElection
from bireme.kube.transport import HttpTransport
from bireme.planning import Settings

log = logging.getLogger("bireme")

LEASE_NAME = "bireme-controller"


class Options(NamedTuple):
    """What `bireme controller` was told."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    lease_namespace: str = "default"
    leader_elect: bool = True
    kubeflow: bool = False
    health_host: str = "127.0.0.1"
    health_port: int = 8081
    settings: Settings = Settings()


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
    election = _election(lease_client, options)
    kinds = JOB_KINDS if options.kubeflow else [kind for kind in JOB_KINDS if kind is not KUBEFLOW_MPI_JOB]
    controller = Controller(
        client,
        options.settings,
        kinds=kinds,
        namespace=options.namespace,
        may_write=(lambda: election.is_leader) if election is not None else (lambda: True),
        metrics=metrics,
    )
    runner = await serve(build_app(metrics, controller.not_ready), options.health_host, options.health_port)
    log.info("controller starts", extra={"kinds": [kind.crd_name for kind in kinds]})
    tasks = [asyncio.create_task(_work(controller, election, metrics)), asyncio.create_task(stop.wait())]
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


def _election(client: Client, options: Options) -> LeaderElection | None:
    if not options.leader_elect:
        return None
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaderElection(client, options.namespace or options.lease_namespace, LEASE_NAME, identity)


async def _work(controller: Controller, election: LeaderElection | None, metrics: Metrics) -> None:
    """Lead, then work; caches of a process that waits for the lease stay cold."""
    if election is None:
        await controller.run()
        return
    async with asyncio.TaskGroup() as group:
        lead = group.create_task(election.run())
        try:
            await election.wait_until_leading()
            metrics.leader.labels(LEASE_NAME).set(1)
            log.info("leading")
            work = group.create_task(controller.run())
            await election.wait_until_lost()
            metrics.leader.labels(LEASE_NAME).set(0)
            log.warning("the lease is lost: this process ends")
            work.cancel()
        finally:
            lead.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await lead
