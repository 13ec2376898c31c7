"""Keeps the webhooks' certificates: in a Secret, trusted by the API server, and served without a restart."""

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bireme.control.webhooks.certificates import Certificates, expiry, is_complete, renewed
from bireme.installation.names import APP, selector
from bireme.kube.client import Client
from bireme.kube.clock import Clock, utc_now
from bireme.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from bireme.kube.resources import SECRETS, Resource

log = logging.getLogger("bireme.webhooks")

PERIOD_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 2.0
_REGISTRATION: Final = "admissionregistration.k8s.io"
CONFIGURATIONS: Final = (
    Resource(
        _REGISTRATION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
    ),
    Resource(
        _REGISTRATION,
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
    ),
)
_LABELS: Final = {**selector("webhooks"), "app.kubernetes.io/part-of": APP}
_KEYS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
"""Where the Secret has the fields of Certificates; cert-manager's Secrets have all but the second."""

Renew = Callable[..., Certificates]


class CertificateKeeper:
    """Looks after one Secret; every replica of the controller has one, and whoever comes first writes.

    `own` says that the certificates are ours to make; else somebody else fills the Secret, and tells the API
    server whom to trust.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        secret: str,
        configuration: str,
        hosts: Sequence[str],
        *,
        own: bool = True,
        clock: Clock | None = None,
        now: Callable[[], datetime] = utc_now,
        renew: Renew = renewed,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.last_error: Exception | None = None
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._configuration = configuration
        self._hosts = hosts
        self._own = own
        self._clock = clock or client.clock
        self._now = now
        self._renew = renew
        self._period_seconds = period_seconds
        self._served = Certificates()
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether there is a certificate to serve with."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    def seconds_left(self) -> float:
        """How long the certificate that is served is good for."""
        end = expiry(self._served)
        return (end - self._now()).total_seconds() if end is not None else 0.0

    async def run(self) -> None:
        """Keep going until cancelled; what goes wrong is told, and tried again."""
        while True:
            settled = await self._try()
            await self._clock.sleep(self._period_seconds if settled else RETRY_SECONDS)

    async def _try(self) -> bool:
        try:
            settled = await self.step()
        except (KubeError, ssl.SSLError) as error:
            if str(error) != str(self.last_error):
                log.warning("the certificates of the webhooks can't be kept: %s", error)
            self.last_error = error
            return False
        self.last_error = None
        return settled

    async def step(self) -> bool:
        """Look once; False if there is more to do soon."""
        try:
            secret = await self._client.get(SECRETS, self._namespace, self._secret)
        except NotFound:
            if not self._own or not await self._create_again():
                raise
            return False
        current = _read(secret)
        if self._own:
            kept = await self._keep(secret, current)
            if kept is None:
                return False
            current = kept
        if is_complete(current) and current != self._served:
            self._serve(current)
        return self.is_ready

    async def _create_again(self) -> bool:
        """Create a Secret that somebody deleted, with what is served; False if it is not wanted any more.

        Where the webhooks are not registered, the installation is being removed.
        """
        if not any([await self._find(resource) for resource in CONFIGURATIONS]):
            return False
        metadata = {"name": self._secret, "namespace": self._namespace, "labels": dict(_LABELS)}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
        if is_complete(self._served):
            body["data"] = _data(self._served)
        with contextlib.suppress(AlreadyExists):
            await self._client.create(SECRETS, self._namespace, body)
            log.warning("the Secret of the webhooks was deleted, and is created again")
        return True

    async def _keep(self, secret: dict[str, Any], current: Certificates) -> Certificates | None:
        """Renew what is due, and publish it; None if another replica was faster."""
        found = [await self._find(resource) for resource in CONFIGURATIONS]
        published = all(_trusts(configuration, current.authorities) for configuration in found)
        wanted = self._renew(current, self._hosts, self._now(), published=published)
        if wanted != current:
            try:
                await self._client.replace(
                    SECRETS, self._namespace, self._secret, {**secret, "data": _data(wanted)}
                )
            except Conflict:
                return None
            log.info("the certificates of the webhooks are renewed", extra={"until": str(expiry(wanted))})
        for resource, configuration in zip(CONFIGURATIONS, found, strict=True):
            if configuration is not None and not _trusts(configuration, wanted.authorities):
                await self._publish(resource, configuration, wanted.authorities)
        return wanted

    async def _find(self, resource: Resource) -> dict[str, Any] | None:
        try:
            return await self._client.get(resource, None, self._configuration)
        except NotFound:
            return None

    async def _publish(self, resource: Resource, configuration: dict[str, Any], authorities: bytes) -> None:
        version = configuration["metadata"]["resourceVersion"]
        # The version first: places in a list mean nothing once it has changed.
        patch = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        patch += [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": _encode(authorities)}
            for index in range(len(configuration["webhooks"]))
        ]
        try:
            await self._client.patch(resource, None, self._configuration, patch, kind="json")
        except (Conflict, Invalid, NotFound):
            # Somebody else has changed it; the next look sees how.
            return

    def _serve(self, certificates: Certificates) -> None:
        """New connections get the new certificate; those that are open keep the one they began with."""
        # OpenSSL's bindings read certificates from files only; the folder is ours alone, and gone at once.
        with tempfile.TemporaryDirectory(prefix="bireme-") as folder:
            certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            certificate.write_bytes(certificates.certificate)
            key.write_bytes(certificates.key)
            self.context.load_cert_chain(certificate, key, password="")
        self._served = certificates
        self._ready.set()


def _trusts(configuration: dict[str, Any] | None, authorities: bytes) -> bool:
    if configuration is None or not authorities:
        return False
    wanted = _encode(authorities)
    return all(each["clientConfig"].get("caBundle") == wanted for each in configuration.get("webhooks") or ())


def _read(secret: dict[str, Any]) -> Certificates:
    data = secret.get("data") or {}
    return Certificates(*(_decode(data.get(key)) for key in _KEYS))


def _data(certificates: Certificates) -> dict[str, str]:
    return {key: _encode(value) for key, value in zip(_KEYS, certificates, strict=True)}


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decode(value: Any) -> bytes:
    try:
        return base64.b64decode(value or "")
    except (binascii.Error, TypeError, ValueError):
        return b""
