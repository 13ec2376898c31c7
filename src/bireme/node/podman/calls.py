"""Serves calls: a program in a launcher's container runs a command in a worker of its job.

mpirun calls `bireme-agent`, a shell script, as its remote shell. The script has nothing of ours to talk
with but named pipes, because an image need not have more than a shell and `dd`, `cat` and `printf`: a shell
cannot open a Unix socket. The server is a thread of the launcher's attendant, outside of the container and
often root.

Theory of operation. The server makes a directory, and mounts it read-only into the container. In it are
`free`, a pipe, and some slots. A slot is a directory with five pipes, for one call:

    ask   container → server   the request, then the names of signals; EOF says that the caller is gone
    in    container → command  standard input
    out   command → container  standard output
    err   command → container  standard error
    end   server → container   the exit code

The server writes the name of each new slot into `free`; a caller reads one name, so no two callers share a
slot. A slot serves one call, and is removed:

    FREE ──first bytes──► ASKING ──NUL──► SEEKING ──worker's shim answers──► RUNNING ──exit code──► gone
      └─ taken, nothing said ─┴─ not complete in time, too long ─┴─ not a worker of the job ─► gone

What must hold whatever the container does:

- It cannot make, replace, rename or remove anything here: the mount is read-only. Pipes hold no data.
- The server opens each pipe once, right after it made it, with O_NOFOLLOW, and checks that it is a pipe.
  Later it opens it again by its own descriptor (/proc/self/fd/N), never by name. It never reads from or
  writes to anything but these pipes.
- Everything is bounded: calls at a time, slots made per second, bytes of a request, time to complete one,
  one thread. Nothing blocks: pipes are O_NONBLOCK in this process, and connections have a timeout.
- Who may be called is not the container's to say: only a pod whose own orders name the caller's job
  (`callers`), by the pod's UID. A pod that is not there and a pod of another job give the same answer.

It imports the standard library only.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import selectors
import signal
import socket
import stat
import sys
import termios
import threading
import time
from typing import Any, Final, Literal

from bireme.node.shim import wire

UNREACHABLE: Final = 255
MOST_CALLS: Final = 256
LONGEST_COMMAND: Final = 64 << 10
_FREE_SLOTS: Final = 8
_SLOTS_PER_SECOND: Final = 20.0
_LONGEST_HEADER: Final = 512
REQUEST_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 1.0
"""How long a call waits for its worker: pods of a job begin at about the same time, though not in step."""
_SEND_SECONDS: Final = 5.0
_BUSY_PAUSE_SECONDS: Final = 0.05
_IDLE_PAUSE_SECONDS: Final = 2.0
_CHUNK: Final = 1 << 16
_FREE: Final = "free"
_PIPES: Final = ("ask", "in", "out", "err", "end")
_NAMES: Final = 10_000
_FREE_PORT: Final = "--free-port"
_WAITS: Final = "wait"
_SIGNALS: Final = {b"TERM": signal.SIGTERM, b"INT": signal.SIGINT, b"HUP": signal.SIGHUP}
_POD_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_CONTAINER_NAME: Final = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")

State = Literal["free", "asking", "seeking", "running"]


class CallError(Exception):
    """A call is refused; the message is for the caller."""


def serve(settings: dict[str, str]) -> None:
    """Serve the calls of one container until this process ends.

    `folder` is the directory that it makes, in one of ours, `job` the UID of the caller's job, `names` the
    directory that has a link for each pod's name, `pods` the one with the pods' folders.
    """
    server = CallServer(settings)
    threading.Thread(target=server.run, daemon=True).start()


class Slot:
    """One call and its pipes. `held` are ends that keep the others from blocking until the command runs."""

    def __init__(self, folder: int, name: str, now: float) -> None:
        self.name, self.since = name, now
        self.state: State = "free"
        self.received = b""
        self.channel: wire.Channel | None = None
        self.request: list[str] = []
        os.mkdir(name, 0o755, dir_fd=folder)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._above, self._folder = folder, os.open(name, flags, dir_fd=folder)
        # Read-only from the start: Linux reports no hang-up then before there was a writer.
        self.ask = make_pipe(self._folder, "ask", os.O_RDONLY)
        self.held = {pipe: make_pipe(self._folder, pipe, os.O_RDWR) for pipe in _PIPES if pipe != "ask"}
        self.streams: dict[str, int] = {}

    def take_streams(self) -> list[int]:
        """Return descriptors of in, out and err for the command; they are the taker's to close."""
        streams = [reopen(os.dup(self.held["in"]), os.O_RDONLY)]
        streams += [reopen(os.dup(self.held[name]), os.O_WRONLY) for name in ("out", "err")]
        self.streams["err"] = reopen(os.dup(self.held["err"]), os.O_WRONLY)
        for name in ("in", "out", "err"):
            os.close(self.held.pop(name))
        for stream in streams:
            os.set_blocking(stream, True)
        return streams

    def say(self, text: str) -> None:
        """Write a line to the caller's standard error, if that takes it."""
        with contextlib.suppress(OSError):
            os.write(self.streams.get("err") or self.held["err"], f"bireme: {text}\n".encode()[:1024])

    def print(self, text: str) -> None:
        """Write a line to the caller's standard output, if that takes it."""
        with contextlib.suppress(OSError):
            os.write(self.held["out"], f"{text}\n".encode())

    def end(self, code: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self.held["end"], f"{code}\n".encode())

    def close(self) -> None:
        """Close the pipes and take them away: the caller sees EOF, a caller that is gone is forgotten."""
        if self.channel is not None:
            self.channel.close()
        for descriptor in (self.ask, *self.held.values(), *self.streams.values()):
            os.close(descriptor)
        for pipe in _PIPES:
            with contextlib.suppress(OSError):
                os.unlink(pipe, dir_fd=self._folder)
        os.close(self._folder)
        with contextlib.suppress(OSError):
            os.rmdir(self.name, dir_fd=self._above)


def make_pipe(folder: int, name: str, flags: int) -> int:
    """Make a named pipe in a directory, for all users; open it with these flags."""
    os.mkfifo(name, 0o600, dir_fd=folder)
    path = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISFIFO(os.fstat(path).st_mode):
        os.close(path)
        raise OSError(errno.EINVAL, "is no pipe any more", name)
    opened = reopen(path, flags)
    os.fchmod(opened, 0o666)
    return opened


def reopen(descriptor: int, flags: int) -> int:
    """Open what a descriptor names with other flags, and close the descriptor."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(descriptor)


class CallServer:
    """Makes slots, and serves them. All of it runs in one thread."""

    def __init__(self, settings: dict[str, str], request_seconds: float = REQUEST_SECONDS) -> None:
        self._request_seconds = request_seconds
        self._job, self._names, self._pods = settings["job"], settings["names"], settings["pods"]
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        # New: an attempt at a container has one attendant, and these pipes are no other's.
        os.mkdir(settings["folder"], 0o755)  # noqa: PTH102
        self._folder = os.open(settings["folder"], flags)
        self._free = make_pipe(self._folder, _FREE, os.O_RDWR)
        self._selector = selectors.DefaultSelector()
        self._slots: list[Slot] = []
        self._published: list[Slot] = []
        """The slots whose names were written into `free`, in this order, and that nobody has used yet."""
        self._made = 0
        self._allowance, self._refilled = float(MOST_CALLS), time.monotonic()
        self._publish(self._refilled)

    def run(self) -> None:
        while True:
            self.turn()

    def turn(self, pause: float | None = None) -> None:
        """Wait for something to happen, and take it in."""
        for key, _ in self._selector.select(self._pause() if pause is None else pause):
            slot = key.data
            # An earlier event of this round may have closed it.
            if slot in self._slots:
                self._guarded(slot, key.fd == slot.ask)
        now = time.monotonic()
        for slot in list(self._slots):
            self._look_at(slot, now)
        self._forget_taken(now)
        self._publish(now)

    def _pause(self) -> float:
        is_busy = any(slot.state in ("asking", "seeking") for slot in self._slots)
        is_short = len(self._published) < min(_FREE_SLOTS, MOST_CALLS - len(self._slots))
        return _BUSY_PAUSE_SECONDS if is_busy or is_short else _IDLE_PAUSE_SECONDS

    def _guarded(self, slot: Slot, is_ask: bool) -> None:
        try:
            if is_ask:
                self._hear(slot)
            else:
                self._receive(slot)
        except (OSError, ValueError):
            self._drop(slot)

    # ---- slots

    def _publish(self, now: float) -> None:
        """Keep a few slots free, as long as there are not too many."""
        self._allowance = min(MOST_CALLS, self._allowance + (now - self._refilled) * _SLOTS_PER_SECOND)
        self._refilled = now
        while len(self._published) < _FREE_SLOTS and len(self._slots) < MOST_CALLS and self._allowance >= 1:
            self._allowance -= 1
            try:
                slot = Slot(self._folder, self._next_name(), now)
            except OSError:
                # No descriptor, or no space, is left: what ends frees some.
                return
            self._slots.append(slot)
            self._published.append(slot)
            self._selector.register(slot.ask, selectors.EVENT_READ, slot)
            with contextlib.suppress(OSError):
                os.write(self._free, slot.name.encode())

    def _next_name(self) -> str:
        taken = {slot.name for slot in self._slots}
        while True:
            name = f"{self._made % _NAMES:04d}"
            self._made += 1
            if name not in taken:
                return name

    def _forget_taken(self, now: float) -> None:
        """Drop slots whose names were read, and that were not used in time: their callers are gone."""
        unread = min(_waiting_bytes(self._free) // 4, len(self._published))
        taken = self._published[: len(self._published) - unread]
        for slot in self._published[len(taken) :]:
            slot.since = now
        for slot in taken:
            if now - slot.since > self._request_seconds:
                self._drop(slot)

    def _drop(self, slot: Slot) -> None:
        if slot not in self._slots:
            return
        self._slots.remove(slot)
        if slot in self._published:
            self._published.remove(slot)
        self._selector.unregister(slot.ask)
        if slot.channel is not None:
            self._selector.unregister(slot.channel.connection)
        slot.close()

    def _finish(self, slot: Slot, code: int) -> None:
        slot.end(code)
        self._drop(slot)

    # ---- requests

    def _hear(self, slot: Slot) -> None:
        data = os.read(slot.ask, _CHUNK)
        if not data:
            # The caller is gone; its command goes with the connection.
            self._drop(slot)
        elif slot.state == "running":
            self._pass_on(slot, data)
        elif slot.state != "seeking":
            self._collect(slot, data)

    def _collect(self, slot: Slot, data: bytes) -> None:
        if slot.state == "free":
            slot.state, slot.since = "asking", time.monotonic()
            self._published.remove(slot)
        slot.received += data
        text, end, _ = slot.received.partition(b"\0")
        if len(text) > LONGEST_COMMAND + _LONGEST_HEADER:
            self._refuse(slot, f"a command may have {LONGEST_COMMAND} bytes")
        elif end:
            slot.request = text.decode(errors="surrogateescape").split("\n", 3)
            slot.state, slot.received, slot.since = "seeking", b"", time.monotonic()
            self._begin(slot)

    def _refuse(self, slot: Slot, why: str) -> None:
        slot.say(why)
        self._finish(slot, UNREACHABLE)

    def _look_at(self, slot: Slot, now: float) -> None:
        if slot.state == "asking" and now - slot.since > self._request_seconds:
            self._refuse(slot, f"the request did not end within {self._request_seconds:g} s")
        elif slot.state == "seeking":
            self._begin(slot)

    def _begin(self, slot: Slot) -> None:
        """Run the command, if its worker is there by now."""
        try:
            waits, pod, container, command = _parse(slot.request)
            if pod == _FREE_PORT:
                slot.print(str(_free_port()))
                self._finish(slot, 0)
                return
            channel = self._connect(pod)
        except CallError as error:
            self._refuse(slot, str(error))
            return
        if channel is not None:
            self._run(slot, channel, container, command)
        elif not waits and time.monotonic() - slot.since > _PATIENCE_SECONDS:
            self._refuse(slot, f'pod "{pod}" is not a running worker of this job (NotFound)')

    def _run(self, slot: Slot, channel: wire.Channel, container: str, command: str) -> None:
        order: dict[str, Any] = {"do": "exec", "argv": ["/bin/sh", "-c", command]}
        streams: list[int] = []
        try:
            streams = slot.take_streams()
            channel.send(order | ({"like": container} if container else {}), streams)
        except OSError:
            channel.close()
            self._drop(slot)
            return
        finally:
            for stream in streams:
                os.close(stream)
        slot.state, slot.channel = "running", channel
        self._selector.register(channel.connection, selectors.EVENT_READ, slot)

    def _pass_on(self, slot: Slot, data: bytes) -> None:
        assert slot.channel is not None
        # The last of each: a caller that writes without end gets no more than one.
        for name in dict.fromkeys(data.split()):
            if signum := _SIGNALS.get(name):
                slot.channel.send({"do": "signal-exec", "signal": int(signum)})

    def _receive(self, slot: Slot) -> None:
        assert slot.channel is not None
        messages = slot.channel.receive()
        if messages is None:
            slot.say("the pod has ended")
            self._finish(slot, UNREACHABLE)
            return
        for message in messages:
            if message.get("error"):
                slot.say(str(message["error"]))
            if "exited" in message:
                self._finish(slot, int(message["exited"]))
                return

    # ---- who is called

    def _connect(self, pod: str) -> wire.Channel | None:
        """Connect to the shim of a worker; None if there is none that the caller may call."""
        try:
            uid = os.path.basename(os.readlink(f"{self._names}/{pod}"))  # noqa: PTH115, PTH119
            folder = f"{self._pods}/{uid}"
            with open(f"{folder}/pod.json") as file:  # noqa: PTH123
                orders = json.load(file)
            if not self._job or orders.get("callable_by") != self._job:
                return None
            connection = wire.connect(folder, waits=False)
        except (OSError, ValueError):
            return None
        connection.settimeout(_SEND_SECONDS)
        return wire.Channel(connection)


def _parse(request: list[str]) -> tuple[bool, str, str, str]:
    """Whether to wait for the pod, its name, a container of it, and the command. Raises CallError."""
    if len(request) != 4:
        raise CallError("usage: bireme-agent POD COMMAND…")
    waits, pod, container, command = request
    if pod != _FREE_PORT and not _POD_NAME.fullmatch(pod):
        raise CallError(f"{pod[:64]!r} is not the name of a pod")
    if not _CONTAINER_NAME.fullmatch(container):
        raise CallError(f"{container[:64]!r} is not the name of a container")
    if len(command.encode(errors="surrogateescape")) > LONGEST_COMMAND:
        raise CallError(f"a command may have {LONGEST_COMMAND} bytes")
    return waits == _WAITS, pod, container, command


def _waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port
