"""Pods for tests of the scripts: namespaces of this machine, on a network of their own.

A pod has a host name, an address and a resolver (/etc/hosts) that knows its job's pods. Its containers have a
mount and a PID namespace, a read-only root and the user that the test asks for. What a cluster mounts into
a pod is below /mnt here, because nothing may be created elsewhere on this machine.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

import pytest

from bireme.node.shim.tree import descendants
from support.fixtures import unavailable

SCRIPTS: Final = Path(__file__).parents[2] / "src/bireme/planning/scripts"
NAMES: Final = tuple(sorted(path.name for path in SCRIPTS.iterdir() if not path.suffix))
SHELLS: Final = {"dash": "dash", "ash": "busybox", "bash": "bash"}
"""What /bin/sh is in a pod, by name: the program."""
PATH: Final = "/mnt/applets:/usr/local/bin:/usr/bin:/bin"
"""Where a container finds its programs. With ash as shell most are busybox's too, as in Alpine Linux."""
UNKNOWN_UID: Final = 54321
_VARIABLES: Final = {
    "PATH": PATH,
    "HOME": "/mnt/work",
    "BIREME_DIR": "/mnt/bireme",
    "BIREME_KEYS": "/mnt/keys",
    "BIREME_SSH_DIR": "/mnt/ssh",
    "BIREME_TERMINATION_LOG": "/mnt/work/termination-log",
}
"""What every container of a pod has in its environment."""
DEADLINE_SECONDS: Final = 120
_LISTENS: Final = "0A"
"""The state of a socket that listens, in /proc/net/tcp."""

_PACKAGES: Final = {
    "bash": "bash",
    "busybox": "busybox",
    "dash": "dash",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "shellcheck": "shellcheck",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "unshare": "util-linux",
}

# With this in front, a command ends with the process that runs the tests, however that ends.
_MORTAL: Final = ("setpriv", "--pdeathsig", "KILL")
# Runs as root in the container's new mount namespace; $1 is the pod's folder, $2 the shell's program.
_CONTAINER: Final = """
set -eu
folder=$1 shell=$2 venv=$3 uid=$4 directory=$5
shift 5
path=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --make-rprivate /
mount --bind "$folder/mnt" /mnt
mount --bind "$venv" /mnt/venv
mount --bind "$folder/../output" /mnt/output
mount --bind -o ro /mnt/bireme /mnt/bireme
case $shell in */busybox) [ -e /mnt/applets/sh ] || "$shell" --install -s /mnt/applets ;; esac
for file in "$folder"/etc/*; do mount --bind "$file" "/etc/${file##*/}"; done
mount --bind "$shell" "$(readlink -f /bin/sh)"
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/sshd
mount -t tmpfs -o mode=0777 tmpfs /run/sshd
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
cd "$directory"
setpriv=$(command -v setpriv)
PATH=$path
exec "$setpriv" --reuid "$uid" --regid "$uid" --groups "$uid,4242" "$@"
"""


def need(*programs: str) -> None:
    """Skip the test unless all programs are there; in CI, fail."""
    for program in programs:
        if which(program) is None:
            raise unavailable(f"{program} is not installed: apt-get install {_PACKAGES[program]}")


def need_namespaces() -> None:
    if os.geteuid() != 0:
        raise unavailable("namespaces with distinct host names need root: run the tests as root")
    need("ip", "nsenter", "setpriv", "unshare")
    if subprocess.run(["unshare", "-munp", "--fork", "true"], capture_output=True, check=False).returncode:
        raise unavailable("this kernel or container allows no namespaces: run with CAP_SYS_ADMIN")


def which(program: str) -> str | None:
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def eventually(condition: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Return as soon as the condition holds; fail the test at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Container:
    """A running container; its output goes to two files."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pids(self) -> list[int]:
        """The processes of the container, and those that lead to it."""
        return [self._process.pid, *(child.pid for child in descendants([self._process.pid]))]

    @property
    def stdout(self) -> str:
        return self._log.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        return self._log.with_suffix(".err").read_text()

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Return the exit code, as a shell has it."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            running = "\n".join(self.commands())
            self.kill()
            pytest.fail(f"still running after {seconds} s\n{self.stdout}\n{self.stderr}\n{running}")
        return 128 - code if code < 0 else code

    def ends(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def ok(self, seconds: float = DEADLINE_SECONDS) -> str:
        """Return stdout of a container that ends well."""
        code = self.wait(seconds)
        assert code == 0, f"exit code {code}\n{self.stdout}\n{self.stderr}"
        return self.stdout

    def signal(self, number: int) -> None:
        """Signal the container's first process."""
        if (pid := self.first()) is not None:
            os.kill(pid, number)

    def find(self, name: str) -> list[int]:
        """Return the PIDs of its processes with this name, as the host sees them."""
        return [pid for pid in self.pids if _name(pid) == name]

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def commands(self) -> list[str]:
        """Return the command lines of its processes."""
        if (first := self.first()) is None:
            return []
        namespace = _read_link(Path(f"/proc/{first}/ns/pid"))
        pids = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [_command(pid) for pid in pids if namespace and _read_link(pid / "ns/pid") == namespace]

    def first(self) -> int | None:
        """Return the PID of the container's first process as the host sees it, once it is there."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while self._process.poll() is None and time.monotonic() < deadline:
            if found := children.read_text().split():
                return int(found[0])
        return None


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


class Pod:
    """A sandbox with name and address, in which containers are started."""

    def __init__(self, name: str, address: str, folder: Path, shell: str, uid: int) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.uid = uid
        self._shell = shell
        self._containers: list[Container] = []
        self.sandbox = subprocess.Popen([*_MORTAL, "unshare", "--net", "--uts", "sleep", "infinity"])
        for volume in ("applets", "bireme", "keys", "ssh", "etc", "work", "output", "venv"):
            (folder / "mnt" / volume).mkdir(parents=True)
            (folder / "mnt" / volume).chmod(0o777)
        (folder / "mnt/keys").chmod(0o1777)
        (folder / "etc").mkdir()
        (folder / "mnt/work/termination-log").touch()
        (folder / "mnt/work/termination-log").chmod(0o666)

    def volume(self, name: str) -> Path:
        return self.folder / "mnt" / name

    def wait_listening(self, port: int = 2222) -> None:
        """Wait until something listens in the pod's network: a worker's sshd, unless told otherwise."""
        eventually(lambda: self._listens(port), f"{self.name} listens")

    def _listens(self, port: int) -> bool:
        lines = [
            line.split()
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/{self.sandbox.pid}/net/{name}").read_text().splitlines()[1:]
        ]
        return any(words[1].endswith(f":{port:04X}") and words[3] == _LISTENS for words in lines)

    @property
    def termination_log(self) -> str:
        return self.volume("work").joinpath("termination-log").read_text()

    def start(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        directory: str = "/mnt/work",
        stdin: IO[bytes] | int = subprocess.DEVNULL,
    ) -> Container:
        """Start a container with this command and these variables beside the usual ones."""
        log = self.folder / f"container-{len(self._containers)}"
        variables = _VARIABLES | dict(env or {})
        program = which(SHELLS[self._shell])
        assert program is not None
        enter = [*_MORTAL, "nsenter", "-t", str(self.sandbox.pid), "--net", "--uts"]
        unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
        setup = ["sh", "-c", _CONTAINER, "container", str(self.folder), program, sys.prefix]
        with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
            process = subprocess.Popen(
                [*enter, *unshare, *setup, str(self.uid), directory, *command],
                stdin=stdin,
                stdout=out,
                stderr=err,
                env=variables,
            )
        self._containers.append(Container(process, log))
        return self._containers[-1]

    def exec(self, container: Container, *command: str) -> subprocess.Popen[bytes]:
        """Run a command in a container, as the kubelet runs a hook."""
        enter = ["nsenter", "-t", str(container.first()), "--mount", "--pid", "--net", "--uts"]
        program = which("setpriv")
        assert program is not None
        user = [program, "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"]
        return subprocess.Popen([*_MORTAL, *enter, *user, *command], env=_VARIABLES)

    def cut_off(self) -> None:
        """Drop all packets from and to the pod, without a word to either side."""
        _ip_in(self.sandbox.pid, "link set eth0 down")

    def make_user(self) -> None:
        """Let an init container write passwd and group, and mount them from now on."""
        self.start("/bin/sh", "/mnt/bireme/passwd", "/mnt/etc").ok()
        self.take_user(self)

    def take_user(self, pod: "Pod") -> None:
        """Mount what the init container of a pod with the same image and user has written."""
        for name in ("passwd", "group"):
            shutil.copy(pod.volume("etc") / name, self.folder / "etc" / name)

    def stop(self) -> None:
        for container in self._containers:
            container.kill()
        self.sandbox.kill()
        self.sandbox.wait()


class Network:
    """A bridge in a network namespace, to which pods are wired."""

    def __init__(self) -> None:
        self._switch = subprocess.Popen([*_MORTAL, "unshare", "--net", "sleep", "infinity"])
        eventually(lambda: _in_own_network(self._switch.pid), "a network namespace")
        self._ip("link add br0 type bridge\nlink set br0 up")
        self._next = 0

    def next_address(self) -> str:
        self._next += 1
        return f"10.213.{self._next // 250}.{self._next % 250 + 1}"

    def wire(self, pod: Pod) -> None:
        eventually(lambda: _in_own_network(pod.sandbox.pid), "a network namespace")
        port = "p" + pod.address.replace(".", "-").removeprefix("10-213-")
        self._ip(
            f"link add {port} type veth peer name eth0 netns {pod.sandbox.pid}\n"
            f"link set {port} master br0\n"
            f"link set {port} up"
        )
        _ip_in(pod.sandbox.pid, f"link set lo up\naddress add {pod.address}/16 dev eth0\nlink set eth0 up")
        subprocess.run(["nsenter", "-t", str(pod.sandbox.pid), "--uts", "hostname", pod.name], check=True)

    def close(self) -> None:
        self._switch.kill()
        self._switch.wait()

    def _ip(self, lines: str) -> None:
        _ip_in(self._switch.pid, lines)


def _in_own_network(pid: int) -> bool:
    return _read_link(Path(f"/proc/{pid}/ns/net")) not in ("", _read_link(Path("/proc/self/ns/net")))


def _ip_in(pid: int, lines: str) -> None:
    program = which("ip")
    assert program is not None
    subprocess.run(
        ["nsenter", "-t", str(pid), "--net", program, "-batch", "-"], input=lines, text=True, check=True
    )
