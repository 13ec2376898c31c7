"""One call of the API: made again where that is safe, counted, and its failure raised."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bireme.kube.clock import Clock
from bireme.kube.errors import ApiError, KubeError, NotAllowedError, error_from
from bireme.kube.protocol import Transport
from bireme.kube.resources import Resource
from bireme.kube.retry import CALLS, MOST_TRIES, asked_patience


class Request(NamedTuple):
    """What to ask; `again` tells after which failures it may be asked once more."""

    verb: str
    resource: Resource
    method: str
    path: str
    again: Callable[[KubeError], bool]
    params: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    timeout_seconds: float = 30.0


class Caller:
    """Makes calls over a transport."""

    def __init__(self, transport: Transport, clock: Clock, random: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._random = random
        self._may_write: Callable[[], bool] = lambda: True
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def guarded(self, may_write: Callable[[], bool]) -> "Caller":
        """One that asks before each try of a call that writes; both count together."""
        other = copy.copy(self)
        other._may_write = may_write
        return other

    async def call(self, request: Request) -> bytes:
        """The body of a good answer. Raises KubeError after the last try."""
        failures = 0
        while True:
            if request.method != "GET" and not self._may_write():
                raise NotAllowedError(f"{request.verb} {request.path}: no longer allowed to write")
            try:
                return await self._once(request)
            except KubeError as error:
                failures += 1
                if failures == MOST_TRIES or not request.again(error):
                    raise
                delay = CALLS.delay(failures, self._random(), asked_patience(error))
            await self._clock.sleep(delay)

    async def _once(self, request: Request) -> bytes:
        try:
            response = await self._transport.request(
                request.method,
                request.path,
                params=request.params,
                body=request.body,
                content_type=request.content_type,
                timeout_seconds=request.timeout_seconds,
            )
        except KubeError as error:
            self.count(request.verb, request.resource, error)
            raise
        self._counts[request.verb, request.resource.full_name, str(response.status)] += 1
        if not 200 <= response.status < 300:
            raise error_from(response.status, response.headers, response.body)
        return response.body

    def count(self, verb: str, resource: Resource, error: KubeError | None) -> None:
        """Take note of a call that was made elsewhere, or that had no answer."""
        failed = str(error.code) if isinstance(error, ApiError) else "error"
        self._counts[verb, resource.full_name, failed if error is not None else "200"] += 1

    def statistics(self) -> dict[tuple[str, str, str], int]:
        return dict(self._counts)
