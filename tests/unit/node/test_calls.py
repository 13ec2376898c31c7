"""The pipes of a launcher's container, with the real agent in several shells, and a shim that is played."""

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bireme.node.podman
from bireme.node.podman.calls import LONGEST_COMMAND, MOST_CALLS, CallServer
from bireme.node.shim import wire

AGENT = Path(bireme.node.podman.__file__).with_name("bireme-agent")
SECONDS = 30.0
REQUEST_SECONDS = 0.5
SHELLS = [["sh"], ["dash"], ["bash"], ["busybox", "sh"]]


class Worker:
    """A pod's folder with a shim that runs commands."""

    def __init__(self, node: Path, name: str, job: str) -> None:
        self.folder = node / "pods" / f"uid-of-{name}"
        self.folder.mkdir(parents=True)
        (self.folder / "pod.json").write_text(json.dumps({"callable_by": job} if job else {}))
        (node / "names").mkdir(exist_ok=True)
        (node / "names" / name).symlink_to(self.folder)
        self._listening = wire.listen(str(self.folder))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        channel = wire.Channel(connection)
        while not (orders := channel.receive()):
            if orders is None:
                channel.close()
                return
        stdin, stdout, stderr = channel.take_descriptors()
        child = subprocess.Popen(orders[0]["argv"], stdin=stdin, stdout=stdout, stderr=stderr)
        for each in (stdin, stdout, stderr):
            os.close(each)
        threading.Thread(target=self._signal, args=(channel, child), daemon=True).start()
        code = child.wait()
        with contextlib.suppress(OSError):
            channel.send({"exited": code if code >= 0 else 128 - code, "signal": 0})
            connection.shutdown(socket.SHUT_RDWR)

    def _signal(self, channel: wire.Channel, child: "subprocess.Popen[bytes]") -> None:
        with contextlib.suppress(OSError):
            while (orders := channel.receive()) is not None:
                for order in orders:
                    child.send_signal(order["signal"])
        child.kill()
        channel.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class Calls:
    """A served folder of calls."""

    def __init__(self, node: Path) -> None:
        self.folder = node / "calls"
        settings = {
            "folder": str(self.folder),
            "job": "this",
            "names": f"{node}/names",
            "pods": f"{node}/pods",
        }
        self.server = CallServer(settings, REQUEST_SECONDS)
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends:
            self.server.turn(0.01)

    def close(self) -> None:
        self._ends = True
        self._thread.join()

    def start(
        self, *words: str, shell: list[str] | None = None, stdin: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*(shell or ["sh"]), str(AGENT), *words],
            env={"PATH": os.environ["PATH"], "BIREME_CALLS": str(self.folder)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str, shell: list[str] | None = None, given: str = "") -> tuple[int, str, str]:
        process = self.start(*words, shell=shell, stdin=subprocess.PIPE)
        out, err = process.communicate(given, timeout=SECONDS)
        return process.returncode, out, err

    def take(self) -> Path:
        """The slot of a new call."""
        with (self.folder / "free").open("rb", buffering=0) as free:
            return self.folder / free.read(4).decode()

    def slots(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    workers = [
        Worker(tmp_path, "mine", "this"),
        Worker(tmp_path, "other", "that"),
        Worker(tmp_path, "none", ""),
    ]
    made = Calls(tmp_path)
    yield made
    made.close()
    for worker in workers:
        worker.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_call_has_its_streams_and_its_exit_code(calls: Calls, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]}")
    script = "cat; echo aside >&2; exit 7"
    assert calls.call("mine", script, shell=shell, given="in\n") == (7, "in\n", "aside\n")
    long = "x" * 300_000
    assert calls.call("mine", "cat", shell=shell, given=long) == (0, long, "")
    assert calls.call("mine", f": {'y' * 60_000}; echo done", shell=shell) == (0, "done\n", "")


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_signals_are_passed_on(calls: Calls, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]}")
    process = calls.start(
        "mine", "trap 'echo got; exit 9' TERM; echo up; while :; do sleep 0.01; done", shell=shell
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.communicate(timeout=SECONDS)[0] == "got\n"
    assert process.returncode == 9


def test_a_command_goes_with_its_caller(calls: Calls, tmp_path: Path) -> None:
    process = calls.start("mine", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
    pid = int((tmp_path / "pid").read_text())
    process.kill()
    process.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    "pod", ["other", "none", "absent", "../names/mine", "uid-of-mine", ".", "a b", "-", "x" * 300]
)
def test_only_workers_of_the_job_are_called(calls: Calls, pod: str) -> None:
    code, out, err = calls.call(pod, "echo entered")
    assert (code, out) == (255, "")
    assert err.startswith("bireme: ")


def test_a_pod_of_another_job_and_one_that_is_not_there_give_the_same_answer(calls: Calls) -> None:
    other, absent = calls.call("other", "true"), calls.call("absent", "true")
    assert other[2].replace("other", "absent") == absent[2]


@pytest.mark.parametrize(
    "command", ["z" * (LONGEST_COMMAND + 1), "z" * (LONGEST_COMMAND + 5000)], ids=["a little", "much"]
)
def test_a_command_that_is_too_long_is_refused(calls: Calls, command: str) -> None:
    assert calls.call("mine", command[:100_000]) == (255, "", "bireme: a command may have 65536 bytes\n")


def test_a_free_port_is_printed(calls: Calls) -> None:
    code, out, _ = calls.call("--free-port")
    assert code == 0
    assert 0 < int(out) < 65536


def test_no_link_and_no_other_file_is_opened_in_the_place_of_a_pipe(calls: Calls, tmp_path: Path) -> None:
    """As if the container could write here, which it can't."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    slot = calls.take()
    for name in ("in", "out", "err", "end", "ask"):
        pipe = os.open(slot / name, os.O_RDWR | os.O_NONBLOCK)
        (slot / name).unlink()
        (slot / name).symlink_to(secret)
        if name == "ask":
            os.write(pipe, b"\nmine\n\ncat; echo overwritten\0")
            until(
                lambda: not slot.exists() or secret.read_text() != "secret" or not calls_running(calls, slot)
            )
        os.close(pipe)
    assert secret.read_text() == "secret"
    assert calls.call("mine", "echo still") == (0, "still\n", "")


def calls_running(calls: Calls, slot: Path) -> bool:
    return slot.name in calls.slots()


def test_what_is_half_made_is_forgotten(calls: Calls) -> None:
    taken = [calls.take() for _ in range(8)]
    half = [os.open(slot / "ask", os.O_WRONLY) for slot in taken[:4]]
    for each in half:
        os.write(each, b"\nmine\n")
    until(lambda: not any(slot.exists() for slot in taken))
    assert calls.call("mine", "echo still") == (0, "still\n", "")
    for each in half:
        os.close(each)


def test_there_are_so_many_calls_and_no_more(calls: Calls) -> None:
    """And not so many at once: slots are made at a bounded rate."""
    half: list[int] = []
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline and len(half) < 2 * MOST_CALLS:
        slot = calls.take()
        half.append(os.open(slot / "ask", os.O_WRONLY | os.O_NONBLOCK))
        os.write(half[-1], b"x")
        assert len(calls.slots()) <= MOST_CALLS
    assert len(half) < 2 * MOST_CALLS
    for each in half:
        os.close(each)
    assert calls.call("mine", "echo still") == (0, "still\n", "")


def test_pipes_are_for_all_users_and_their_folders_for_none_to_write(calls: Calls) -> None:
    slot = calls.folder / calls.slots()[0]
    assert stat.S_IMODE(slot.stat().st_mode) == stat.S_IMODE(calls.folder.stat().st_mode) == 0o755
    pipes = [*slot.iterdir(), calls.folder / "free"]
    assert {stat.S_IFMT(path.lstat().st_mode) for path in pipes} == {stat.S_IFIFO}
    assert {stat.S_IMODE(path.lstat().st_mode) for path in pipes} == {0o666}
