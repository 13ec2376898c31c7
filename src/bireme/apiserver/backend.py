"""A store that is saved: writes go in groups, each saved before anybody hears of it.

While a group is on its way to the disk, the store is ahead of what is saved. So reads wait for it, watchers
are told afterwards, and if it can't be saved it is taken back. Nothing that was answered can be lost.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from bireme.apiserver import errors
from bireme.apiserver.database import Database, StorageError
from bireme.apiserver.garbage import Collector
from bireme.apiserver.store import Store

T = TypeVar("T")
_log = logging.getLogger(__name__)
_LARGEST_GROUP: Final = 64


class _Call(NamedTuple):
    """What is to be done, and who waits for it; nobody waits for the server's own work."""

    operate: Callable[[], Any]
    future: asyncio.Future[Any] | None


class Backend:
    """The one way to a store that several clients share. All its methods belong to one event loop."""

    def __init__(self, store: Store, database: Database | None, now: Callable[[], datetime]) -> None:
        """`store` must not publish by itself. Without a database nothing is saved."""
        self.store = store
        self.now = now
        self._database = database
        self._collector: Collector | None = Collector(store)
        self._writes: list[_Call] = []
        self._reads: list[_Call] = []
        self._is_saving = False
        self._drain: asyncio.Task[None] | None = None
        # One thread: a database is used by one at a time.
        self._thread = ThreadPoolExecutor(1, "bireme-store")

    async def read(self, operate: Callable[[], T]) -> T:
        """Look at the store, when all that is in it is saved."""
        if not self._is_saving:
            return operate()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._reads.append(_Call(operate, future))
        return await future

    async def write(self, operate: Callable[[], T]) -> T:
        """Change the store: all that `operate` does or, if it raises, nothing. Returns when it is saved.

        Raises what `operate` raises, and a StatusError if it could not be saved.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Call(operate, future))
        return await future

    def collect(self) -> None:
        """Do what is left to do."""
        if self._collector is None:
            # What it had begun was not saved: it looks at everything again.
            self._collector = Collector(self.store)
        if self._collector.has_work:
            self._enqueue(_Call(self._collect, None))

    async def close(self) -> None:
        """Finish what was begun, and let go of the file."""
        while self._drain is not None:
            await asyncio.wait([self._drain])
        if self._database is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    def _enqueue(self, call: _Call) -> None:
        self._writes.append(call)
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._writes:
                group, self._writes = self._writes[:_LARGEST_GROUP], self._writes[_LARGEST_GROUP:]
                await self._do(group)
        finally:
            self._drain = None

    async def _do(self, group: Sequence[_Call]) -> None:
        results = [self._operate(call) for call in group]
        try:
            await self._save()
        except Exception as error:
            if not isinstance(error, StorageError):
                _log.exception("a group of writes can't be saved")
            self.store.take_back()
            self._collector = None
            if len(group) > 1:
                await self._do_each(group)
                return
            results = [_Failed(errors.storage_failed(str(error)))] * len(group)
        else:
            self._publish()
        for call, result in zip(group, results, strict=True):
            _answer(call, result)
        self._look()

    async def _do_each(self, group: Sequence[_Call]) -> None:
        """Save the writes of a group one by one.

        A full disk takes deletions but no new objects, and small writes but no large ones: each write of a
        group that cannot be saved succeeds or fails by itself.
        """
        for call in group:
            await self._do([call])

    def _operate(self, call: _Call) -> object:
        try:
            with self.store.attempt():
                return call.operate()
        except Exception as error:
            return _Failed(error)

    async def _save(self) -> None:
        staged = self.store.staged()
        if not staged or self._database is None:
            return
        self._is_saving = True
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._database.commit, staged)
        finally:
            self._is_saving = False

    def _publish(self) -> None:
        staged = self.store.staged()
        if staged:
            self.store.publish()
            if self._collector is not None:
                self._collector.notice(staged)
        # Also if nothing was written: the next that wait may be those of which something is to be written.
        self.collect()

    def _look(self) -> None:
        """Let those read who waited: here and at once, before another group is on its way."""
        reads, self._reads = self._reads, []
        for call in reads:
            if call.future is None or call.future.done():
                continue  # Its client has gone; nobody would close what it opens.
            try:
                result: object = call.operate()
            except Exception as error:
                result = _Failed(error)
            _answer(call, result)

    def _collect(self) -> None:
        if self._collector is not None:
            self._collector.step(self.now())


def _trace(error: Exception) -> Exception | None:
    """A refusal says all in its message."""
    return None if isinstance(error, errors.StatusError) else error


class _Failed(NamedTuple):
    error: Exception


def _answer(call: _Call, result: object) -> None:
    if call.future is None:
        if isinstance(result, _Failed):
            _log.error("the server's own work failed: %s", result.error, exc_info=_trace(result.error))
        return
    if call.future.done():
        return
    if isinstance(result, _Failed):
        call.future.set_exception(result.error)
    else:
        call.future.set_result(result)
