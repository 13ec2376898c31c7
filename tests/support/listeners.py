"""The TCP sockets that processes listen on, as the kernel tells: by the inodes of their descriptors."""

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"


class Listener(NamedTuple):
    """A listening socket. `namespace` names its network as /proc/PID/ns/net does."""

    pid: int
    program: str
    namespace: str
    address: str
    port: int

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines can connect: not on loopback, and in the network of this process."""
        is_loopback = ipaddress.ip_address(self.address).is_loopback
        return not is_loopback and self.namespace == network_of("self")


def network_of(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def find_listeners(pids: Iterable[int]) -> list[Listener]:
    """All listening TCP sockets of these processes; those that end meanwhile are left out."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes = set(_sockets(pid))
            network, program = network_of(pid), Path(f"/proc/{pid}/comm").read_text().strip()
            found += [
                Listener(pid, program, network, address, port)
                for inode, address, port in _listening(pid)
                if inode in inodes
            ]
    return sorted(set(found))


def _sockets(pid: int) -> Iterator[int]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                yield int(target[8:-1])


def _listening(pid: int) -> Iterator[tuple[int, str, int]]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    address, _, port = fields[1].partition(":")
                    yield int(fields[9]), _address(address), int(port, 16)


def _address(text: str) -> str:
    """The kernel prints 32-bit words in the order of this machine."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
