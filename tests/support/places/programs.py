"""Programs that end when they are told: each waits at a named pipe for its exit code."""

import errno
import os
import time
from pathlib import Path
from typing import Final

from support.kubectl import Kubectl, Result
from support.places.place import Program

_WAIT: Final = 'rm -f "$0"; mkfifo "$0"; read code <"$0"; exit $code'
_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.02


def _command(folder: str, name: str) -> list[str]:
    return ["sh", "-c", _WAIT, f"{folder}/{name}"]


class LocalPrograms:
    """Processes of this machine."""

    image = "none"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self, name: str) -> list[str]:
        return _command(str(self._folder), name)

    def end(self, program: Program, code: int) -> None:
        pipe = _open(self._folder / program.name)
        try:
            os.write(pipe, f"{code}\n".encode())
        finally:
            os.close(pipe)


def _open(path: Path) -> int:
    """Open a pipe for writing, once somebody reads from it."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENXIO):
                raise
            assert time.monotonic() < deadline, f"nobody reads from {path}"
        time.sleep(_PAUSE_SECONDS)


class ContainerPrograms:
    """Programs in containers, which are told by exec."""

    def __init__(self, kubectl: Kubectl, namespace: str, image: str) -> None:
        self._kubectl, self._namespace, self.image = kubectl, namespace, image

    def command(self, name: str) -> list[str]:
        return _command("/tmp", name)

    def end(self, program: Program, code: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while (result := self._exec(program, 'until [ -p "$0" ]; do sleep 0.1; done')).code:
            assert time.monotonic() < deadline, result.stderr
            time.sleep(1)
        # Once: the end that it brings about may cut the call off, and another try would meet the next pod.
        self._exec(program, f'echo {code} >"$0"')

    def _exec(self, program: Program, script: str) -> Result:
        where = ["-n", self._namespace, "exec", program.pod, "-c", program.container, "--"]
        return self._kubectl.run([*where, "sh", "-c", script, f"/tmp/{program.name}"])
