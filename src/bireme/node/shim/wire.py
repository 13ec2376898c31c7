"""Messages between a shim and those who talk to it: a line of JSON each, descriptors beside it.

Orders, all with a field `do`:

    watch                                    be told the state, now and after each change
    start    container, attempt, argv, env, directory, output, cap?, mounts?, scratch?, cgroups?,
             umask?, limits?, enter?, kill?, stdin?, tty?
                                             start a container; an attempt that was made is left alone;
                                             `enter` is the program that runs others beside it, `kill` the
                                             signal that it takes instead of being killed; `limits` are
                                             (soft, hard) by name, as NOFILE
    signal   container, signal               signal its first process
    kill     container                       kill it and all that came from it
    attach   container                       where its input goes, or its terminal
    close-input  container                   its input ends
    exec     argv, env?, directory?, like?   run a command beside a container, the first unless `like` says,
                                             in its environment and directory unless others are given, with
                                             the three descriptors that come along; waits for its start
    signal-exec  signal                      signal the command of this connection
    socket                                   make a TCP socket in the pod's network
    end                                      kill all that is left, and go

Answers: `{"state": …}`, `{"exited": code, "signal": number}` after exec, `{"made": true}` with the
descriptor of a socket, `{"attached": true}` with that of an input, `{"error": "…"}`, with the `container`
that could not be started.
"""

import array
import contextlib
import json
import os
import socket
from typing import Any, Final

MOST_DESCRIPTORS: Final = 4
LONGEST_LINE: Final = 8 << 20
_CHUNK: Final = 1 << 16


def connect(folder: str, name: str = "shim.sock", *, waits: bool = True) -> socket.socket:
    """A connection to the shim of a folder; paths of sockets are short, those of folders need not be.

    Where too many want one already, it waits, or raises BlockingIOError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(waits)
            made.connect(f"/proc/self/fd/{descriptor}/{name}")
            made.setblocking(True)
        except OSError:
            made.close()
            raise
        return made
    finally:
        os.close(descriptor)


def listen(folder: str, name: str = "shim.sock") -> socket.socket:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = f"/proc/self/fd/{descriptor}/{name}"
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.new")  # noqa: PTH108
        made.bind(f"{path}.new")
        made.listen(64)
        # Whoever sees it connects at once, and would take a refusal for a shim that is dead.
        os.rename(f"{path}.new", path)  # noqa: PTH104
        return made
    finally:
        os.close(descriptor)


class Channel:
    """Messages over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""
        self._descriptors: list[int] = []

    def send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if descriptors:
            packed = array.array("i", descriptors)
            sent = self.connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
            data = data[sent:]
        self.connection.sendall(data)

    def receive(self) -> list[dict[str, Any]] | None:
        """What has come, after waiting for some of it; None at the end."""
        size = array.array("i").itemsize
        space = socket.CMSG_SPACE(MOST_DESCRIPTORS * size)
        data, ancillary, _, _ = self.connection.recvmsg(_CHUNK, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, packed in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(packed[: len(packed) - len(packed) % size])
                self._descriptors += numbers
        if not data:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        if len(self._received) > LONGEST_LINE:
            raise ValueError("a message is too long")
        return [json.loads(line) for line in lines]

    def take_descriptors(self) -> list[int]:
        """The descriptors that came along; they are the taker's to close."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        for descriptor in self.take_descriptors():
            os.close(descriptor)
        self.connection.close()
