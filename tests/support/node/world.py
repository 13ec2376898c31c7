"""What the processes of the cluster see of the machine: all that they would change is their own."""

import subprocess
from pathlib import Path
from typing import Final

NODE_ADDRESS: Final = "10.77.0.1"
POD_SUBNET: Final = "10.77.1.0/24"
KUBELET_FOLDER: Final = "/run/kubelet"
"""A short name: there are sockets in it, whose paths have at most 107 characters."""
_BRIDGE: Final = "node0"
# A kubelet sets these for the whole machine, if they differ.
_KERNEL_SETTINGS: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def build(folder: Path) -> None:
    """Call once, in new network and mount namespaces; `folder` takes what is written."""
    _hide_folders(folder)
    _name_server()
    _pretend_kernel_settings(folder)
    _build_network()


def _hide_folders(folder: Path) -> None:
    """Sockets and network namespaces go to a /run of our own; the rest over those that are there."""
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in ("etc", "var"):
        upper, work = folder / name, folder / f"{name}.work"
        upper.mkdir()
        work.mkdir()
        layers = f"lowerdir=/{name},upperdir={upper},workdir={work}"
        _run("mount", "-t", "overlay", "-o", layers, "overlay", f"/{name}")
    (folder / "kubelet").mkdir()
    Path(KUBELET_FOLDER).mkdir()
    _run("mount", "--bind", str(folder / "kubelet"), KUBELET_FOLDER)


def _name_server() -> None:
    """Nothing in here waits for an answer of the machine's own, which it can't reach."""
    path = Path("/etc/resolv.conf")
    path.unlink(missing_ok=True)
    path.write_text(f"nameserver {NODE_ADDRESS}\n")


def _pretend_kernel_settings(folder: Path) -> None:
    for name, value in _KERNEL_SETTINGS.items():
        path = folder / name.replace("/", ".")
        path.write_text(value + "\n")
        _run("mount", "--bind", str(path), f"/proc/sys/{name}")


def _build_network() -> None:
    """The node's address is on a bridge without ports: a kubelet accepts none on loopback."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for words in (
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"address add {NODE_ADDRESS}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
        # Nothing is out there, but an address without a route is refused before kube-proxy can rewrite it.
        f"route add default dev {_BRIDGE}",
    ):
        _run("ip", *words.split())


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)
