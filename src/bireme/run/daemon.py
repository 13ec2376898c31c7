"""The embedded mode as a daemon of one data folder."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bireme.apiserver.inside import InsideTransport
from bireme.kube.cancelling import raise_if_cancelled
from bireme.kube.client import Client
from bireme.kube.errors import KubeError
from bireme.node.drivers import PROCESS
from bireme.node.machine import look
from bireme.node.open_files import raise_limit
from bireme.node.shim.tree import read_process
from bireme.run import chores
from bireme.run.apiserver import Options, now
from bireme.run.embedded import Embedded, embedded
from bireme.run.presence import Daemon, card, write_card

log = logging.getLogger("bireme")

KEEP_FINISHED: Final = timedelta(hours=1)
_STOP_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 30.0
_LATECOMERS_SECONDS: Final = 0.5
_CARD_SECONDS: Final = 1.0
"""After how long daemon.json is written again if the disk was full."""


class DaemonOptions(NamedTuple):
    """What `bireme daemon` was told; without `idle_seconds` it stays."""

    server: Options
    directory: Path
    idle_seconds: float | None = None
    keep_finished: timedelta | None = KEEP_FINISHED
    driver: str = PROCESS
    cpu: str = ""
    memory: str = ""


async def run_daemon(options: DaemonOptions, say_ready: Callable[[Daemon], None]) -> None:
    """Run jobs until SIGTERM or SIGINT, or until idle; SIGUSR1 makes it stay.

    Raises FolderError, DatabaseError and ListenError.
    """
    raise_limit()
    stop, stay = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum, event in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGUSR1, stay)):
        loop.add_signal_handler(signum, event.set)
    if options.idle_seconds is None:
        stay.set()
    folder = options.server.folder
    machine = msgspec.structs.replace(look(), cpu=options.cpu, memory=options.memory)
    async with embedded(
        options.server, directory=options.directory, machine=machine, driver=options.driver
    ) as running:
        told = Told(folder, _describe(running, options, stays=stay.is_set()))
        async with _housekeeping(running, options, told, stop, stay):
            say_ready(told.daemon)
            log.info("ready at %s", told.daemon.url)
            await stop.wait()
            told.change(ending=True)
    card(folder).unlink(missing_ok=True)
    log.info("the daemon ends")


class Told:
    """What others can read of this daemon."""

    def __init__(self, folder: Path, daemon: Daemon) -> None:
        self.daemon = daemon
        self._folder = folder
        write_card(folder, daemon)

    def change(self, **changes: Any) -> None:
        """Tell something else; on a full disk others read the old text until there is space."""
        self.daemon = msgspec.structs.replace(self.daemon, **changes)
        self._write()

    def _write(self) -> None:
        try:
            write_card(self._folder, self.daemon)
        except OSError:
            if not self.daemon.ending:
                asyncio.get_running_loop().call_later(_CARD_SECONDS, self._write)


def _describe(running: Embedded, options: DaemonOptions, *, stays: bool) -> Daemon:
    server, machine = running.server, running.machine
    keep, process = options.keep_finished or timedelta(), read_process(os.getpid())
    return Daemon(
        os.getpid(),
        server.url,
        str(server.kubeconfig),
        now(),
        machine.isolation,
        machine.name,
        stays,
        socket=str(server.socket),
        driver=running.driver,
        limits=running.limits,
        keep_finished_seconds=keep.total_seconds(),
        cpu=options.cpu,
        memory=options.memory,
        start_ticks=None if process is None else process.start,
    )


@contextlib.asynccontextmanager
async def _housekeeping(
    running: Embedded, options: DaemonOptions, told: Told, stop: asyncio.Event, stay: asyncio.Event
) -> AsyncIterator[None]:
    client = Client(InsideTransport(running.server.backend, "bireme-daemon"))
    folder = options.server.folder
    work: list[Coroutine[Any, Any, None]] = [_again(lambda: chores.sweep_submitters(client, folder))]
    keep, idle = options.keep_finished, options.idle_seconds
    if keep is not None:
        work.append(_again(lambda: chores.forget_finished(client, keep, now)))
    if idle is not None:
        quiet = running.server.quiet_seconds
        work.append(_stay(told, stay))
        work.append(_end_when_idle(client, quiet, idle, told, stop))
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def _again(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do this, and once more after whatever went wrong, such as a write to a full disk."""
    while True:
        try:
            await work()
            return
        except KubeError as error:
            log.warning("a chore is put off: %s", error)
        except Exception:
            log.exception("a chore has failed, and is tried again")
        raise_if_cancelled()
        await asyncio.sleep(_AGAIN_SECONDS)


async def _stay(told: Told, stay: asyncio.Event) -> None:
    await stay.wait()
    told.change(stays=True)


async def _end_when_idle(
    client: Client, quiet: Callable[[], float], idle_seconds: float, told: Told, stop: asyncio.Event
) -> None:
    """Set `stop` when idle, once nothing runs any more; jobs that ended may have left pods."""
    while not told.daemon.stays:
        await _again(lambda: chores.wait_until_idle(client, quiet, idle_seconds))
        if told.daemon.stays:
            return
        told.change(ending=True)
        # Whoever has found this daemon before it said so is heard now.
        await asyncio.sleep(_LATECOMERS_SECONDS)
        if quiet() >= idle_seconds and not told.daemon.stays:
            break
        told.change(ending=False)
    else:
        return
    log.info("nobody needs this daemon any more")
    with contextlib.suppress(KubeError, TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await chores.stop_pods(client)
            await chores.wait_stopped(client)
    stop.set()
