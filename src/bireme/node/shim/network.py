"""A network of a job's own: a bridge in a namespace that a holder keeps, and an interface in each pod's."""

import json
import os
import signal
import socket
from typing import Any, Final

from bireme.node.shim import kernel
from bireme.node.shim.netlink import Netlink
from bireme.node.shim.records import boot_id
from bireme.node.shim.tree import read_process

BRIDGE: Final = "bireme0"
PREFIX: Final = 16
_LOOPBACK: Final = "lo"
_INTERFACE: Final = "eth0"


def hold(folder: str, *, user: bool) -> None:
    """Be the holder of a job's network until killed; write `holder.json` once it is there."""
    kernel.set_name("bireme-network")
    try:
        _make(user=user)
    except OSError as error:
        with open(f"{folder}/failed", "w") as file:  # noqa: PTH123
            file.write(str(error))
        return
    own = read_process(os.getpid())
    assert own is not None, "this process is there"
    record = {"pid": own.pid, "start": own.start, "boot": boot_id()}
    with open(f"{folder}/holder.json.new", "w") as file:  # noqa: PTH123
        json.dump(record, file)
    os.replace(f"{folder}/holder.json.new", f"{folder}/holder.json")  # noqa: PTH105
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    signal.pause()


def _make(*, user: bool) -> None:
    if user:
        kernel.unshare_user()
    kernel.unshare(kernel.CLONE_NEWNET)
    here = Netlink()
    here.raise_up(_LOOPBACK)
    here.add_bridge(BRIDGE)
    here.raise_up(BRIDGE)


def enter(wanted: dict[str, Any]) -> None:
    """Take a place in a job's network: `{"holder": pid, "user": bool, "address": "10.…", "port": "v1"}`.

    `user` and `mounts` say that the holder's user and mount namespace come with it.
    """
    flags = kernel.CLONE_NEWUSER if wanted.get("user") else 0
    flags |= kernel.CLONE_NEWNS if wanted.get("mounts") else 0
    kernel.join_process(wanted["holder"], flags | kernel.CLONE_NEWNET)
    outside = Netlink()
    bridge = socket.if_nametoindex(BRIDGE)
    kernel.unshare(kernel.CLONE_NEWNET)
    inside = Netlink()
    outside.add_pair(wanted["port"], _INTERFACE, os.getpid())
    outside.raise_named(wanted["port"], bridge)
    inside.raise_up(_LOOPBACK)
    inside.add_address(_INTERFACE, wanted["address"], PREFIX)
    inside.raise_up(_INTERFACE)
    outside.close()
    inside.close()
