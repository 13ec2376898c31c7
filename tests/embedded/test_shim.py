"""The shim as a process: what it starts, what it remembers, and that nothing gets away from it."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bireme.node.folders import ROOT, PodFolder
from bireme.node.shim import wire
from bireme.node.shim.tree import Process, descendants, read_process
from bireme.node.shims import ShimError, run_in

ENVIRONMENT = {"PATH": os.environ["PATH"], "GREETING": "hello"}
SECONDS = 120.0
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from bireme.node.shim.main import main; main(sys.argv[2])"
)


class Shim:
    """A shim process, and one connection to it."""

    def __init__(self, folder: Path, wanted: dict[str, Any] | None = None) -> None:
        self.folder = folder
        (folder / "pod.json").write_text(json.dumps(wanted or {}))
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT), str(folder)]
        self.process = subprocess.Popen(command, start_new_session=True)
        self._until(lambda: (folder / "shim.sock").exists())
        self.state: dict[str, Any] = {}
        self.connect()

    def connect(self) -> None:
        self.channel = wire.Channel(wire.connect(str(self.folder)))
        self.channel.connection.settimeout(SECONDS)
        self.channel.send({"do": "watch"})

    def start(self, name: str, *argv: str, attempt: int = 0) -> None:
        order = {"do": "start", "container": name, "attempt": attempt, "argv": list(argv)}
        place = {"env": ENVIRONMENT, "directory": str(self.folder), "output": str(self.output(name))}
        self.channel.send(order | place)

    def output(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Take in states until one of them is as wanted; return its containers."""
        while not (self.state and condition(self.state["containers"])):
            messages = self.channel.receive()
            assert messages is not None, "the shim is gone"
            for message in messages:
                assert "error" not in message, message
                self.state = message["state"]
        containers: dict[str, Any] = self.state["containers"]
        return containers

    def wait_end(self, name: str) -> dict[str, Any]:
        record: dict[str, Any] = self.wait(lambda seen: "finished" in seen.get(name, {}))[name]
        return record

    def wait_output(self, name: str, text: str) -> None:
        self._until(lambda: self.output(name).exists() and text in self.output(name).read_text())

    def wait_alone(self) -> None:
        self._until(lambda: not [each for each in descendants([self.process.pid]) if not each.is_zombie])

    def end(self) -> int:
        self.channel.send({"do": "end"})
        return self.process.wait(SECONDS)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it took too long"
            time.sleep(0.01)


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    made = Shim(tmp_path)
    yield made
    with contextlib.suppress(OSError):
        made.channel.send({"do": "end"})
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.process.wait(5)
    made.process.kill()
    made.process.wait()
    made.channel.close()


@pytest.mark.parametrize(
    ("script", "code", "signum"),
    [("exit 3", 3, 0), ("true", 0, 0), ("kill -9 $$", 137, 9), ("kill -SEGV $$", 139, 11)],
    ids=["exit code", "success", "killed", "crashed"],
)
def test_an_end_is_on_record(shim: Shim, script: str, code: int, signum: int) -> None:
    shim.start("main", "sh", "-c", script)
    ended = shim.wait_end("main")
    assert (ended["code"], ended["signal"]) == (code, signum)
    saved = json.loads((shim.folder / "state.json").read_text())
    assert saved["containers"]["main"] == ended


def test_output_goes_to_the_file_with_its_times(shim: Shim) -> None:
    shim.start("main", "sh", "-c", 'echo "$GREETING"; echo oops >&2; pwd')
    shim.wait_end("main")
    assert shim.output("main").read_text() == f"hello\noops\n{shim.folder}\n"
    assert Path(f"{shim.output('main')}.index").stat().st_size >= 16


@pytest.mark.parametrize(
    ("argv", "code", "why"),
    [
        (["no-such-program"], 127, "can't run no-such-program: No such file or directory"),
        (["/etc/passwd"], 126, "can't run /etc/passwd: Permission denied"),
    ],
    ids=["missing", "not executable"],
)
def test_a_program_that_can_not_be_run_is_told(shim: Shim, argv: list[str], code: int, why: str) -> None:
    shim.start("main", *argv)
    ended = shim.wait_end("main")
    assert (ended["code"], ended["error"]) == (code, why)


def test_an_attempt_is_made_once(shim: Shim) -> None:
    for _ in range(3):
        shim.start("main", "sh", "-c", "echo once")
    shim.wait_end("main")
    shim.start("main", "sh", "-c", "echo again", attempt=1)
    assert shim.wait(lambda seen: seen["main"]["attempt"] == 1 and "finished" in seen["main"])
    assert shim.output("main").read_text() == "once\nagain\n"


GONE_ASTRAY = """
import os, signal, sys, time
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(signum, signal.SIG_IGN)
told, tell = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.environ.clear()
            print("astray", flush=True)
            os.write(tell, b".")
            time.sleep(1000)
        os._exit(0)
    os.read(told, 1)
print("here", flush=True)
"""


def test_what_a_container_leaves_behind_is_killed_with_it(shim: Shim) -> None:
    shim.start("main", sys.executable, "-c", GONE_ASTRAY)
    shim.wait_end("main")
    assert shim.output("main").read_text().count("astray") == 3
    shim.wait_alone()


def test_a_container_that_ignores_signals_is_killed_with_its_children(shim: Shim) -> None:
    shim.start("main", sys.executable, "-c", GONE_ASTRAY + "time.sleep(1000)")
    shim.wait_output("main", "here")
    shim.channel.send({"do": "signal", "container": "main", "signal": signal.SIGTERM})
    shim.channel.send({"do": "kill", "container": "main"})
    assert shim.wait_end("main")["signal"] == signal.SIGKILL
    shim.wait_alone()


def test_the_end_of_one_container_spares_the_others(shim: Shim) -> None:
    shim.start("side", "sh", "-c", "sleep 1000 & echo ready; wait")
    shim.wait_output("side", "ready")
    shim.start("main", "true")
    shim.wait_end("main")
    side = shim.state["containers"]["side"]
    assert "finished" not in side
    assert [each.pid for each in descendants([side["pid"]])]


def test_everything_goes_at_the_end(shim: Shim) -> None:
    shim.start("main", sys.executable, "-c", GONE_ASTRAY + "time.sleep(1000)")
    pid = shim.wait(lambda seen: "pid" in seen.get("main", {}))["main"]["pid"]
    shim._until(lambda: shim.output("main").read_text().count("astray") == 3)
    family = [each for each in descendants([shim.process.pid]) if not each.is_zombie]
    assert pid in [each.pid for each in family]
    assert len(family) >= 4
    assert shim.end() == 0
    assert "ended" in json.loads((shim.folder / "state.json").read_text())
    assert [each for each in family if lives(each)] == []


def lives(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.start == process.start and not now.is_zombie


def test_it_survives_those_who_talk_to_it(shim: Shim) -> None:
    shim.start("main", "sh", "-c", "sleep 0.3; exit 4")
    shim.wait(lambda seen: "pid" in seen.get("main", {}))
    shim.channel.close()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        shim.process.send_signal(signum)
    shim.connect()
    assert shim.wait_end("main")["code"] == 4


def test_containers_go_with_a_shim_that_is_killed(shim: Shim) -> None:
    shim.start("main", "sleep", "1000")
    pid = shim.wait(lambda seen: "pid" in seen.get("main", {}))["main"]["pid"]
    shim.process.kill()
    shim.process.wait()
    shim._until(lambda: (process := read_process(pid)) is None or process.is_zombie)


def ask(shim: Shim, order: dict[str, Any], stdin: bytes = b"") -> tuple[int, bytes]:
    """Run a command beside the containers; return its exit code and what it said."""
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.connection.settimeout(SECONDS)
    reading, writing = os.pipe()
    feed, given = os.pipe()
    channel.send({"do": "exec", **order}, [feed, writing, writing])
    for descriptor in (feed, writing):
        os.close(descriptor)
    os.write(given, stdin)
    os.close(given)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    while True:
        messages = channel.receive()
        assert messages is not None
        for message in messages:
            if "exited" in message:
                channel.close()
                return message["exited"], said


def test_a_command_runs_like_a_container(shim: Shim) -> None:
    shim.start("main", "sleep", "1000")
    shim.wait(lambda seen: "pid" in seen.get("main", {}))
    code, said = ask(
        shim, {"argv": ["sh", "-c", "cat; echo $GREETING; pwd; exit 5"], "like": "main"}, b"in\n"
    )
    assert (code, said) == (5, f"in\nhello\n{shim.folder}\n".encode())


class Terminal:
    """A shell on a terminal, beside a container."""

    def __init__(self, shim: Shim) -> None:
        self._channel = wire.Channel(wire.connect(str(shim.folder)))
        self._ours, theirs = pty.openpty()
        # A shell with job control, and a prompt that nobody types.
        order = {"do": "exec", "argv": ["sh", "-i"], "env": {"PS1": "ready%\n"}}
        self._channel.send(order, [theirs, theirs, theirs])
        os.close(theirs)
        self._shown = ""

    def wait(self, text: str) -> None:
        """Take in what is shown, up to a text."""
        while text not in self._shown:
            assert select.select([self._ours], [], [], SECONDS)[0], self._shown
            self._shown += os.read(self._ours, 1 << 16).decode(errors="replace")
        self._shown = self._shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        self._channel.close()
        os.close(self._ours)


@pytest.fixture
def terminal(shim: Shim) -> Iterator[Terminal]:
    shim.start("main", "sleep", "1000")
    made = Terminal(shim)
    made.wait("ready%")
    yield made
    made.close()


def test_a_terminal_interrupts_what_runs_on_it_and_the_shell_goes_on(terminal: Terminal) -> None:
    # It is in the foreground once it says so itself.
    terminal.type("sh -c 'echo beg\"\"un; exec sleep 1000'\n")
    terminal.wait("begun\r\n")
    terminal.type("\x03")
    terminal.wait("ready%")
    terminal.type('echo "code $?"\n')
    terminal.wait("code 130\r\n")


def test_a_terminal_tells_its_size_its_name_and_its_sort(terminal: Terminal) -> None:
    terminal.type("trap 'stty size </dev/tty; echo $TERM' WINCH\n")
    terminal.wait("ready%")
    terminal.resize(33, 77)
    terminal.type("\n")
    terminal.wait("33 77\r\nxterm\r\n")


def test_a_command_goes_with_its_connection(shim: Shim) -> None:
    shim.start("main", "sleep", "1000")
    shim.wait(lambda seen: "pid" in seen.get("main", {}))
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.send({"do": "exec", "argv": ["sh", "-c", "sleep 777 & wait"]}, [0, 1, 2])
    messages = channel.receive()
    assert messages is not None
    pid = messages[0]["started"]
    channel.close()
    shim._until(lambda: (process := read_process(pid)) is None or process.is_zombie)


def test_who_asks_a_shim_that_was_stopped_is_told_and_does_not_wait(shim: Shim) -> None:
    shim.start("main", "sleep", "1000")
    shim.wait(lambda seen: "pid" in seen.get("main", {}))
    shim.process.send_signal(signal.SIGSTOP)
    waiting: list[socket.socket] = []
    with contextlib.suppress(BlockingIOError):
        while len(waiting) < 1000:
            waiting.append(wire.connect(str(shim.folder), waits=False))
    assert len(waiting) < 1000
    with pytest.raises(ShimError, match="the pod does not answer"):
        asyncio.run(run_in(PodFolder(shim.folder), "main", ["true"], (0, 1, 2)))
    for connection in waiting:
        connection.close()
    shim.process.send_signal(signal.SIGCONT)


def test_a_command_waits_for_the_container_whose_environment_it_shares(shim: Shim) -> None:
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.connection.settimeout(SECONDS)
    reading, writing = os.pipe()
    channel.send({"do": "exec", "argv": ["sh", "-c", "echo $GREETING"]}, [0, writing, writing])
    os.close(writing)
    shim.start("main", "sleep", "1000")
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"hello\n"
    channel.close()


@pytest.mark.parametrize("begun", [True, False], ids=["at once", "after it waited"])
def test_a_command_that_can_not_begin_has_ended(shim: Shim, *, begun: bool) -> None:
    """Whoever asked for it waits for its end, and would for ever: there are too few streams here."""
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.connection.settimeout(SECONDS)
    if begun:
        shim.start("main", "sleep", "1000")
        shim.wait(lambda seen: "pid" in seen.get("main", {}))
    channel.send({"do": "exec", "argv": ["true"]}, [0])
    if not begun:
        shim.start("main", "sleep", "1000")
    said: list[dict[str, Any]] = []
    while not any("exited" in each for each in said):
        messages = channel.receive()
        assert messages is not None
        said += messages
    assert said[0]["error"].startswith("ValueError: ")
    assert said[1:] == [{"exited": 126, "signal": 0}]
    channel.close()


def test_a_command_that_waits_goes_with_who_asked_for_it(shim: Shim) -> None:
    channel = wire.Channel(wire.connect(str(shim.folder)))
    reading, writing = os.pipe()
    channel.send({"do": "exec", "argv": ["echo", "late"]}, [0, writing, writing])
    os.close(writing)
    channel.close()
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""
    shim.start("main", "true")
    assert shim.wait_end("main")["code"] == 0


def test_a_container_that_can_not_be_started_is_told_of_and_may_be_tried_again(shim: Shim) -> None:
    order = {"do": "start", "container": "main", "attempt": 0, "argv": ["true"], "env": ENVIRONMENT}
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.connection.settimeout(SECONDS)
    output = f"{shim.folder}/missing/main.log"
    channel.send(order | {"directory": "/", "output": output})
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{output}'"
    assert channel.receive() == [{"error": error, "container": "main"}]
    channel.close()
    shim.start("main", "true")
    assert shim.wait_end("main")["code"] == 0


def test_nonsense_is_answered(shim: Shim) -> None:
    channel = wire.Channel(wire.connect(str(shim.folder)))
    channel.connection.settimeout(SECONDS)
    channel.send({"do": "dance"})
    assert channel.receive() == [{"error": "ValueError: unknown order 'dance'"}]
    channel.connection.sendall(b"no json\n")
    assert channel.receive() is None
    channel.close()
    shim.start("main", "true")
    assert shim.wait_end("main")["code"] == 0
