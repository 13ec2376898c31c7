"""The webhooks of a cluster, put together.

A replica that is told to end is not ready from then on, but goes on serving for a while: every node, and the
API server's own, needs some seconds to learn that the Service has one endpoint less. Meanwhile it neither
leads nor keeps certificates.
"""

import asyncio
import logging
from typing import Final, NamedTuple

from bireme.control.metrics import Metrics
from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.server import build_app, serve, stop
from bireme.installation.names import WEBHOOKS
from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.kube.resources import Resource
from bireme.run.leading import run_together

log = logging.getLogger("bireme.webhooks")

_SELF: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
RETRY_SECONDS: Final = 2.0


class WebhookOptions(NamedTuple):
    """What `bireme controller` was told of its webhooks."""

    host: str = "*"
    port: int = 9443
    names: tuple[str, ...] = ()
    own_certificates: bool = True
    configuration: str = WEBHOOKS
    drain_seconds: float = 0.0
    """How long webhooks are served after the process was told to end."""


class Webhooks:
    """Serves them as soon as there is a certificate; leader or not."""

    def __init__(self, client: Client, namespace: str, options: WebhookOptions, metrics: Metrics) -> None:
        self._client = client
        self._options = options
        self._metrics = metrics
        self._is_serving = False
        self._is_draining = False
        self._keeper = CertificateKeeper(
            client,
            namespace,
            WEBHOOKS,
            options.configuration,
            options.names or service_names(namespace),
            own=options.own_certificates,
        )
        metrics.watch_certificate(self._keeper.seconds_left)

    def not_ready(self) -> list[str]:
        """What is in the way of serving."""
        if self._is_draining:
            return ["webhooks: this replica ends"]
        if self._is_serving:
            return []
        return [f"webhooks: {self._keeper.last_error or 'no certificate yet'}"]

    async def run(self) -> None:
        """Keep certificates and serve until cancelled, then drain.

        Raises OSError where the port can't be had.
        """
        await run_together(self._keeper.run(), self._serve())

    async def _serve(self) -> None:
        user = await self._who_we_are()
        await self._keeper.wait_ready()
        app = build_app(QueueAccess(self._client, user), self._metrics, lambda: self._is_draining)
        runner = await serve(app, self._keeper.context, self._options.host, self._options.port)
        self._is_serving = True
        log.info("webhooks are served", extra={"port": self._options.port, "user": user})
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await self._drain()
            finally:
                self._is_serving = False
                await stop(runner)

    async def _drain(self) -> None:
        self._is_draining = True
        if self._options.drain_seconds:
            log.info("webhooks drain", extra={"seconds": self._options.drain_seconds})
            await self._client.clock.sleep(self._options.drain_seconds)

    async def _who_we_are(self) -> str:
        """The user as whom the API server knows us: what that user makes for jobs is not asked about."""
        body = {"apiVersion": _SELF.api_version, "kind": _SELF.kind}
        while True:
            try:
                review = await self._client.create(_SELF, None, body)
            except KubeError as error:
                log.warning("can't find out who we are: %s", error)
                await self._client.clock.sleep(RETRY_SECONDS)
            else:
                return str(review["status"]["userInfo"]["username"])


def service_names(namespace: str) -> tuple[str, ...]:
    """The names by which the API server reaches the Service."""
    service = f"{WEBHOOKS}.{namespace}"
    return f"{service}.svc", service, f"{service}.svc.cluster.local"
