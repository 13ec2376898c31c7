"""The daemon's end of the process that forks shims."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from bireme.node.folders import ROOT, PodFolder
from bireme.node.open_files import restore_limit
from bireme.node.shim.nursery import LONGEST_MESSAGE
from bireme.node.shims import ShimError
from bireme.private_files import open_log

_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 2.0
_AT_ONCE: Final = 16
"""How many shims may be on their way: more would only be in each other's."""
_PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from bireme.node.shim.nursery import serve
serve()
"""


class Nursery:
    """Starts shims. Its process is started when it is first needed, and again when it was lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._waiting: dict[bytes, asyncio.Future[str]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def start(self, folder: PodFolder) -> None:
        """Start the shim of a pod, and wait until it listens. Raises ShimError."""
        name = os.fsencode(folder.path)
        async with self._turns:
            answer = self._waiting[name] = asyncio.get_running_loop().create_future()
            try:
                # At most so many are on their way, and they are small: there is room for this one.
                self.open().send(name)
                async with asyncio.timeout(_START_SECONDS):
                    problem = await answer
            except TimeoutError as error:
                raise ShimError(f"it did not begin within {_START_SECONDS:g} s") from error
            except OSError as error:
                raise ShimError(error.strerror or str(error)) from error
            finally:
                self._waiting.pop(name, None)
        if problem:
            raise ShimError(problem)

    def open(self) -> socket.socket:
        """The connection to the process, which is started if there is none."""
        if self._connection is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, open_log(self._folder / "shims.log") as log:
                # The folder of the pods stands in the command line: by it leftovers are found.
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(ROOT), f"{self._folder}/pods"],
                    stdin=theirs.fileno(),
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={"PATH": os.defpath},
                    start_new_session=True,
                )
            # Before its first message: shims, and the pods below them, inherit the limit.
            restore_limit(self._process.pid)
            ours.setblocking(False)
            asyncio.get_running_loop().add_reader(ours.fileno(), self._receive)
            self._connection = ours
        return self._connection

    def close(self) -> None:
        """End the process; the shims go on."""
        if self._connection is None or self._process is None:
            return
        asyncio.get_running_loop().remove_reader(self._connection.fileno())
        self._connection.close()
        self._connection = None
        _end(self._process)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result("the process that starts shims has ended")

    def _receive(self) -> None:
        assert self._connection is not None
        message = b""
        with contextlib.suppress(ConnectionError):
            try:
                message = self._connection.recv(LONGEST_MESSAGE)
            except BlockingIOError:
                return
        if not message:
            self.close()
            return
        name, _, problem = message.partition(b"\0")
        answer = self._waiting.get(name)
        if answer is not None and not answer.done():
            answer.set_result(problem.decode(errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """See a process end that was asked to; one that can't be asked, as it was stopped, is killed."""
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
