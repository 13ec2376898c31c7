"""A one-node cluster, seen from outside.

cluster = OneNodeCluster(pause_image, folder)
cluster.start()
cluster.kubeconfig      # its API server, on loopback
cluster.restart("kubelet")
cluster.stop()          # nothing is left
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from support.component import LAUNCHER, ControlPlaneError
from support.control_plane import BinariesMissingError, find_binaries
from support.node import cgroups
from support.node.inside import COMPONENTS
from support.node.kubelet import binaries_folder

_STOP_SECONDS: Final = 60
_TESTS: Final = Path(__file__).parents[2]
_NAMESPACES: Final = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
_PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
}


def missing() -> str | None:
    """Why there can be no cluster here, in one line."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a node with real containers needs root on Linux"
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            return f"no {program}: run `make e2e`, or install {package}"
    try:
        find_binaries([*COMPONENTS, "kubectl"])
    except BinariesMissingError as error:
        return str(error)
    for program in ("kubelet", "kube-proxy", "coredns"):
        if not os.access(binaries_folder() / program, os.X_OK):
            return f"no {program} in {binaries_folder()}: run `make e2e`"
    return None


class OneNodeCluster:
    """All attributes are set by `start`."""

    folder: Path
    kubeconfig: Path
    audit_log: Path

    def __init__(self, pause_image: Path, parent: Path | None = None) -> None:
        """`pause_image` is an archive with what holds a pod's namespaces."""
        self._parent, self._pause_image = parent, pause_image
        self._cgroup: str | None = None
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when the node is ready; on failure leave nothing behind."""
        cgroups.remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix="node-", dir=self._parent))
        self._cgroup = cgroups.make()
        try:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self._spawn(listener, self._cgroup)
                ready = self._answer()["ready"]
                self._write_kubeconfig(Path(ready["kubeconfig"]), listener.getsockname()[1])
            self.audit_log = Path(ready["audit_log"])
        except BaseException:
            self.stop()
            raise

    def _spawn(self, listener: socket.socket, cgroup: str) -> None:
        launcher = [sys.executable, "-ISc", LAUNCHER, str(os.getpid())]
        unshare = [shutil.which("unshare") or "/usr/bin/unshare", *_NAMESPACES]
        program = [sys.executable, "-m", "support.node.inside"]
        arguments = [str(self.folder), cgroup, str(listener.fileno()), str(self._pause_image)]
        with (self.folder / "inside.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *unshare, *program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=[listener.fileno()],
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": str(_TESTS), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
            )

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        message: dict[str, Any] = json.loads(line) if line else {"error": self.log("inside")}
        if "error" in message:
            raise ControlPlaneError(message["error"])
        return message

    def _write_kubeconfig(self, original: Path, port: int) -> None:
        config = json.loads(original.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(config))

    def restart(self, name: str) -> None:
        """End a program of the node (kubelet, containerd, …), and return when it is ready again."""
        self._tell({"restart": name})

    def import_image(self, archive: Path) -> None:
        """Give the node an image; it can reach no registry."""
        self._tell({"import": str(archive)})

    def _tell(self, command: dict[str, str]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._answer()

    def log(self, name: str, lines: int = 30) -> str:
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def kill(self) -> None:
        """End it as the kernel does when there is no memory left; `stop` still cleans up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End every process, then remove all that was made; twice is once."""
        if self._process is not None:
            self._end_process(self._process)
            self._process = None
        if self._cgroup is not None:
            cgroups.remove(self._cgroup)
            shutil.rmtree(self.folder, ignore_errors=True)
            self._cgroup = None

    def _end_process(self, process: subprocess.Popen[str]) -> None:
        """Its namespaces end with it, and so do all pods."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        process.stdout.close()
