"""Network interfaces by netlink: a bridge, pairs of interfaces, addresses."""

import os
import socket
import struct
from typing import Final

_RTM_NEWLINK, _RTM_SETLINK, _RTM_NEWADDR = 16, 19, 20
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR: Final = 2
_IFNAME, _MASTER, _LINKINFO, _NETNS_PID = 3, 10, 18, 19
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_UP: Final = 0x1
_HEADER: Final = struct.Struct("=LHHLL")
_LINK: Final = struct.Struct("=BxHiII")
_ADDRESS: Final = struct.Struct("=BBBBI")


class Netlink:
    """A way to the interfaces of the network namespace in which it was made."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._number = 0

    def close(self) -> None:
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        self._new_link(_text(_IFNAME, name) + _nested(_LINKINFO, _text(_INFO_KIND, "bridge")))

    def add_pair(self, name: str, peer: str, peer_pid: int) -> None:
        """A pair of interfaces, the other of which appears in the namespace of a process."""
        other = _LINK.pack(0, 0, 0, 0, 0) + _text(_IFNAME, peer) + _number(_NETNS_PID, peer_pid)
        info = _text(_INFO_KIND, "veth") + _nested(_INFO_DATA, _attribute(_VETH_PEER, other))
        self._new_link(_text(_IFNAME, name) + _nested(_LINKINFO, info))

    def raise_up(self, name: str) -> None:
        self._ask(_RTM_SETLINK, 0, _LINK.pack(0, 0, socket.if_nametoindex(name), _UP, _UP))

    def raise_named(self, name: str, master: int) -> None:
        """The same by names and numbers of a namespace that this process is no longer in."""
        body = _LINK.pack(0, 0, 0, _UP, _UP) + _text(_IFNAME, name) + _number(_MASTER, master)
        self._ask(_RTM_SETLINK, 0, body)

    def add_address(self, name: str, address: str, prefix: int) -> None:
        packed = socket.inet_aton(address)
        body = _ADDRESS.pack(socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
        body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
        self._ask(_RTM_NEWADDR, _CREATE | _EXCLUSIVE, body)

    def _new_link(self, attributes: bytes) -> None:
        self._ask(_RTM_NEWLINK, _CREATE | _EXCLUSIVE, _LINK.pack(0, 0, 0, 0, 0) + attributes)

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._number += 1
        size = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(size, kind, _REQUEST | _ACK | flags, self._number, 0) + body)
        answer = self._socket.recv(65536)
        _, answered, _, _, _ = _HEADER.unpack_from(answer)
        (code,) = struct.unpack_from("=i", answer, _HEADER.size)
        if answered == _ERROR and code:
            raise OSError(-code, os.strerror(-code))


def _attribute(kind: int, data: bytes) -> bytes:
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + b"\0" * (-size % 4)


def _nested(kind: int, data: bytes) -> bytes:
    return _attribute(kind | 0x8000, data)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return _attribute(kind, struct.pack("=I", number))
