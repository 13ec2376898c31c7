"""A pod's own host name, network and shared memory, where the kernel lets us; containers have own mounts."""

import json
import os
import socket
from typing import Any, Final

from bireme.node.shim import kernel, mounts, network

_SHARED: Final = "/dev/shm"  # noqa: S108 - the mount point itself


def enter(folder: str) -> None:
    """Make what `pod.json` asks for:

    hostname   a UTS namespace with this name
    network    a place in the network of its job (`network.enter`)
    joins      the process whose user and mount namespaces it enters: those of rootless podman
    user       whether a user namespace is needed for the rest, or for the mounts of containers
    ipc        shared memory of its own, for all of its containers, of both sorts: System V's and /dev/shm
    message    a place among the devices, where each container has a file of its own for its last words
    tmpfs      folders that are memory for all of its containers, with their sizes in bytes, 0 for the usual
    """
    with open(f"{folder}/pod.json") as file:  # noqa: PTH123
        wanted: dict[str, Any] = json.load(file)
    if wanted.get("network"):
        network.enter(wanted["network"])
    elif wanted.get("joins"):
        kernel.join_process(wanted["joins"], kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    elif wanted.get("user"):
        kernel.unshare_user()
    if wanted.get("hostname"):
        kernel.unshare(kernel.CLONE_NEWUTS)
        socket.sethostname(wanted["hostname"])
    ipc, tmpfs = wanted.get("ipc"), wanted.get("tmpfs") or {}
    if ipc or tmpfs:
        kernel.unshare(kernel.CLONE_NEWNS)
        # What the machine mounts later is seen here; what is mounted here is not seen there.
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    for path, size in tmpfs.items():
        kernel.mount("tmpfs", path, "tmpfs", 0, f"mode=777,size={size}" if size else "mode=777")
    if ipc:
        _own_memory()
        if wanted.get("message"):
            mounts.add_device_file(wanted["message"], f"{folder}/root")


def _own_memory() -> None:
    kernel.unshare(kernel.CLONE_NEWIPC)
    if os.path.isdir(_SHARED):  # noqa: PTH112 - pathlib costs the shim its start
        kernel.mount("tmpfs", _SHARED, "tmpfs", 0, "mode=1777")
