"""kubectl of any version on any server, in the foreground or beside other calls."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.02
VERBOSE = "-v=6"
"""Has kubectl log each of its requests on stderr."""


class Result(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Background:
    """A kubectl that runs on; its output is in files, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], stdout: Path, stderr: Path) -> None:
        self._process, self._stdout, self._stderr = process, stdout, stderr

    def wait_until(self, holds: Callable[[Result], bool], seconds: float = 90) -> None:
        """Return when what was written so far is as wanted, or when kubectl has ended.

        Raises TimeoutError, with all that was written.
        """
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and not holds(self._written()):
            if time.monotonic() > deadline:
                self._process.kill()
                raise TimeoutError(f"kubectl wrote only this: {self._written()}")
            time.sleep(POLL_SECONDS)

    def finish(self, seconds: float = 90) -> Result:
        """Let kubectl end by itself."""
        self.wait_until(lambda _: False, seconds)
        return self._written()

    def stop(self) -> Result:
        """End kubectl; its exit code is 0 then."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        return self._written()._replace(code=0)

    def _written(self) -> Result:
        return Result(self._process.poll() or 0, self._stdout.read_text(), self._stderr.read_text())


class Kubectl:
    """One program on one server, as its kubeconfig says; nothing else of the caller's settings is read."""

    def __init__(self, program: Path, kubeconfig: Path, folder: Path) -> None:
        """`folder` is new or this server's own: what kubectl learns of a server is kept there."""
        self._program, self._kubeconfig, self._folder = program, kubeconfig, folder
        self._started = 0
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        seconds: float = 180,
    ) -> Result:
        done = subprocess.run(
            self._argv(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=self._environment(env),
            cwd=cwd,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, arguments: Sequence[str], *, cwd: Path | None = None) -> Background:
        """Run in the background, with each request logged on stderr."""
        self._started += 1
        stdout, stderr = (
            self._folder / f"{self._program.name}-{self._started}.{name}" for name in ("out", "err")
        )
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                [*self._argv(arguments), VERBOSE],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(None),
                cwd=cwd,
            )
        return Background(process, stdout, stderr)

    def stream(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """Run beside the caller, who reads its output and ends it."""
        return subprocess.Popen(
            self._argv(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environment(None),
        )

    def _argv(self, arguments: Sequence[str]) -> list[str | Path]:
        return [self._program, "--kubeconfig", self._kubeconfig, *arguments]

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        own = {
            "HOME": self._folder,
            "KUBECACHEDIR": self._folder / f"{self._program.name}-cache",
            "KUBERC": "off",
            # It lives for a request or two: collecting garbage would be up to a third of its work.
            "GOGC": "off",
            "GOMAXPROCS": "1",
        }
        return os.environ | {name: str(value) for name, value in own.items()} | dict(more or {})
