"""Ports for programs that can't choose one themselves."""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CHOICE = 12_000
# Not of the module's own generator, which Hypothesis seeds: two processes would choose the same ones.
_dice = random.SystemRandom()


def free_port() -> int:
    """A port that nobody has on this machine, and that nobody is given by chance before it is used.

    It is below those that the kernel hands out, also to each connection that somebody makes: one of those,
    free now, may be somebody's by the time a program listens on it.
    """
    given_from = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    lowest = max(1024, given_from - _CHOICE)
    for _ in range(1000):
        port = _dice.randrange(lowest, given_from)
        if _is_free(port):
            return port
    raise AssertionError(f"no port is free from {lowest} to {given_from}")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True
