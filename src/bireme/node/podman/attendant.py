"""Stands by a container of podman's as if it were the container: takes its signals, ends with its exit code.

`run` starts a container, `exec` runs a command in one. Whatever podman starts for that becomes a child of
this process, so that a shim that kills it and all below it leaves nothing. It imports the standard library
only.
"""

import fcntl
import json
import os
import resource
import signal
import sys
import termios
import threading
import time
from typing import Any, Final

from bireme.node.podman import calls, preparing
from bireme.node.shim import kernel, tree

KILL: Final = signal.SIGUSR1
"""What a shim sends to have the container killed; it is cleared away then."""
KILLED: Final = 137
NOT_STARTED: Final = 126
NOT_FOUND: Final = 127
_NOT_FOUND_MARK: Final = "executable file not found"
_NO_REASON: Final = "(no logs from conmon)"
"""What podman says where the runtime itself has said why, in the container's output."""
STARTS_WITHIN_SECONDS: Final = 300.0
_ROUND_SECONDS: Final = 0.02
_COMPLAINT_SECONDS: Final = 1.0
_COMPLAINT_BYTES: Final = 64 << 10
_MOST_DESCRIPTORS: Final = 4096
_HEARD: Final = (
    signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
    signal.SIGUSR2,
)  # fmt: skip


class Files:
    """What belongs to one attempt at a container."""

    def __init__(self, path: str) -> None:
        self.order = path
        self.pid, self.running, self.result = f"{path}.pid", f"{path}.running", f"{path}.result"

    def read_order(self) -> dict[str, Any]:
        with open(self.order) as file:  # noqa: PTH123 - pathlib costs an attendant its start
            order: dict[str, Any] = json.load(file)
            return order

    def read_pid(self) -> int:
        """The container's first process; 0 before there is one."""
        try:
            with open(self.pid) as file:  # noqa: PTH123
                return int(file.read() or 0)
        except (OSError, ValueError):
            return 0

    def write_result(self, result: dict[str, Any]) -> None:
        with open(f"{self.result}.new", "w") as file:  # noqa: PTH123
            json.dump(result, file)
        os.replace(f"{self.result}.new", self.result)  # noqa: PTH105


class Watch:
    """Whether the kernel has killed for want of memory, where podman does not tell: cgroups of version 1."""

    def __init__(self) -> None:
        self.saw = False

    def begin(self, pid: int) -> None:
        folder = _memory_cgroup(pid)
        if folder:
            threading.Thread(target=self._look, args=(folder,), daemon=True).start()

    def _look(self, folder: str) -> None:
        try:
            event = os.eventfd(0, os.EFD_CLOEXEC)
            control = os.open(f"{folder}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            with open(f"{folder}/cgroup.event_control", "w") as file:  # noqa: PTH123
                file.write(f"{event} {control}")
        except OSError:
            return
        # It is also told when the cgroup goes.
        while os.eventfd_read(event) and os.path.exists(folder):  # noqa: PTH110
            self.saw = True


def is_unheard(pid: int, signum: int) -> bool:
    """Whether a process has nothing to say to a signal that would end it.

    The first process of a container does not get such a signal at all: it would run until it is killed.
    """
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            lines = dict(line.split(":", 1) for line in file)
    except (OSError, ValueError):
        return False
    heard = int(lines["SigCgt"], 16) | int(lines["SigIgn"], 16)
    return not heard >> (signum - 1) & 1


def _memory_cgroup(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup") as file:  # noqa: PTH123
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return ""
    return next(
        (f"/sys/fs/cgroup/memory{path}" for _, names, path in lines if "memory" in names.split(",")), ""
    )


class Attendant:
    """Waits for one process of podman's, its client, and passes signals on."""

    def __init__(self, order: dict[str, Any], files: Files) -> None:
        self.order, self.files = order, files
        self.client = 0
        self.code: int | None = None

    def spawn(self, arguments: list[str], env: dict[str, str], *, quiet: bool = False) -> int:
        """Start podman; its output is nobody's if quiet."""
        actions = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        return os.posix_spawn(
            self.order["podman"],
            ["podman", *arguments],
            env,
            file_actions=actions if quiet else (),
            setsigmask=(),
        )

    def round(self, seconds: float | None) -> int:
        """Wait for a signal, and take what it says; return it, or 0."""
        heard = signal.sigwaitinfo(_HEARD) if seconds is None else signal.sigtimedwait(_HEARD, seconds)
        if heard is None:
            return 0
        if heard.si_signo == signal.SIGCHLD:
            self._reap()
            return 0
        return heard.si_signo

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.client:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code


class Runner(Attendant):
    """Runs a container to its end, and takes away what podman keeps of it."""

    def __init__(self, order: dict[str, Any], files: Files) -> None:
        super().__init__(order, files)
        self._pid = 0
        self._asking = 0
        self._watch = Watch()

    def run(self) -> int:
        try:
            self._prepare()
        except OSError as error:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
            self.files.write_result({"error": why})
            return NOT_STARTED
        self.client = self.spawn(self.order["arguments"], self.order["podman_env"] | self.order["env"])
        while self.code is None:
            self._obey(self.round(None if self._pid else _ROUND_SECONDS))
            if not self._pid and (pid := self.files.read_pid()):
                self._begin(pid)
        code = self.code
        result = self._learn(code)
        if _NOT_FOUND_MARK in result.get("error", ""):
            # Rootless podman 4.3 says 126.
            code = NOT_FOUND
        self._clear()
        self.files.write_result(result)
        return code

    def _prepare(self) -> None:
        for volume in self.order["volumes"]:
            preparing.open_volume(volume["path"], volume["mode"], volume["group"])
        # Before there is a thread: only this one is in the new mount namespace, and starts podman.
        preparing.bind_sub_paths(self.order["sub_paths"])
        if self.order.get("calls"):
            calls.serve(self.order["calls"])

    def _begin(self, pid: int) -> None:
        self._pid = pid
        self._watch.begin(pid)
        threading.Thread(target=self._announce, daemon=True).start()

    def _announce(self) -> None:
        """Let commands into the container, once podman does."""
        name = self.order["name"]
        asked = [self.order["podman"], "wait", "--condition=running", "--interval=50ms", name]
        self._asking = self.spawn(asked[1:], self.order["podman_env"], quiet=True)
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline and self.code is None:
            process = tree.read_process(self._asking)
            if process is None or process.is_zombie:
                os.close(os.open(self.files.running, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                return
            time.sleep(_ROUND_SECONDS)

    def _obey(self, signum: int) -> None:
        if not signum:
            return
        wanted = signal.SIGKILL if signum == KILL else signum
        if wanted == signal.SIGTERM:
            wanted = signal.Signals(self.order.get("stop_signal") or wanted)
        if self._pid and is_unheard(self._pid, wanted):
            wanted = signal.SIGKILL
        try:
            os.kill(self._pid or self.client, wanted)
        except ProcessLookupError:
            return

    def _learn(self, code: int) -> dict[str, Any]:
        if not self.files.read_pid():
            return {"error": self._take_complaint()}
        return {"oom": code == KILLED and (self._watch.saw or self._inspected_oom())}

    def _take_complaint(self) -> str:
        """Why podman could not start it: all that is in its output, where it does not belong."""
        lines = self._output_lines()
        deadline = time.monotonic() + _COMPLAINT_SECONDS
        # What is said on a terminal comes to the file a moment later.
        while self.order.get("tty") and not lines and time.monotonic() < deadline:
            time.sleep(_ROUND_SECONDS)
            lines = self._output_lines()
        os.truncate(self.order["output"], 0)
        lines = [line for line in lines if _NO_REASON not in line] or lines
        told = next(
            (line for line in reversed(lines) if line.startswith("Error:")), lines[-1] if lines else ""
        )
        return told.removeprefix("Error:").strip() or "podman could not start it, and did not say why"

    def _output_lines(self) -> list[str]:
        """The last lines of the output. A container that has run may have written more than memory holds."""
        with open(self.order["output"], "rb") as file:  # noqa: PTH123
            file.seek(max(0, os.fstat(file.fileno()).st_size - _COMPLAINT_BYTES))
            text = file.read(_COMPLAINT_BYTES).decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def _inspected_oom(self) -> bool:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pid = os.posix_spawn(
            self.order["podman"],
            ["podman", "inspect", "--format={{.State.OOMKilled}}", self.order["name"]],
            self.order["podman_env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
            setsigmask=(),
        )
        os.close(writing)
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        os.waitpid(pid, 0)
        return told.strip() == "true"

    def _clear(self) -> None:
        if self._asking:
            tree.kill([each for each in [tree.read_process(self._asking)] if each])
        remove = ["rm", "--force", "--ignore", "--volumes", "--time=0", self.order["name"]]
        os.waitpid(self.spawn(remove, self.order["podman_env"], quiet=True), 0)


class Visitor(Attendant):
    """Runs a command in a container."""

    def __init__(self, order: dict[str, Any], files: Files, command: dict[str, Any]) -> None:
        super().__init__(order, files)
        self._command = command

    def run(self) -> int:
        if not self._wait_started():
            os.write(2, b"the container does not run\n")
            return 126
        self.client = self.spawn(self._arguments(), self.order["podman_env"])
        while self.code is None:
            signum = self.round(None)
            if signum:
                self._pass_on(signum)
        return self.code

    def _wait_started(self) -> bool:
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while not os.path.exists(self.files.running):  # noqa: PTH110
            if os.path.exists(self.files.result) or time.monotonic() > deadline:  # noqa: PTH110
                return False
            time.sleep(_ROUND_SECONDS)
        return True

    def _arguments(self) -> list[str]:
        words = ["exec", "--interactive"]
        if os.isatty(0):
            # As the session's own terminal it tells podman, by a signal, that its size has changed.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            words.append("--tty")
        if directory := self._command.get("directory"):
            words.append(f"--workdir={directory}")
        return [*words, "--", self.order["name"], *self._command["argv"]]

    def _pass_on(self, signum: int) -> None:
        """To the command itself, which is the child of a child that podman has left to us; else to podman."""
        own = [each for each in tree.descendants([os.getpid()]) if each.parent == os.getpid()]
        keepers = [each.pid for each in own if each.pid != self.client]
        commands = [each for each in tree.descendants(keepers) if each.parent in keepers]
        if not tree.kill(commands, signum):
            tree.kill([each for each in own if each.pid == self.client], signum)


def _allow_descriptors() -> None:
    """Calls need a few descriptors each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard < 0 else min(hard, _MOST_DESCRIPTORS)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main(arguments: list[str]) -> None:
    """`run FILE`, or `exec FILE COMMAND`, which is JSON: {"argv": [...], "directory"?: ""}."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    kernel.become_subreaper()
    kernel.set_name("bireme-podman")
    _allow_descriptors()
    files = Files(arguments[1])
    order = files.read_order()
    attendant = (
        Runner(order, files) if arguments[0] == "run" else Visitor(order, files, json.loads(arguments[2]))
    )
    code = attendant.run()
    # Threads may still wait for what will never come.
    sys.stderr.flush()
    os._exit(code)
