"""The network of a job: a namespace that a holder process keeps for as long as the job has pods.

There are two sorts:

- Pods with addresses of their own: the holder has a bridge, each pod a namespace with an interface at it.
  There is no way out of it.
- Pods that share one namespace, as they would share the machine's. slirp4netns, a program for rootless
  containers, forwards their connections to the outside; nothing outside can connect to them.
"""

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from bireme.node.shim import kernel
from bireme.node.shim.netlink import Netlink
from bireme.node.shim.records import boot_id
from bireme.node.shim.tree import read_process

BRIDGE: Final = "bireme0"
PREFIX: Final = 16
_LOOPBACK: Final = "lo"
_INTERFACE: Final = "eth0"
_TAP: Final = "tap0"
_UPLINK_SECONDS: Final = 5.0
# Packets only cross a pipe between two processes: large ones cost less.
_UPLINK_OPTIONS: Final = ("--configure", "--mtu=65520", "--disable-host-loopback")


def hold(folder: str, *, user: bool, uplink: str = "") -> None:
    """Be the holder of a job's network until killed; write `holder.json` once it is there.

    `uplink` is the path of slirp4netns; with it, pods share the namespace.
    """
    kernel.set_name("bireme-network")
    try:
        connect = _prepare_uplink(uplink, folder) if uplink else None
        _make(user=user, bridge=connect is None)
        if connect is not None:
            connect()
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


def _make(*, user: bool, bridge: bool) -> None:
    if user:
        kernel.unshare_user()
    kernel.unshare(kernel.CLONE_NEWNET)
    here = Netlink()
    here.raise_up(_LOOPBACK)
    if bridge:
        here.add_bridge(BRIDGE)
        here.raise_up(BRIDGE)


def _prepare_uplink(program: str, folder: str) -> Callable[[], None]:
    """Fork slirp4netns, which stays in the machine's network; the returned function connects it to ours."""
    holder = os.getpid()
    begin, begin_end = os.pipe()
    ready_end, ready = os.pipe()
    # slirp4netns ends when the other end of this pipe is closed, which happens when the holder ends.
    alive, alive_end = os.pipe()
    if os.fork() == 0:
        _become_uplink(program, folder, holder, begin, ready, alive, (begin_end, ready_end, alive_end))
    for number in (begin, ready, alive):
        os.close(number)

    def connect() -> None:
        os.write(begin_end, b"1")
        os.close(begin_end)
        readable, _, _ = select.select([ready_end], [], [], _UPLINK_SECONDS)
        if not readable or os.read(ready_end, 1) != b"1":
            raise OSError(f"{program} could not connect it: see {folder}/log")
        os.close(ready_end)

    return connect


def _become_uplink(
    program: str, folder: str, holder: int, begin: int, ready: int, alive: int, others: Sequence[int]
) -> None:
    """In a new child: be slirp4netns once the holder has its network, and never return."""
    try:
        for number in others:
            os.close(number)
        if os.read(begin, 1):
            for number in (ready, alive):
                os.set_inheritable(number, True)
            ends = [f"--ready-fd={ready}", f"--exit-fd={alive}"]
            # By the folder in its command line leftovers are found.
            os.execv(program, [f"{folder}/slirp4netns", *_UPLINK_OPTIONS, *ends, str(holder), _TAP])  # noqa: S606
    finally:
        os._exit(1)


def enter(wanted: dict[str, Any]) -> None:
    """Take a place in a job's network.

    `{"holder": pid, "user": bool, "address": "10.…", "port": "v1"}`, or, where pods share one,
    `{"holder": pid, "user": bool, "shared": true}`. `user` and `mounts` say that the holder's user and mount
    namespace come with it.
    """
    flags = kernel.CLONE_NEWUSER if wanted.get("user") else 0
    flags |= kernel.CLONE_NEWNS if wanted.get("mounts") else 0
    kernel.join_process(wanted["holder"], flags | kernel.CLONE_NEWNET)
    if wanted.get("shared"):
        return
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
