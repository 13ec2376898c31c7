"""A pod's own host name and network, where the kernel lets us; mounts are each container's own."""

import json
import socket
from typing import Any

from bireme.node.shim import kernel, network


def enter(folder: str) -> None:
    """Make what `pod.json` asks for:

    hostname   a UTS namespace with this name
    network    a place in the network of its job (`network.enter`)
    user       whether a user namespace is needed for the rest, or for the mounts of containers
    """
    with open(f"{folder}/pod.json") as file:  # noqa: PTH123
        wanted: dict[str, Any] = json.load(file)
    if wanted.get("network"):
        network.enter(wanted["network"])
    elif wanted.get("user"):
        kernel.unshare_user()
    if wanted.get("hostname"):
        kernel.unshare(kernel.CLONE_NEWUTS)
        socket.sethostname(wanted["hostname"])
