"""A program of the node: it is ready when it says so over plain HTTP, or when its socket is there."""

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from support.component import Component, ControlPlaneError

POLL_SECONDS: Final = 0.05
START_SECONDS: Final = 120


class Program(Component):
    """A child process, with a check of its own."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, is_ready: Callable[[], bool]) -> None:
        super().__init__(name, argv, log, 0, "", ssl.create_default_context())
        self._is_ready = is_ready

    def start(self) -> None:
        """Spawn it, and return when it is ready; raise ControlPlaneError with its log otherwise."""
        self.spawn()
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.is_healthy():
            self.raise_if_dead()
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{self.name} was not ready in time:\n{self.tail()}")
            time.sleep(POLL_SECONDS)

    def is_healthy(self) -> bool:
        return self._is_ready()


def answers(port: int, path: str, host: str = "127.0.0.1") -> Callable[[], bool]:
    """A check: does it answer 200 there?"""

    def check() -> bool:
        connection = http.client.HTTPConnection(host, port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return check


def listens(path: Path) -> Callable[[], bool]:
    """A check: is there somebody at this socket?"""

    def check() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(path))
            except OSError:
                return False
        return True

    return check
