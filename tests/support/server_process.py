"""Our API server as a process of its own on any folder: to be killed, starved and started again.

server = ServerProcess(folder / "data", folder / "log")
server.start()
server.kill()
server.start()      # the same data, the same port
server.stop()
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support.component import LAUNCHER
from support.embedded import BIREME
from support.wire import Address

POLL_SECONDS = 0.01
START_SECONDS = 120
STOP_SECONDS = 60


class ServerDiedError(Exception):
    """The server ended, or was not ready in time; the message is its log."""


class ServerProcess:
    """One server at a time on one folder; `address` is set when it is ready."""

    address: Address

    def __init__(self, data: Path, log: Path) -> None:
        self.data, self._log = data, log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *options: str) -> None:
        """Start it, and return when it is ready."""
        (self.data / "kubeconfig").unlink(missing_ok=True)
        self.spawn(*options)
        self._wait_until_ready(time.monotonic() + START_SECONDS)
        self.address = read_address(self.data)

    def spawn(self, *options: str) -> None:
        """Start it, and do not wait."""
        launcher = [sys.executable, "-ISc", LAUNCHER, str(os.getpid())]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *command(self.data, options)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """As the kernel does when there is no memory left."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it as a user does; return its exit code. Twice is once."""
        if self._process is None:
            return 0
        if self.is_alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def resident_kib(self) -> int:
        """The memory that it has."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

    def _wait_until_ready(self, deadline: float) -> None:
        while not (self.data / "kubeconfig").exists():
            if not self.is_alive or time.monotonic() > deadline:
                self.stop()
                raise ServerDiedError(self.log())
            time.sleep(POLL_SECONDS)


def command(data: Path, options: Sequence[str] = ()) -> list[str]:
    return [str(BIREME), "apiserver", "--data-dir", str(data), *options]


def run_to_end(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a server that is expected to refuse to run."""
    return subprocess.run(
        command(data, options), capture_output=True, text=True, timeout=START_SECONDS, check=False
    )


def read_address(data: Path) -> Address:
    """Where the server of a folder is, and how to get in."""
    config = json.loads((data / "kubeconfig").read_text())
    host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").rpartition(":")
    return Address(host, int(port), config["users"][0]["user"]["token"], data / "ca.crt")
