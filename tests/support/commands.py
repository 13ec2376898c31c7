"""The command line as a user runs it: a process, with a home of its own."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bireme.node.shim.tree import all_processes
from support.here import eventually
from support.ordinary_user import OrdinaryUser
from support.reaper import watch_over
from support.terminals import PATIENCE_SECONDS, Terminal

BIREME = Path(sys.executable).with_name("bireme")
EXAMPLES = Path(__file__).parents[2] / "examples"
PAUSED = (
    (EXAMPLES / "genericjob-pause.yaml")
    .read_text()
    .replace("enabled: false", "enabled: true")
    .replace("sleep 1\n", "sleep 1000\n")
)
"""A manifest of a job that is created paused, and does not end before it was paused again."""


class Bireme:
    """Runs commands with a home below `folder`; the daemon of that home is theirs.

    `user` is the ordinary user who runs them, instead of whoever runs the tests.
    """

    def __init__(self, folder: Path, user: OrdinaryUser | None = None) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self._program = [*(user.prefix if user else ()), str(BIREME)]
        self._variables = user.environment if user else {}
        for each in (self.home, self.work):
            each.mkdir(parents=True, exist_ok=True)
            if user is not None:
                os.chown(each, user.uid, user.uid)
        watch_over(folder)
        self.data = self.home / ".local/state/bireme"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "PYTHONPYCACHEPREFIX") if name in os.environ}
        path = f"{BIREME.parent}:{os.environ['PATH']}"
        return {**kept, "HOME": str(self.home), "PATH": path, **self._variables, **more}

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command; its output and talk are pipes."""
        return subprocess.Popen(
            [*self._program, *args],
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def sh(self, script: str, *, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a shell's script as this user would; another exit code fails."""
        result = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=self.work,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert result.returncode == code, result.stderr
        return result

    def on_terminal(self, *args: str, program: str = str(BIREME), **environ: str) -> Terminal:
        """Start a command on a terminal."""
        return Terminal([program, *args], cwd=self.work, env=self.environment(TERM="xterm", **environ))

    def __call__(
        self,
        *args: str,
        input: str = "",  # noqa: A002 - as subprocess.run has it
        code: int | None = 0,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; another exit code than this fails, unless it is None."""
        result = subprocess.run(
            [*self._program, *args],
            cwd=self.work,
            env=self.environment(**environ),
            input=input,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert code in (None, result.returncode), (
            f"{args}: {result.returncode}\n{result.stdout}\n{result.stderr}"
        )
        assert "Traceback" not in result.stderr
        return result

    def down(self) -> subprocess.CompletedProcess[str]:
        """Stop the daemon; nothing is left, nor was there anything that had to be killed."""
        result = self("down", "--grace-seconds", "1")
        assert "left behind" not in result.stderr, result.stderr
        assert self.processes() == []
        return result

    def assert_deleted_jobs_leave_nothing(self) -> None:
        """Delete all jobs, and look before `bireme down` does: it would kill what it finds."""
        self("delete", "--all", "--now", "--yes")
        eventually(lambda: not self.strays(), self.strays)

    def strays(self) -> list[str]:
        """What runs beside the daemon, its own children, and what it has in podman's namespaces."""
        daemon: int = json.loads((self.data / "daemon.json").read_bytes())["pid"]
        own = {each.pid for each in all_processes() if daemon in (each.pid, each.parent)}
        own |= {pid for pid in self._pids() if _name(pid) == "bireme-userns"}
        return sorted(_command_line(pid) for pid in self._pids() if pid not in own)

    def processes(self) -> list[str]:
        """What runs with this home in its command line or environment, this process excepted."""
        return sorted(_command_line(pid) for pid in self._pids())

    def _pids(self) -> list[int]:
        # The process that rootless podman keeps its namespaces in is podman's own, and outlives containers.
        return [
            pid
            for pid in _pids()
            if pid != os.getpid() and self._is_ours(pid) and _name(pid) != "podman pause"
        ]

    def _is_ours(self, pid: int) -> bool:
        mark = str(self.home).encode()
        with contextlib.suppress(OSError):
            for part in ("cmdline", "environ"):
                if mark in Path(f"/proc/{pid}/{part}").read_bytes():
                    return True
        return False


@contextlib.contextmanager
def daemon(folder: Path, *options: str, user: OrdinaryUser | None = None) -> Iterator[Bireme]:
    """A home with a daemon in it, which leaves nothing behind."""
    bireme = Bireme(folder, user)
    bireme("up", *options)
    try:
        yield bireme
        bireme.assert_deleted_jobs_leave_nothing()
    finally:
        bireme.down()


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
