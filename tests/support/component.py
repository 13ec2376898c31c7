"""One program of the control plane: a child process that never outlives the test run."""

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 60

# A launcher in a process of its own, because preexec_fn is unsafe beside pytest-xdist's threads.
# PR_SET_PDEATHSIG (1) outlives exec; the parent may have died before it was set.
LAUNCHER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ControlPlaneError(Exception):
    """A component died or was not ready in time; the message ends with its log."""


def reserve_port() -> socket.socket:
    """Bind a free loopback port and hold it, without listening.

    The component binds it too, with SO_REUSEPORT, so nobody can take the port before it starts or
    while it restarts.
    """
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation


@dataclass
class Component:
    """One program of the control plane, with the port it serves its health on."""

    name: str
    argv: Sequence[str]
    log: Path
    port: int
    health_path: str
    tls: ssl.SSLContext
    process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start the program; it dies with the calling thread, and hears no Ctrl-C."""
        launcher = [sys.executable, "-ISc", LAUNCHER, str(os.getpid())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*launcher, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, signum: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(signum)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def raise_if_dead(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            raise ControlPlaneError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")

    def is_healthy(self) -> bool:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=self.tls)
        try:
            connection.request("GET", self.health_path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
