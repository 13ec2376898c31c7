"""The webhooks on a cluster: a process of its own, which any pod may try to overload without hurting the
controller.

Every replica serves; there is no leader. A replica that is told to end is not ready from then on, but
goes on serving for a while: every node, and the API server's own, needs some seconds to learn that the
Service has one endpoint less.
"""

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from bireme.control.health import build_app, serve, stop
from bireme.control.metrics import Metrics
from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import WebhookServer
from bireme.installation.names import CONTROLLER, WEBHOOKS
from bireme.kube.client import Client
from bireme.run.leading import connected, run_together, run_until_told

log = logging.getLogger("bireme.webhooks")


class Options(NamedTuple):
    """What `bireme webhooks` was told."""

    certificates: Path
    """A folder with the authority's certificate and key, or with a certificate and its key."""
    home: str = "default"
    """The namespace of the installation."""
    own_certificates: bool = True
    kubeconfig: str | None = None
    context: str | None = None
    host: str = "*"
    port: int = 9443
    names: tuple[str, ...] = ()
    controller_user: str = ""
    """Whose children of jobs are let in; the controller's account in `home` when empty."""
    drain_seconds: float = 0.0
    """How long webhooks are served after the process was told to end."""
    health_host: str = "127.0.0.1"
    health_port: int = 8083


async def run_webhooks(options: Options) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises OSError where a port can't be had."""
    async with connected(options.kubeconfig, options.context, "bireme-webhooks") as clients:
        metrics = Metrics()
        metrics.watch_calls(clients.work.statistics)
        webhooks = Webhooks(clients.work, options, metrics)
        health = await serve(build_app(metrics, webhooks.not_ready), options.health_host, options.health_port)
        log.info("webhooks start")
        try:
            await run_until_told(webhooks.run())
        finally:
            await stop(health)
            log.info("webhooks have stopped")


class Webhooks:
    """Serves as soon as there is a certificate."""

    def __init__(self, client: Client, options: Options, metrics: Metrics) -> None:
        self._client = client
        self._options = options
        self._is_serving = False
        self._is_draining = False
        self._keeper = CertificateKeeper(
            options.certificates,
            options.names or service_names(options.home),
            client.clock,
            own=options.own_certificates,
        )
        metrics.watch_certificate(self._keeper.seconds_left)
        access = QueueAccess(client, options.controller_user or controller_user(options.home), options.home)
        self._server = WebhookServer(access, metrics, lambda: self._is_draining)

    def not_ready(self) -> list[str]:
        """What is in the way of serving."""
        if self._is_draining:
            return ["webhooks: this replica ends"]
        if self._is_serving:
            return []
        return [f"webhooks: {self._keeper.last_error or 'no certificate yet'}"]

    async def run(self) -> None:
        """Keep a certificate and serve until cancelled, then drain.

        Raises OSError where the port can't be had.
        """
        await run_together(self._keeper.run(), self._serve())

    async def _serve(self) -> None:
        await self._keeper.wait_ready()
        await self._server.start(self._keeper.context, self._options.host, self._options.port)
        self._is_serving = True
        log.info("webhooks are served", extra={"port": self._options.port})
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await self._drain()
            finally:
                self._is_serving = False
                await self._server.stop()

    async def _drain(self) -> None:
        self._is_draining = True
        if self._options.drain_seconds:
            log.info("webhooks drain", extra={"seconds": self._options.drain_seconds})
            await self._client.clock.sleep(self._options.drain_seconds)


def controller_user(namespace: str) -> str:
    """The controller of an installation, as the API server calls it."""
    return f"system:serviceaccount:{namespace}:{CONTROLLER}"


def service_names(namespace: str) -> tuple[str, ...]:
    """The names by which the API server reaches the Service."""
    service = f"{WEBHOOKS}.{namespace}"
    return f"{service}.svc", service, f"{service}.svc.cluster.local"
