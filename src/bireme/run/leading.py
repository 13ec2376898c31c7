"""What every process of ours on a cluster does: connect, lead or wait, and stop when it is told to."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from bireme.control.metrics import Metrics
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.lease import LeaderElection
from bireme.kube.transport import HttpTransport

log = logging.getLogger("bireme")


class Worker(Protocol):
    """Works until cancelled."""

    async def run(self) -> None: ...


class Clients(NamedTuple):
    """Two ways to one cluster: a renewal of the lease must not queue behind the pods of a thousand jobs."""

    work: Client
    lease: Client


@contextlib.asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, field_manager: str = "bireme"
) -> AsyncIterator[Clients]:
    """Clients of the cluster that a kubeconfig, or a pod's service account, names. Raises ConfigError."""
    config = load_config(kubeconfig=kubeconfig, context=context, environ=os.environ)
    transports = HttpTransport(config), HttpTransport(config)
    try:
        yield Clients(Client(transports[0], field_manager=field_manager), Client(transports[1]))
    finally:
        for transport in transports:
            await transport.close()


async def run_until_told(*works: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT, or until one of the works ends; then end all, and raise what it raised."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    await run_together(*works, stop.wait())


async def run_together(*works: Coroutine[Any, Any, object]) -> None:
    """Run until one of the works ends; then end all, and raise what it raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def build_election(
    client: Client, namespace: str, lease: str, annotations: Mapping[str, str] | None = None
) -> LeaderElection:
    """Stand for election under a name of our own."""
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaderElection(client, namespace, lease, identity, annotations=annotations)


async def lead_and_work(
    worker: Worker, election: LeaderElection | None, metrics: Metrics, lease: str
) -> None:
    """Lead, then work, until the lease is lost; without an election, work until cancelled.

    The lease is renewed until the work has ended, and given back only then: whoever leads next may begin at
    once. Caches of a process that waits for the lease stay cold.
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
            try:
                await election.wait_until_lost()
                log.warning("the lease is lost: this process ends")
                # Or it would stand again while the work still ends.
                lead.cancel()
            finally:
                metrics.leader.labels(lease).set(0)
                await _end(work)
        finally:
            await _end(lead)


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
