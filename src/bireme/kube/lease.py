"""Leader election: of several processes one leads, and knows when it no longer may.

As in client-go: whoever's name is in the Lease leads, and renews it. The others watch with their own clock
whether it is renewed, so the clocks of different machines need not agree, only run about equally fast.
"""

import asyncio
import contextlib
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from bireme.kube.client import Client
from bireme.kube.clock import Clock, utc_now, within
from bireme.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bireme.kube.resources import LEASES

log = logging.getLogger("bireme.kube")

_JITTER: Final = 0.5
"""Candidates ask up to this much of the retry period sooner, so that they do not march in step."""


class LeaderElection:
    """Takes part in the election until `run` is cancelled; then gives the lease back.

    `identity` must be unlike that of any other process, also of this one's predecessor. All times are in
    seconds. `on_stopped_leading` may be a coroutine: the lease is given back when it is done. The lease says
    by `annotations` how its leader works.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: float = 15,
        renew_deadline: float = 10,
        retry_period: float = 2,
        on_started_leading: Callable[[], None] | None = None,
        on_stopped_leading: Callable[[], Awaitable[None] | None] | None = None,
        annotations: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        utc: Callable[[], datetime] = utc_now,
    ) -> None:
        if not lease_seconds > renew_deadline > retry_period > 0:
            raise ValueError("lease_seconds > renew_deadline > retry_period > 0 does not hold")
        self.identity = identity
        self.last_error: Exception | None = None
        self._client = client
        self._namespace = namespace
        self._name = name
        self._lease_seconds = lease_seconds
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._on_started_leading = on_started_leading
        self._on_stopped_leading = on_stopped_leading
        self._annotations = dict(annotations or {})
        self._clock = clock or client.clock
        self._utc = utc
        self._leads_until = -math.inf
        self._lease: dict[str, Any] | None = None
        """As we last wrote it; None when it may be another's."""
        self._seen: dict[str, Any] = {}
        self._seen_at = -math.inf
        """When we first saw the lease in its last version, by our own clock."""
        self._leading = asyncio.Event()
        self._following = asyncio.Event()
        self._following.set()

    @property
    def is_leader(self) -> bool:
        """Whether we lead, by the clock: turns False before another can lead, also while nobody can be asked.

        Ask before every write.
        """
        return self._clock.now() < self._leads_until

    async def wait_until_leading(self) -> None:
        await self._leading.wait()

    async def wait_until_lost(self) -> None:
        """Return at once where we do not lead."""
        await self._following.wait()

    async def run(self) -> None:
        """Stand for election until cancelled, again after each loss."""
        try:
            while True:
                await self._acquire()
                await self._lead()
        finally:
            await self._step_down()
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try(self._renew_deadline):
            await self._clock.sleep(self._patience())

    def _patience(self) -> float:
        """How long to wait before we ask again: no longer than until the lease that we saw runs out.

        So a leader that vanished is followed within `lease_seconds` and one `retry_period`, and one that
        gave its lease back within one `retry_period`.
        """
        wait = self._retry_period * (1 - _JITTER * self._client.random())
        left = self._runs_out_at() - self._clock.now() if self._is_taken() else 0
        return min(wait, left) if left > 0 else wait

    async def _lead(self) -> None:
        """Renew until the lease is lost: to another, or because it could not be renewed in time."""
        log.info("%s leads by the lease %s/%s", self.identity, self._namespace, self._name)
        self._following.clear()
        self._leading.set()
        if self._on_started_leading is not None:
            self._on_started_leading()
        while (left := self._leads_until - self._clock.now()) > 0:
            await self._clock.sleep(min(self._retry_period, left))
            left = self._leads_until - self._clock.now()
            if left > 0 and not await self._try(left) and self._is_taken():
                break
        log.warning("%s lost the lease %s/%s", self.identity, self._namespace, self._name)
        await self._step_down()

    async def _step_down(self) -> None:
        self._leads_until = -math.inf
        if self._leading.is_set():
            self._leading.clear()
            self._following.set()
            stopping = self._on_stopped_leading() if self._on_stopped_leading is not None else None
            if inspect.isawaitable(stopping):
                await stopping

    def _is_taken(self) -> bool:
        holder = _spec(self._seen).get("holderIdentity")
        return bool(holder) and holder != self.identity

    async def _try(self, seconds: float) -> bool:
        """Write ourselves into the lease within this time."""
        try:
            held = await within(self._clock, seconds, self._claim())
        except (KubeError, TimeoutError) as error:
            if str(error) != str(self.last_error):
                log.warning("can't renew or take the lease %s/%s: %s", self._namespace, self._name, error)
            self.last_error = error
            return False
        self.last_error = None
        return held and self.is_leader

    async def _claim(self) -> bool:
        """Renew the lease, or take it where it is free or has run out; False if another holds it."""
        if self._lease is not None:
            lease, self._lease = self._lease, None
            # Somebody else may have written to it; what, we see when we read it.
            with contextlib.suppress(Conflict):
                return await self._write(lease)
        try:
            return await self._claim_as_it_is()
        except (AlreadyExists, Conflict):
            return False

    async def _claim_as_it_is(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if self._is_taken() and self._clock.now() < self._runs_out_at():
            return False
        return await self._write(lease)

    def _observe(self, lease: dict[str, Any]) -> None:
        if _version(lease) != _version(self._seen):
            self._seen, self._seen_at = lease, self._clock.now()

    def _runs_out_at(self) -> float:
        return self._seen_at + float(_spec(self._seen).get("leaseDurationSeconds") or self._lease_seconds)

    async def _write(self, lease: dict[str, Any]) -> bool:
        old = _spec(lease)
        spec = {**old, **self._our_spec()}
        if old.get("holderIdentity") == self.identity:
            spec["acquireTime"] = old.get("acquireTime")
        else:
            spec["leaseTransitions"] = old.get("leaseTransitions", 0) + 1
        body = {**lease, "metadata": self._with_annotations(lease["metadata"]), "spec": spec}
        await self._hold(self._client.replace(LEASES, self._namespace, self._name, body))
        return True

    async def _create(self) -> bool:
        metadata = {"name": self._name, "namespace": self._namespace}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": self._with_annotations(metadata),
            "spec": self._our_spec(),
        }
        await self._hold(self._client.create(LEASES, self._namespace, body))
        return True

    def _with_annotations(self, metadata: dict[str, Any]) -> dict[str, Any]:
        if not self._annotations:
            return metadata
        return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **self._annotations}}

    async def _hold(self, write: Awaitable[dict[str, Any]]) -> None:
        """Lead from when we asked on: nobody can have seen the lease renewed before that."""
        asked_at = self._clock.now()
        self._lease = await write
        self._observe(self._lease)
        self._leads_until = asked_at + self._renew_deadline

    def _our_spec(self) -> dict[str, Any]:
        now = self._utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            # Whole seconds on the wire; to round down would let another in too early.
            "leaseDurationSeconds": math.ceil(self._lease_seconds),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }

    async def _release(self) -> None:
        """Let the next one in without waiting; if that fails, the lease runs out by itself."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        spec = {**lease["spec"], "leaseDurationSeconds": 1, "renewTime": self._our_spec()["renewTime"]}
        spec.pop("holderIdentity", None)
        body = {**lease, "spec": spec}
        try:
            replaced = self._client.replace(LEASES, self._namespace, self._name, body)
            await within(self._clock, self._retry_period, replaced)
        except (KubeError, TimeoutError) as error:
            self.last_error = error


def _spec(lease: dict[str, Any]) -> dict[str, Any]:
    return lease.get("spec") or {}


def _version(lease: dict[str, Any]) -> str | None:
    version: str | None = lease.get("metadata", {}).get("resourceVersion")
    return version
