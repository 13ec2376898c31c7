"""A copy of one collection that follows the API server by itself."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from bireme.kube.cancelling import raise_if_cancelled
from bireme.kube.client import Client
from bireme.kube.codec import Malformed
from bireme.kube.errors import ApiError, DecodeError, Gone, KubeError, TransportError
from bireme.kube.resources import Resource
from bireme.kube.retry import Backoff, asked_patience
from bireme.kube.store import Change, HasMetadata, Store
from bireme.kube.watch import WatchEvent

log = logging.getLogger("bireme.kube")

T = TypeVar("T", bound=HasMetadata)
OnChange = Callable[[T | None, T | None], None]

BACKOFF: Final = Backoff(0.1, 30.0)
SILENCE_SECONDS: Final = 90.0
"""An API server sends a bookmark about once a minute, so a watch that says less is dead."""
_LONG_ENOUGH_SECONDS: Final = 10.0
"""A watch that held for so long has worked, though nothing may have happened on it."""


class Cache(Generic[T]):
    """List, then watch from that version on, for ever.

    Objects are trimmed, never changed, and never to be written back. `on_change(old, new)` is called after
    the cache shows the change: no `old` for one that came, no `new` for one that went; `old` is then the
    last that is known of it. It is called once per version of an object, must not block, and an exception
    of it ends `run`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[T],  # noqa: A002 - what objects are decoded into
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        index_by_owner: bool = True,
        on_change: OnChange[T] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
        page_size: int | None = None,
    ) -> None:
        self.resource = resource
        self.last_error: KubeError | None = None
        """Why the cache is behind; None while it is not known to be."""
        self.malformed: dict[tuple[str, str], str] = {}
        """What can't be decoded, by namespace and name; the cache shows an older version of it, or none."""
        self._client = client
        self._clock = client.clock
        self.type = type
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._page_size = page_size
        self._on_change = on_change
        self._silence_seconds = silence_seconds
        self._store: Store[T] = Store(index_by_owner=index_by_owner)
        self._synced = asyncio.Event()
        self._version = ""
        self._must_list = True
        self._heard_at = 0.0
        self._counts = {"lists": 0, "watches": 0, "events": 0, "silences": 0}

    # ---- what is in it

    def __len__(self) -> int:
        return len(self._store)

    def get(self, namespace: str | None, name: str) -> T | None:
        return self._store.get((namespace or "", name))

    def by_owner(self, uid: str) -> list[T]:
        """The objects with this UID among their owners."""
        return self._store.by_owner(uid)

    def all(self) -> list[T]:
        return self._store.all()

    @property
    def resource_version(self) -> str:
        """How far the cache has come: it has seen all that was written up to this version."""
        return self._version

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in; later troubles do not take it back."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def statistics(self) -> dict[str, int]:
        """Lists, watches, events and silent watches since the start, and objects now."""
        return {**self._counts, "objects": len(self._store), "malformed": len(self.malformed)}

    # ---- how it follows

    async def run(self) -> None:
        """Follow until cancelled. Whatever the server does, the cache comes back to it, ever more slowly."""
        failures = 0
        while True:
            heard, began_at = self._counts["events"], self._clock.now()
            patience = None
            try:
                if self._must_list:
                    await self._list()
                    # A call that was made again may have hidden a cancellation, and a watch has no end.
                    raise_if_cancelled()
                    began_at = self._clock.now()
                await self._watch()
            except KubeError as error:
                patience = asked_patience(error)
                self._take_note(error)
                raise_if_cancelled()
            lasted = self._clock.now() - began_at >= _LONG_ENOUGH_SECONDS
            failures = 1 if lasted or self._counts["events"] > heard else failures + 1
            await self._clock.sleep(BACKOFF.delay(failures, self._client.random(), patience))

    def _take_note(self, error: KubeError) -> None:
        if _calls_for_a_list(error):
            self._must_list = True
        elif self.last_error is None or str(error) != str(self.last_error):
            log.warning("can't follow %s: %s", self.resource.full_name, error)
        self.last_error = error

    async def _list(self) -> None:
        """Take over all that is there, and tell of what has come, changed and gone since."""
        self._counts["lists"] += 1
        self.malformed.clear()
        listing = await self._client.list(
            self.resource,
            self._namespace,
            type=self.type,
            page_size=self._page_size,
            on_malformed=self._skip,
            **self._selectors,
        )
        older = [obj for key in self.malformed if (obj := self._store.get(key)) is not None]
        changes = self._store.replace([*listing.items, *older])
        self._version = listing.resource_version
        self._must_list = False
        self.last_error = None
        self._tell(changes)
        self._synced.set()

    async def _watch(self) -> None:
        """Follow one watch until it closes; one that has gone silent is closed, as if it had."""
        self._counts["watches"] += 1
        self._heard_at = self._clock.now()
        reading = asyncio.ensure_future(self._read())
        silence = asyncio.ensure_future(self._wait_for_silence())
        try:
            await asyncio.wait((reading, silence), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            silence.cancel()
            results = await asyncio.gather(reading, silence, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read(self) -> None:
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            type=self.type,
            on_malformed=self._skip,
            **self._selectors,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._heard_at = self._clock.now()
                self._apply(event)

    async def _wait_for_silence(self) -> None:
        while (left := self._heard_at + self._silence_seconds - self._clock.now()) > 0:
            await self._clock.sleep(left)
        self._counts["silences"] += 1
        raise TransportError(f"the watch was silent for {self._silence_seconds:g} s")

    def _apply(self, event: WatchEvent[T]) -> None:
        obj = event.object
        changes: list[Change[T]] = []
        if event.type == "DELETED":
            changes = self._store.remove(obj)
        elif event.type != "BOOKMARK":
            changes = self._store.put(obj)
        self._version = obj.metadata.resource_version
        self._counts["events"] += 1
        self.last_error = None
        if self.malformed:
            self.malformed.pop((obj.metadata.namespace, obj.metadata.name), None)
        self._tell(changes)

    def _tell(self, changes: list[Change[T]]) -> None:
        if self._on_change is not None:
            for old, new in changes:
                self._on_change(old, new)

    def _skip(self, malformed: Malformed) -> None:
        self._heard_at = self._clock.now()
        key = malformed.namespace, malformed.name
        if key not in self.malformed:
            log.warning("%s %s/%s can't be read: %s", self.resource.full_name, *malformed)
        self.malformed[key] = malformed.problem


def _calls_for_a_list(error: KubeError) -> bool:
    """Whether there is no going on from our version.

    The server has it no longer; or not yet, as after a restored backup; or what follows can't be read.
    """
    too_large = isinstance(error, ApiError) and error.has_cause("ResourceVersionTooLarge")
    return too_large or isinstance(error, Gone | DecodeError)
