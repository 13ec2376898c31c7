"""Keeps a certificate to serve webhooks with, from the files of a mounted Secret.

With an authority of our own (`ca.crt`, `ca.key`) the process signs its certificate itself, and signs the
next one when two thirds of its time are over, or the authority has changed. With somebody else's,
cert-manager's, it serves `tls.crt` and `tls.key` as they are. Either way a change is served without a
restart, and nothing is written.

A kubelet replaces the files of a Secret at once, but two reads may fall on both sides of that: a pair
that does not fit together is read again, and what is served stays.
"""

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from bireme.control.webhooks.certificates import (
    Leaf,
    UnusableAuthorityError,
    expiry,
    read_leaf,
    renew_leaf,
)
from bireme.installation.authority import Authority
from bireme.kube.clock import Clock, utc_now

log = logging.getLogger("bireme.webhooks")

PERIOD_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
AUTHORITY_FILES: Final = ("ca.crt", "ca.key")
LEAF_FILES: Final = ("tls.crt", "tls.key")

Renew = Callable[[Leaf, Authority, Sequence[str], datetime], Leaf]


class CertificateKeeper:
    """Serves one folder's certificates by `context`. `own` says that it holds our authority."""

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[str],
        clock: Clock,
        *,
        own: bool = True,
        now: Callable[[], datetime] = utc_now,
        renew: Renew = renew_leaf,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.last_error: Exception | None = None
        self._folder = folder
        self._hosts = hosts
        self._clock = clock
        self._own = own
        self._now = now
        self._renew = renew
        self._period_seconds = period_seconds
        self._served = Leaf()
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
        """Look again and again until cancelled; log an error once, and retry."""
        while True:
            is_served = self._try()
            await self._clock.sleep(self._period_seconds if is_served else RETRY_SECONDS)

    def _try(self) -> bool:
        try:
            self.step()
        except (OSError, UnusableAuthorityError) as error:
            if str(error) != str(self.last_error):
                log.warning("no certificate for the webhooks: %s", error)
            self.last_error = error
            return False
        self.last_error = None
        return self.is_ready

    def step(self) -> bool:
        """Look once; False if there is nothing to serve yet.

        Raises OSError and UnusableAuthorityError; what was served is served on.
        """
        wanted = self._wanted()
        if read_leaf(wanted) is not None and wanted != self._served:
            self._serve(wanted)
            log.info("certificate of the webhooks loaded", extra={"until": str(expiry(wanted))})
        return self.is_ready

    def _wanted(self) -> Leaf:
        files = AUTHORITY_FILES if self._own else LEAF_FILES
        certificates, key = ((self._folder / name).read_bytes() for name in files)
        if not self._own:
            return Leaf(certificates, key)
        return self._renew(self._served, Authority(certificates, key), self._hosts, self._now())

    def _serve(self, leaf: Leaf) -> None:
        """New connections get the new certificate; those that are open keep the one they began with."""
        # OpenSSL's bindings read certificates from files only; the folder is ours alone, and gone at once.
        with tempfile.TemporaryDirectory(prefix="bireme-") as folder:
            certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            certificate.write_bytes(leaf.certificate)
            key.write_bytes(leaf.key)
            # ssl.SSLError is an OSError.
            self.context.load_cert_chain(certificate, key, password="")
        self._served = leaf
        self._ready.set()
