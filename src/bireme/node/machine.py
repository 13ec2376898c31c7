"""What this machine offers to pods."""

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bireme import __version__
from bireme.api.kubernetes import kubernetes_version
from bireme.node.folders import ROOT
from bireme.node.submitter import is_usual

_TRIAL: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from bireme.node.shim import kernel
if sys.argv[2] == "user":
    kernel.unshare_user()
kernel.unshare(kernel.CLONE_NEWUTS | kernel.CLONE_NEWNS)
kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
"""
_GO_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
_GPU_UUID: Final = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "XDG_CACHE_HOME")


class Machine(msgspec.Struct, frozen=True):
    """`isolation` says what a pod can be given of its own: `root` and `user` mean a host name and mounts."""

    name: str
    cpus: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    isolation: str = "none"
    address: str = "127.0.0.1"
    # What queued jobs may have of it, as quantities, where that is not all.
    cpu: str = ""
    memory: str = ""

    def allocatable(self) -> dict[str, str]:
        amounts = {
            "cpu": self.cpu or str(self.cpus),
            "memory": self.memory or f"{self.memory_bytes // 1024}Ki",
            "pods": "1000",
        }
        return amounts | ({"nvidia.com/gpu": str(len(self.gpus))} if self.gpus else {})

    def labels(self) -> dict[str, str]:
        """The labels that a kubelet gives its node."""
        system, architecture = platform.system().lower(), go_architecture()
        return {
            "beta.kubernetes.io/arch": architecture,
            "beta.kubernetes.io/os": system,
            "kubernetes.io/arch": architecture,
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": system,
        }


def go_architecture() -> str:
    """The machine's architecture by Go's name, which Kubernetes uses."""
    machine = platform.machine()
    return _GO_ARCHITECTURES.get(machine, machine)


def node_info() -> dict[str, str]:
    """What a kubelet tells of its machine; all fields are there, though one may be empty."""
    return {
        "architecture": go_architecture(),
        "bootID": _read(Path("/proc/sys/kernel/random/boot_id")),
        "containerRuntimeVersion": f"bireme://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": f"{kubernetes_version()}+bireme",
        "machineID": _read(Path("/etc/machine-id")),
        "operatingSystem": platform.system().lower(),
        "osImage": _os_image(),
        "systemUUID": _read(Path("/sys/class/dmi/id/product_uuid")),
    }


def _os_image() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _read(path: Path) -> str:
    """Return a file's line; empty where the file is missing, or not for everybody."""
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""


def look(name: str = "") -> Machine:
    """This machine, as it is now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpus = len(os.sched_getaffinity(0))
    return Machine(name or _node_name(), cpus, memory, _gpus(), isolation())


@cache
def isolation() -> str:
    """`root`, `user` or `none`: found out by trying, as rules of the kernel differ from one to the next."""
    if os.environ.get("BIREME_ISOLATION") == "none":
        return "none"
    sort = "root" if os.getuid() == 0 else "user"
    command = [sys.executable, "-I", "-S", "-c", _TRIAL, str(ROOT), sort]
    tried = subprocess.run(command, capture_output=True, check=False, timeout=20)  # noqa: S603 - our own program
    return sort if tried.returncode == 0 else "none"


def is_connected() -> bool:
    """Whether there is a network beside loopback just now."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):
            state = Path(f"/sys/class/net/{name}/operstate").read_text().strip()
            if name != "lo" and state not in ("down", "lowerlayerdown", "notpresent"):
                return True
    return False


def caller_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what pods without a submitter get of the environment in which the node was started."""
    return {name: value for name, value in environ.items() if name in _PASSED_ON or is_usual(name)}


def _node_name() -> str:
    name = "".join(
        letter if letter.isalnum() or letter in "-." else "-" for letter in socket.gethostname().lower()
    )
    return name.strip("-.")[:63] or "localhost"


def count_gpus() -> int:
    return len(_gpus())


def _gpus() -> tuple[str, ...]:
    """NVIDIA's GPUs by names that CUDA knows, as far as `nvidia-smi` or the driver's files tell them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return gpus_of_driver(Path("/proc/driver/nvidia/gpus"))
    command = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listed.stdout.splitlines() if line.strip())


def gpus_of_driver(folder: Path) -> tuple[str, ...]:
    """The UUIDs of the GPUs that a driver has a folder for, or their numbers: CUDA knows no addresses.

    A driver that nobody has used yet does not know UUIDs, and says so by question marks.
    """
    files = sorted(folder.glob("*/information"))
    texts = [file.read_text(errors="replace") for file in files]
    uuids = [match[1] for text in texts if (match := _GPU_UUID.search(text)) and "?" not in match[1]]
    return tuple(uuids) if len(uuids) == len(files) else tuple(map(str, range(len(files))))
