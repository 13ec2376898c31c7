"""Our own API server as a user starts it: `bireme apiserver` in a folder of its own.

server = EmbeddedServer(folder)
server.start()
server.kubectl("get", "namespaces")
server.stop()
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from support.component import LAUNCHER
from support.control_plane import find_kubectl
from support.kubectl import Kubectl, Result

BIREME = Path(sys.executable).with_name("bireme")
POLL_SECONDS = 0.02
STOP_SECONDS = 60


class EmbeddedServerError(Exception):
    """The server died or was not ready in time; the message ends with its log."""


class EmbeddedServer:
    """One server; the attributes below are set by `start`."""

    folder: Path
    kubeconfig: Path
    url: str
    ca_path: Path

    def __init__(self, parent: Path | None = None) -> None:
        """Keep everything in a new folder below `parent`, or below the system's temporary folder."""
        self._parent = parent
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, deadline_seconds: float = 120) -> None:
        """Start the server and return when it is ready; on failure leave nothing behind."""
        self.folder = Path(tempfile.mkdtemp(prefix="embedded-", dir=self._parent))
        self.kubeconfig = self.folder / "data/kubeconfig"
        self.ca_path = self.folder / "data/ca.crt"
        try:
            self._spawn()
            self._wait_until_ready(time.monotonic() + deadline_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove the folder; twice is once."""
        self.end(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self, signum: int) -> int | None:
        """End the server with `signum`, and keep the folder; return its exit code."""
        if self._process is None:
            return None
        self._process.send_signal(signum)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def restart(self, signum: int = signal.SIGTERM, deadline_seconds: float = 120) -> None:
        """End the server and start it again on the same data; its port is the same."""
        self.end(signum)
        self.kubeconfig.unlink(missing_ok=True)
        self._spawn()
        self._wait_until_ready(time.monotonic() + deadline_seconds)

    def log(self, lines: int = 30) -> str:
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-lines:])

    def config(self) -> dict[str, Any]:
        """The kubeconfig, as the server wrote it."""
        loaded: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        return loaded

    def kubectl(self, *args: str, input: str = "", check: bool = True) -> Result:  # noqa: A002 - as subprocess.run has it
        """Run kubectl as the administrator; the caller's own settings are not read."""
        result = Kubectl(find_kubectl(), self.kubeconfig, self.folder / "kubectl").run(args, stdin=input)
        if check and result.code:
            raise EmbeddedServerError(f"kubectl {' '.join(args)}: {result.stderr}\n{self.log()}")
        return result

    def _spawn(self) -> None:
        launcher = [sys.executable, "-ISc", LAUNCHER, str(os.getpid())]
        command = [str(BIREME), "apiserver", "--data-dir", str(self.folder / "data"), "--port", "0"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_until_ready(self, deadline: float) -> None:
        assert self._process is not None
        while not self.kubeconfig.exists():
            if self._process.poll() is not None:
                raise EmbeddedServerError(f"it ended with {self._process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"it was not ready in time:\n{self.log()}")
            time.sleep(POLL_SECONDS)
        self.url = self.config()["clusters"][0]["cluster"]["server"]
        self.kubectl("get", "--raw=/readyz")
