"""Sends our standard input to the container of a job that reads it.

mpirun gives its standard input to rank 0, and so does Bireme: the launcher's container, or that of a single
replica, has an open standard input, to which the forwarder attaches once the container runs. Input is sent
once, to its end. If a connection breaks before, the program would take a part of its input for the whole: the
forwarder then reports the input as lost, and the command stops the job.
"""

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

from bireme.cli.stdin_plan import Source, classify
from bireme.kube.errors import KubeError
from bireme.kube.exec import attach
from bireme.kube.protocol import FormTransport

_CHUNK: Final = 1 << 16
_PAUSES_SECONDS: Final = (0.1, 0.5, 2.0)
_BACKGROUND_SECONDS: Final = 1.0


class Forwarder:
    """Sends standard input to the first container of a job that reads it."""

    def __init__(self, open_transport: Callable[[], FormTransport]) -> None:
        self._open = open_transport
        self._reader = _Reader(sys.stdin.fileno())
        self._task: asyncio.Task[None] | None = None
        self._receiver = ""
        self._runs = False
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the job can't get its input any more."""

    def update(self, namespace: str, pod: str, uid: str, container: str, *, runs: bool) -> None:
        """Take note of a container that reads standard input; attach to the first one that runs."""
        if not self._receiver and runs:
            self._receiver = uid
            self._task = asyncio.get_running_loop().create_task(self._forward(namespace, pod, container))
        if self._receiver == uid:
            self._runs = runs
        elif self._receiver and runs:
            self._lose(f"{pod} was started again, and standard input can't be read twice")

    async def _forward(self, namespace: str, pod: str, container: str) -> None:
        transport = self._open()
        try:
            await self._attach(transport, namespace, pod, container)
        except OSError as error:
            self._lose(f"standard input can't be read: {error.strerror or error}")
        finally:
            await transport.close()

    async def _attach(self, transport: FormTransport, namespace: str, pod: str, container: str) -> None:
        reason = ""
        for pause in _PAUSES_SECONDS:
            try:
                await attach(transport, namespace, pod, container=container, stdin=self._reader.chunks())
                return
            except KubeError as error:
                reason = str(error)
            await asyncio.sleep(pause)
            if not self._runs:
                # The container has exited; it did not need the rest of the input.
                return
            if self._reader.count:
                break
        self._lose(f"standard input has not reached {pod} (after {self._reader.count} bytes): {reason}")

    def _lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    @property
    def unsent(self) -> str:
        """Return why the client must not leave yet: unsent input. Empty if there is none."""
        if self._task is None or self._reader.has_ended or not self._runs:
            return ""
        return f"the job still reads standard input, after {self._reader.count} bytes"

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to another reader for a while."""
        self._reader.pause()
        try:
            yield
        finally:
            self._reader.resume()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class _Reader:
    """Reads a descriptor without blocking the event loop.

    The descriptor stays in blocking mode, because other processes share its file description.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._source = classify(descriptor)
        self._can_wait = _is_pollable(descriptor)
        self._pausing, self._resumed = asyncio.Event(), asyncio.Event()
        self._resumed.set()
        self.count = 0
        self.has_ended = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while data := await self._read():
            self.count += len(data)
            yield data
        self.has_ended = True

    async def _read(self) -> bytes:
        if not self._can_wait:
            # A file server may be slow.
            return await asyncio.to_thread(os.read, self._descriptor, _CHUNK)
        while True:
            await self._resumed.wait()
            if not await self._is_ready():
                continue
            if self._source is not Source.TERMINAL or _is_foreground(self._descriptor):
                return os.read(self._descriptor, _CHUNK)
            # The kernel would stop this process. A shell that makes it the foreground job sends no signal.
            await asyncio.sleep(_BACKGROUND_SECONDS)

    async def _is_ready(self) -> bool:
        """Wait until there is something to read; False if another reader wants it."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        waits = [asyncio.create_task(event.wait()) for event in (ready, self._pausing)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            if not self._pausing.is_set():
                loop.remove_reader(self._descriptor)
        return not self._pausing.is_set()

    def pause(self) -> None:
        self._pausing.set()
        self._resumed.clear()
        if self._can_wait:
            # At once: an event loop has one reader for a descriptor, and the other one comes now.
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def resume(self) -> None:
        self._pausing.clear()
        self._resumed.set()


def _is_pollable(descriptor: int) -> bool:
    """Whether an event loop can wait for a descriptor; not for regular files and some devices."""
    with select.epoll() as poll:
        try:
            poll.register(descriptor, select.EPOLLIN)
        except OSError:
            return False
    return True


def _is_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True
