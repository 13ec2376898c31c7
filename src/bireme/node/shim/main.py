"""The loop of a shim."""

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from bireme.node.shim import children, kernel, namespaces, tree, wire
from bireme.node.shim.consoles import Console
from bireme.node.shim.output import Output
from bireme.node.shim.records import Records

_ROUND_SECONDS: Final = 0.2
_NEARLY_FULL_ROUND_SECONDS: Final = 0.02
"""How often output is looked at that grows on a disk with little space."""
_SWEEP_ROUNDS: Final = 200
_SWEEP_PAUSE_SECONDS: Final = 0.01


class Shim:
    """Runs the processes of one pod. Everything happens in one thread, in the loop."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # It is DATA/node/pods/UID.
        self._data_folder = os.path.normpath(f"{folder}/../../..")
        own = tree.read_process(os.getpid())
        assert own is not None, "this process is there"
        self._records = Records(folder, own.pid, own.start)
        self._selector = selectors.DefaultSelector()
        self._watchers: dict[wire.Channel, None] = {}
        self._outputs: dict[str, Output] = {}
        self._consoles: dict[str, Console] = {}
        self._commands: dict[str, children.Command] = {}
        self._kill_signals: dict[str, int] = {}
        self._execs: dict[int, wire.Channel] = {}
        self._parked: list[tuple[wire.Channel, dict[str, Any], list[int]]] = []
        self._changed = True
        self._ends = False
        self._listening = wire.listen(folder)

    def run(self) -> None:
        """Serve until told to end."""
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._selector.register(_wake_by_signals(), selectors.EVENT_READ, _drain)
        while not self._ends:
            self._tell()
            for key, _ in self._selector.select(self._pause()):
                if key.data is None:
                    self._accept()
                elif isinstance(key.data, wire.Channel):
                    self._serve(key.data)
                else:
                    key.data(key.fileobj)
            self._reap()
            self._look_at_output()
        self._sweep_all()
        self._records.state["ended"] = time.time()
        self._records.save()
        self._tell()

    def _pause(self) -> float | None:
        if any(output.is_nearly_full for output in self._outputs.values()):
            return _NEARLY_FULL_ROUND_SECONDS
        return _ROUND_SECONDS if self._outputs or not self._records.is_saved else None

    def _tell(self) -> None:
        if not self._changed:
            if not self._records.is_saved:
                self._records.save()
            return
        self._changed = False
        self._records.save()
        for channel in list(self._watchers):
            self._send(channel, {"state": self._records.state})

    # ---- connections

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        channel = wire.Channel(connection)
        self._selector.register(connection, selectors.EVENT_READ, channel)

    def _serve(self, channel: wire.Channel) -> None:
        try:
            orders = channel.receive()
        except (OSError, ValueError):
            orders = None
        if orders is None:
            self._leave(channel)
            return
        for order in orders:
            try:
                self._obey(channel, order)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._refuse(channel, order, error)

    def _refuse(self, channel: wire.Channel, order: dict[str, Any], error: Exception) -> None:
        """Say why an order is not obeyed; a command that could not begin has ended with that."""
        container = {"container": order["container"]} if order.get("do") == "start" else {}
        self._send(channel, {"error": f"{type(error).__name__}: {error}", **container})
        if order.get("do") == "exec":
            self._send(channel, {"exited": children.NOT_EXECUTABLE, "signal": 0})

    def _obey(self, channel: wire.Channel, order: dict[str, Any]) -> None:
        match order.get("do"):
            case "watch":
                self._watchers[channel] = None
                self._send(channel, {"state": self._records.state})
            case "start":
                self._start(order)
            case "signal":
                self._signal(order["container"], int(order["signal"]))
            case "kill":
                self._kill(order["container"])
            case "end":
                self._ends = True
            case other:
                self._oblige(channel, order, other)

    def _oblige(self, channel: wire.Channel, order: dict[str, Any], wanted: Any) -> None:
        """What is done for whoever asks, and changes nothing of the pod's state."""
        match wanted:
            case "attach":
                self._attach(channel, order["container"])
            case "close-input":
                self._consoles[order["container"]].close_input()
            case "exec":
                self._exec(channel, order)
            case "signal-exec":
                self._signal_exec(channel, int(order["signal"]))
            case "socket":
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
                    channel.send({"made": True}, [made.fileno()])
            case other:
                raise ValueError(f"unknown order {other!r}")

    def _send(self, channel: wire.Channel, message: dict[str, Any]) -> None:
        try:
            channel.send(message)
        except OSError:
            self._leave(channel)

    def _leave(self, channel: wire.Channel) -> None:
        """Forget a connection; a command that it had asked for goes with it."""
        self._watchers.pop(channel, None)
        for pid, owner in list(self._execs.items()):
            if owner is channel:
                self._kill_tree(pid)
        self._unpark(channel)
        try:
            self._selector.unregister(channel.connection)
        except (KeyError, ValueError):
            return
        channel.close()

    # ---- containers

    def _start(self, order: dict[str, Any]) -> None:
        name, attempt = order["container"], order["attempt"]
        before = self._records.containers.get(name)
        if before is not None and before["attempt"] >= attempt:
            return
        output = Output(order["output"], order.get("cap", 0), self._data_folder)
        command = children.Command(
            order["argv"],
            order["env"],
            order["directory"],
            order.get("mounts", []),
            order.get("scratch", ""),
            order.get("cgroups", ()),
            order.get("enter", ()),
            order.get("umask", children.UMASK),
            order.get("limits", {}),
        )
        # On record first: were this process killed in between, nothing would be started twice.
        record: dict[str, Any] = {"attempt": attempt, "started": time.time()}
        if command.cgroups:
            record["cgroups"] = command.cgroups
        self._records.containers[name] = record
        self._records.save()
        self._commands[name] = command
        self._kill_signals[name] = order.get("kill", 0)
        console = None
        try:
            console = Console(output.descriptor, stdin=order.get("stdin", False), tty=order.get("tty", False))
            child = children.start(command, *console.given)
        except OSError as error:
            self._could_not_start(record, error)
            if console is not None:
                console.end()
            output.close()
            return
        process = tree.read_process(child.pid)
        record |= {"pid": child.pid, "start": process.start if process else 0}
        if child.error:
            record["error"] = child.error
        self._outputs[name] = output
        self._keep(name, console)
        self._changed = True
        self._resume()

    def _keep(self, name: str, console: Console) -> None:
        console.begin()
        self._consoles[name] = console
        if console.is_terminal and console.ours is not None:
            self._selector.register(console.ours, selectors.EVENT_READ, lambda _: console.pass_on())

    def _attach(self, channel: wire.Channel, name: str) -> None:
        console = self._consoles.get(name)
        if console is None or console.ours is None:
            raise ValueError(f"container {name} takes no input")
        channel.send({"attached": True}, [console.ours])

    def _could_not_start(self, record: dict[str, Any], error: OSError) -> None:
        """The attempt is on record, and has to end there: without a process, as when there are too many."""
        why = f"no process can be started: {error.strerror}"
        record |= {"finished": time.time(), "code": children.NOT_EXECUTABLE, "signal": 0, "error": why}
        self._changed = True

    def _signal(self, name: str, signum: int) -> None:
        record = self._records.containers.get(name)
        if record is not None and "finished" not in record:
            os.kill(record["pid"], signum)

    def _kill(self, name: str) -> None:
        record = self._records.containers.get(name)
        if record is not None and "finished" not in record:
            if signum := self._kill_signals.get(name):
                os.kill(record["pid"], signum)
            else:
                self._kill_tree(record["pid"])

    def _kill_tree(self, pid: int) -> None:
        """Kill a child and all below it, those first that could make more."""
        for _ in range(_SWEEP_ROUNDS):
            root = tree.read_process(pid)
            processes = [*([root] if root else ()), *tree.descendants([pid])]
            if not tree.kill(processes):
                return

    # ---- commands beside the containers

    def _exec(self, channel: wire.Channel, order: dict[str, Any]) -> None:
        self._exec_beside(channel, order, channel.take_descriptors())

    def _unpark(self, channel: wire.Channel) -> bool:
        """Forget the commands of a connection that have not begun; whether there were any."""
        forgotten = [each for each in self._parked if each[0] is channel]
        for parked in forgotten:
            self._parked.remove(parked)
            for descriptor in parked[2]:
                os.close(descriptor)
        return bool(forgotten)

    def _resume(self) -> None:
        """Run what has waited for a container to start."""
        parked, self._parked = self._parked, []
        for channel, order, descriptors in parked:
            try:
                self._exec_beside(channel, order, descriptors)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._refuse(channel, order, error)

    def _exec_beside(self, channel: wire.Channel, order: dict[str, Any], descriptors: list[int]) -> None:
        like = self._commands.get(order.get("like") or next(iter(self._commands), ""))
        if like is None:
            # It shares a container's environment and mounts, and so waits for that container: without HOME,
            # for one, Open MPI's daemon crashes.
            self._parked.append((channel, order, descriptors))
            return
        try:
            stdin, stdout, stderr = descriptors
            child = children.start(children.beside(like, order), stdin, stdout, stderr)
            if child.error:
                _complain(stderr, child.error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._execs[child.pid] = channel
        self._send(
            channel, {"started": child.pid, "error": child.error} if child.error else {"started": child.pid}
        )

    def _signal_exec(self, channel: wire.Channel, signum: int) -> None:
        for pid, owner in self._execs.items():
            if owner is channel:
                os.kill(pid, signum)
        if self._unpark(channel):
            self._send(channel, {"exited": 128 + signum, "signal": signum})

    # ---- ends

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code, signum = _how(status)
            if (channel := self._execs.pop(pid, None)) is not None:
                self._send(channel, {"exited": code, "signal": signum})
            else:
                self._container_ended(pid, code, signum)

    def _container_ended(self, pid: int, code: int, signum: int) -> None:
        for name, record in self._records.containers.items():
            if record.get("pid") == pid and "finished" not in record:
                self._sweep_orphans()
                record |= {"finished": time.time(), "code": code, "signal": signum}
                self._close_output(name)
                self._changed = True

    def _sweep_orphans(self) -> None:
        """Kill what a container left behind: our descendants that belong to none of those that still run."""
        alive = {record["pid"] for record in self._records.containers.values() if "finished" not in record}
        alive |= set(self._execs)
        for _ in range(_SWEEP_ROUNDS):
            known = list(tree.all_processes())
            kept = alive | {process.pid for process in tree.descendants(alive, known)}
            left = [process for process in tree.descendants([os.getpid()], known) if process.pid not in kept]
            if not tree.kill(left):
                return
            time.sleep(_SWEEP_PAUSE_SECONDS)
            self._reap_unknown()

    def _reap_unknown(self) -> None:
        """Take the ends of orphans, and of nobody else."""
        known = {record.get("pid") for record in self._records.containers.values()} | set(self._execs)
        for process in tree.descendants([os.getpid()]):
            if process.parent == os.getpid() and process.is_zombie and process.pid not in known:
                try:
                    os.waitpid(process.pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def _sweep_all(self) -> None:
        for _ in range(_SWEEP_ROUNDS):
            if not tree.kill(tree.descendants([os.getpid()])):
                break
            time.sleep(_SWEEP_PAUSE_SECONDS)
            self._reap()
        self._reap()

    # ---- output

    def _look_at_output(self) -> None:
        for name, output in self._outputs.items():
            self._look_at(name, output)

    def _look_at(self, name: str, output: Output) -> None:
        output.look(time.time())
        record = self._records.containers[name]
        if output.is_cut and "cut" not in record:
            record["cut"] = True
            self._changed = True

    def _close_output(self, name: str) -> None:
        if (console := self._consoles.pop(name, None)) is not None:
            if console.is_terminal and console.ours is not None:
                self._selector.unregister(console.ours)
            console.end()
        if (output := self._outputs.pop(name, None)) is not None:
            self._look_at(name, output)
            output.close()


def _complain(stderr: int, why: str) -> None:
    """Tell whoever asked for a command why there is none: an exit code alone would not."""
    with contextlib.suppress(OSError):
        os.write(stderr, f"{why}\n".encode())


def _how(status: int) -> tuple[int, int]:
    """The exit code as Kubernetes counts it, and the signal; 128 and more for a signal."""
    if os.WIFSIGNALED(status):
        signum = os.WTERMSIG(status)
        return 128 + signum, signum
    return os.WEXITSTATUS(status), 0


def _wake_by_signals() -> socket.socket:
    """A socket that becomes readable when a child has ended. TERM and others are not for a shim to obey."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    _kept.append(writing)
    return reading


_kept: list[socket.socket] = []


def _drain(reading: Any) -> None:
    try:
        while reading.recv(512):
            pass
    except BlockingIOError:
        pass


def main(folder: str, tell: Callable[[str], None] = lambda _: None) -> None:
    """Be the shim of a pod whose folder holds `pod.json`.

    `tell` is called once: with nothing when the shim listens, or with why it can't be.
    """
    os.umask(0o077)
    kernel.become_subreaper()
    kernel.set_name("bireme-shim")
    try:
        namespaces.enter(folder)
        shim = Shim(folder)
    except OSError as error:
        tell(f"{error.strerror}: {error.filename}" if error.filename else str(error))
        sys.exit(1)
    tell("")
    shim.run()
