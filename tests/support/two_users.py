"""Two users of one machine: a victim who runs jobs, and an attacker who may nothing but what everybody may.

Root alone can be them. Neither has an entry in /etc/passwd, and nothing of them is left but the folders that
the fixtures remove.
"""

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bireme.node.shim.tree import all_processes, descendants
from support.fixtures import unavailable
from support.mpi_rounds import ROOT, STRANGER, become, find, python_of
from support.reaper import watch_over

VICTIM: Final = STRANGER + 1
ATTACKER: Final = STRANGER + 2
PATIENCE_SECONDS: Final = 120.0
MARK: Final = "S3CRET-of-the-victim"
FILES: Final = 1024
"""The soft limit of open files in most shells."""


class Outcome(NamedTuple):
    """What an attack came to: a value, or the name of an error."""

    value: Any
    error: str
    message: str


class Attacker:
    """A process of the attacker."""

    def __init__(self, home: Path) -> None:
        self.home = home
        os.chown(home, ATTACKER, ATTACKER)
        home.chmod(0o755)
        program = Path(__file__).with_name("attacker.py")
        self._process = subprocess.Popen(
            [*become(ATTACKER), "/usr/bin/python3", "-ISc", program.read_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        )

    def __call__(self, do: str, *arguments: Any) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "with": arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Outcome(answer.get("value"), answer.get("error", ""), answer.get("message", ""))

    def start(self, do: str, *arguments: Any) -> None:
        """Begin an attack, without waiting for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "with": arguments}) + "\n")
        self._process.stdin.flush()

    def finish(self) -> Outcome:
        """Wait for the end of an attack that was started."""
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        return Outcome(answer.get("value"), answer.get("error", ""), answer.get("message", ""))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Victim:
    """A user with a home of the usual mode 0755, who runs `bireme`."""

    def __init__(self, home: Path) -> None:
        python = python_of(VICTIM)
        if python is None:
            raise unavailable("another user can't run this Python, and the system's is of another version")
        self.home, self.python = home, python
        self._processes: dict[str, int] = {}
        self.data = home / ".local/state/bireme"
        watch_over(home)
        os.chown(home, VICTIM, VICTIM)
        home.chmod(0o755)

    def __call__(
        self, *args: str, code: int | None = 0, seconds: float = PATIENCE_SECONDS, said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            self.command(*args),
            cwd=self.home,
            env=self.environment(),
            input=said,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert code in (None, result.returncode), f"{args}: {result.returncode}\n{result.stderr}"
        return result

    def start(self, *args: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(*args),
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def command(self, *args: str) -> list[str]:
        limit = ["prlimit", f"--nofile={FILES}:"]
        return [*limit, *_with_tun(), *become(VICTIM), self.python, "-P", "-m", "bireme.cli.main", *args]

    def environment(self) -> Mapping[str, str]:
        library = find("5.0")
        assert library is not None
        paths = (ROOT / "src", sysconfig.get_path("platlib"))
        return {
            "HOME": str(self.home),
            "PATH": library.path,
            "PYTHONPATH": ":".join(map(str, paths)),
            "VICTIMS_VARIABLE": MARK,
        }

    @property
    def port(self) -> int:
        url: str = json.loads((self.data / "daemon.json").read_bytes())["url"]
        return int(url.rpartition(":")[2])

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    @property
    def daemon(self) -> int:
        pid: int = json.loads((self.data / "daemon.json").read_bytes())["pid"]
        return pid

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        """Send a request with the token over TCP; return its code and body without the version."""
        context = ssl.create_default_context(cafile=str(self.data / "ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
        if isinstance(body.get("metadata"), dict) and body.get("kind", "").endswith("List"):
            body["metadata"].pop("resourceVersion", None)
        return answer.status, body

    def processes(self) -> dict[str, int]:
        """The daemon, its fork server, a shim, and a process of a pod, as they were when first asked for."""
        if not self._processes:
            self._processes = self._find_processes()
        return self._processes

    def is_alive(self) -> dict[str, bool]:
        """Whether these processes are still there, and neither stopped nor traced."""
        states = {}
        for who, pid in self.processes().items():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            states[who] = any(line.startswith(("State:\tS", "State:\tR")) for line in lines)
            states[who] &= "TracerPid:\t0" in lines
        return states

    def _find_processes(self) -> dict[str, int]:
        found = {"daemon": self.daemon}
        for process in all_processes():
            with contextlib.suppress(OSError):
                name = Path(f"/proc/{process.pid}/comm").read_text().strip()
                if Path(f"/proc/{process.pid}").stat().st_uid not in (VICTIM, 0):
                    continue
                if name in ("bireme-nursery", "bireme-shim") and self._is_ours(process.pid):
                    found[name.removeprefix("bireme-")] = process.pid
        pods = descendants([found["shim"]])
        found["pod"] = pods[0].pid
        return found

    def _is_ours(self, pid: int) -> bool:
        return str(self.data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def _with_tun() -> list[str]:
    """What runs a command where all may open /dev/net/tun, as they may with udev's usual rules.

    slirp4netns needs it. The command gets mounts of its own; the machine's device stays as it is.
    """
    if Path("/dev/net/tun").stat().st_mode & 0o006 == 0o006:
        return []
    script = 'mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200 && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


@contextlib.contextmanager
def victim_with_daemon(home: Path, *options: str) -> Iterator[Victim]:
    if os.getuid() != 0:
        raise unavailable("only root can be somebody else: run the tests as root")
    victim = Victim(home)
    victim("up", *options)
    try:
        yield victim
    finally:
        victim("delete", "--all", "--now", "--yes", code=None)
        victim("down", "--grace-seconds", "1", code=None)


def timed(victim: Victim, *args: str, seconds: float) -> float:
    """Run a command of the victim; return how long it took, at most `seconds`."""
    begun = time.monotonic()
    victim(*args, seconds=seconds)
    return time.monotonic() - begun
