"""The daemon's end of a shim: start it, talk to it, find it again after a crash."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bireme.node.folders import PodFolder
from bireme.node.shim import wire
from bireme.node.shim.records import boot_id
from bireme.node.shim.tree import Process, all_processes, descendants, kill, read_process

log = logging.getLogger("bireme.node")

State = dict[str, Any]
OnChange = Callable[[State | None], None]
OnRefusal = Callable[[str, str], None]
MARKER: Final = "BIREME_POD_UID"
"""The variable by which processes of a pod are known when their shim is gone."""
_START_SECONDS: Final = 20.0
_END_SECONDS: Final = 10.0
_KILL_SECONDS: Final = 10.0
"""How long what was killed may take to go: a process that waits for a device goes when that answers."""
_ANSWER_SECONDS: Final = 5.0


class ShimError(Exception):
    """A shim could not be started; the message says why."""


class Shim:
    """A connection to a pod's shim.

    `on_change` is called with each new state, and None when it is gone; `on_refusal` with a container that
    could not be started, and why.
    """

    def __init__(self, channel: wire.Channel, on_change: OnChange, on_refusal: OnRefusal) -> None:
        self._channel, self._on_change, self._on_refusal = channel, on_change, on_refusal
        self._loop = asyncio.get_running_loop()
        self.is_gone = False
        channel.connection.setblocking(False)
        self._loop.add_reader(channel.connection.fileno(), self._receive)
        self.send({"do": "watch"})

    def send(self, order: Mapping[str, Any], descriptors: list[int] | None = None) -> None:
        """Give an order; one that can't be given any more is lost, as the shim is."""
        if self.is_gone:
            return
        # Orders are small and a shim reads at once: this waits for microseconds.
        connection = self._channel.connection
        connection.setblocking(True)
        try:
            self._channel.send(dict(order), descriptors)
        except OSError:
            self.close()
        finally:
            if not self.is_gone:
                connection.setblocking(False)

    def close(self) -> None:
        """Leave the shim alone."""
        if not self.is_gone:
            self.is_gone = True
            self._loop.remove_reader(self._channel.connection.fileno())
            self._channel.close()

    def _receive(self) -> None:
        try:
            messages = self._channel.receive()
        except BlockingIOError:
            return
        except (OSError, ValueError):
            messages = None
        if messages is None:
            self.close()
            self._on_change(None)
            return
        for message in messages:
            if "state" in message:
                self._on_change(message["state"])
            elif "error" in message and "container" in message:
                self._on_refusal(message["container"], message["error"])


def write_orders(folder: PodFolder, wanted: Mapping[str, Any]) -> None:
    """Say what a pod's shim is to make before any container; all at once, as it may be read at any time."""
    new = folder.orders.with_suffix(".new")
    new.write_text(json.dumps(wanted))
    new.replace(folder.orders)


async def wait_for(wanted: Path, failed: Path) -> None:
    """Wait until a file is there. Raises ShimError when another one is, with what it says."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_SECONDS
    pause = 0.002
    while not wanted.exists():
        if failed.exists():
            raise ShimError(failed.read_text() or "it failed without a word")
        if loop.time() > deadline:
            raise ShimError(f"it did not begin within {_START_SECONDS:g} s")
        await asyncio.sleep(pause)
        pause = min(0.05, pause * 1.5)


def find(folder: PodFolder, on_change: OnChange, on_refusal: OnRefusal) -> Shim | None:
    """The shim of a folder, if it is alive."""
    try:
        connection = wire.connect(str(folder.path))
    except OSError:
        return None
    return Shim(wire.Channel(connection), on_change, on_refusal)


def read_state(folder: PodFolder) -> State | None:
    """What a shim last wrote down; None if there was none, or it can't be read."""
    try:
        state = json.loads(folder.state.read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and {"shim", "containers"} <= state.keys() else None


def read_cgroups(folder: PodFolder) -> list[str]:
    """Those that the containers of a pod are in, or were."""
    records = (read_state(folder) or {}).get("containers", {}).values()
    return [cgroup for record in records for cgroup in record.get("cgroups", ())]


def read_orders(folder: PodFolder) -> dict[str, Any]:
    """What a pod's shim was started with."""
    try:
        orders: dict[str, Any] = json.loads(folder.orders.read_text())
    except (OSError, ValueError):
        return {}
    return orders


def is_of_this_boot(state: State) -> bool:
    booted: bool = state["shim"]["boot"] == boot_id()
    return booted


def sweep(uid: str, state: State | None) -> int:
    """Kill what is left of a pod whose shim is gone; return how many processes."""
    roots = set(_marked(uid))
    if state is not None and is_of_this_boot(state):
        for record in state["containers"].values():
            process = read_process(record.get("pid", 0))
            if process is not None and process.start == record.get("start") and "finished" not in record:
                roots.add(process.pid)
    known = list(all_processes())
    doomed = [process for process in known if process.pid in roots] + descendants(roots, known)
    return kill({process.pid: process for process in doomed if process.pid != os.getpid()}.values())


def clear(
    uid: str,
    state: State | None,
    *,
    sweep: Callable[[str, State | None], int] = sweep,
    end_seconds: float = _END_SECONDS,
    kill_seconds: float = _KILL_SECONDS,
) -> None:
    """Wait until a shim that was told to end has ended, and see that nothing of its pod is left.

    What would not end is killed: a shim that goes on would write into a folder that is to go. What does not
    end even then is told of, and left alone.
    """
    begun = time.monotonic()
    while _shim_alive(state) or sweep(uid, state):
        waited = time.monotonic() - begun
        if waited > end_seconds + kill_seconds:
            log.warning("processes of a pod do not end, though they were killed", extra={"uid": uid})
            return
        if waited > end_seconds:
            kill_shim(state)
        time.sleep(0.01)


def kill_shim(state: State | None) -> None:
    """Kill the process of a shim, if it is there; its containers go with it."""
    kill(_shim_alive(state))


def _shim_alive(state: State | None) -> list[Process]:
    """The process of a shim; none if it has ended."""
    if state is None or not is_of_this_boot(state):
        return []
    process = read_process(state["shim"]["pid"])
    is_same = process is not None and process.start == state["shim"]["start"] and not process.is_zombie
    return [process] if process is not None and is_same else []


async def answers(folder: PodFolder) -> bool:
    """Whether the shim of a folder says anything, within a few seconds."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await asyncio.to_thread(_ask, folder)
    except (OSError, ValueError, TimeoutError):
        return False


def _ask(folder: PodFolder) -> bool:
    with wire.connect(str(folder.path)) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        channel = wire.Channel(connection)
        channel.send({"do": "watch"})
        return channel.receive() is not None


def _marked(uid: str) -> list[int]:
    marker = f"{MARKER}={uid}".encode()
    found = []
    for process in all_processes():
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:  # noqa: PTH123
            if marker in file.read().split(b"\0"):
                found.append(process.pid)
    return found


async def run_in(
    folder: PodFolder,
    container: str,
    argv: list[str],
    descriptors: tuple[int, int, int],
    signals: "asyncio.Queue[int] | None" = None,
) -> int:
    """Run a command beside a container, with these descriptors; return its exit code.

    It goes when this is cancelled. Raises ShimError where the pod has no shim any more.
    """
    try:
        channel = wire.Channel(wire.connect(str(folder.path), waits=False))
    except BlockingIOError as error:
        raise ShimError("the pod does not answer: its shim is busy, or was stopped") from error
    except OSError as error:
        raise ShimError(f"the pod has ended: {error.strerror}") from error
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def receive() -> None:
        try:
            messages = channel.receive()
        except (OSError, ValueError):
            messages = None
        for message in messages or ():
            if "exited" in message and not ended.done():
                ended.set_result(message["exited"])
        if messages is None:
            loop.remove_reader(channel.connection.fileno())
            if not ended.done():
                ended.set_exception(ShimError("the pod has ended"))

    channel.send({"do": "exec", "argv": argv, "like": container}, list(descriptors))
    loop.add_reader(channel.connection.fileno(), receive)
    forwarding = None if signals is None else loop.create_task(_forward(channel, signals))
    try:
        return await ended
    finally:
        if forwarding is not None:
            forwarding.cancel()
        loop.remove_reader(channel.connection.fileno())
        channel.close()


async def _forward(channel: wire.Channel, signals: "asyncio.Queue[int]") -> None:
    while True:
        channel.send({"do": "signal-exec", "signal": await signals.get()})


def open_socket(folder: PodFolder) -> socket.socket:
    """A TCP socket, not yet connected, in the network of a pod; it may take a moment. Raises ShimError."""
    return socket.socket(fileno=_given(folder, {"do": "socket"}))


def open_input(folder: PodFolder, container: str) -> int:
    """Where what a container reads is written to, or its terminal; it may take a moment. Raises ShimError."""
    return _given(folder, {"do": "attach", "container": container})


def close_input(folder: PodFolder, container: str) -> None:
    """Let the input of a container end, if it still runs; it may take a moment."""
    with contextlib.suppress(OSError), wire.connect(str(folder.path)) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        wire.Channel(connection).send({"do": "close-input", "container": container})


def kill_container(folder: PodFolder, container: str) -> None:
    """Kill a container and all that came from it, if it still runs; it may take a moment."""
    with contextlib.suppress(OSError), wire.connect(str(folder.path)) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        wire.Channel(connection).send({"do": "kill", "container": container})


def _given(folder: PodFolder, order: dict[str, Any]) -> int:
    """The descriptor that an order is answered with."""
    try:
        with wire.connect(str(folder.path)) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            channel = wire.Channel(connection)
            channel.send(order)
            channel.receive()
            descriptors = channel.take_descriptors()
    except (OSError, ValueError) as error:
        raise ShimError(f"the pod has ended: {error}") from error
    if not descriptors:
        raise ShimError("the pod, or what is asked of it, has ended")
    return descriptors[0]
