"""Ports that a pod wants and does not get: which, and whose they are.

Pods share this machine's network unless their job gives them addresses of their own. Programs seldom say
which port they could not have, so that of another process is told only if the pod's specification, or what
the pod said, mentions its number.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bireme.node.seen import Object
from bireme.node.shims import MARKER

_TAKEN: Final = ("ddress already in use", "EADDRINUSE")
_LISTENS: Final = "0A"
_MOST: Final = 3
_SOCKET: Final = "socket:["
_NUMBER: Final = re.compile(r"(?<![\w.])[1-9][0-9]{0,4}(?![\w.])")
_LONGEST_COMMAND: Final = 80


def explain_taken(said: str, fellows: Mapping[str, str], spec: Object, *, isolated: bool) -> str:
    """Why a pod that said this could not listen: who of its fellows, by UID and name, does so already.

    Else which other process does, on a port that `spec` mentions. Empty where it said nothing of the kind, or
    nobody is found.
    """
    if not any(words in said for words in _TAKEN):
        return ""
    held = list(_held_by(fellows))[:_MOST]
    if not held:
        return _explain_others(_mentioned(said, spec))
    told = " and ".join(f"port {port} is taken by {name}" for port, name in held)
    fix = (
        "name the port in spec.service.ports, and each replica has an address of its own"
        if isolated
        else "let each replica have a port of its own, or allow user namespaces on this machine"
    )
    return f"bireme: {told}: they share this machine's network\nhint: {fix}"


def _mentioned(said: str, spec: Object) -> set[int]:
    """The numbers that a pod mentions and that may be ports."""
    words = [said]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        words += [*(container.get("command") or ()), *(container.get("args") or ())]
        words += [str(each.get("value", "")) for each in container.get("env") or ()]
        words += [str(each.get("containerPort", "")) for each in container.get("ports") or ()]
    return {int(number) for word in words for number in _NUMBER.findall(word)}


def _explain_others(ports: set[int]) -> str:
    taken = [f"port {port} is taken by {owner}" for port, owner in _owners(ports)][:_MOST]
    if not taken:
        return ""
    fix = "stop that process, or use another port"
    return f"bireme: {' and '.join(taken)}, on this machine\nhint: {fix}"


def _owners(ports: set[int]) -> Iterator[tuple[int, str]]:
    """The ports of these on which a process listens, with its PID and command, as far as they may be seen."""
    listening = {inode: port for inode, port in _listening() if port in ports}
    owners = dict.fromkeys(sorted(listening.values()), "a process of another user")
    for process in Path("/proc").iterdir() if listening else ():
        with contextlib.suppress(OSError):
            held = {listening[each] for each in _sockets(process) if each in listening}
            for port in held if process.name.isdigit() else ():
                owners[port] = f"process {process.name} ({_command(process)})"
    return iter(owners.items())


def _command(process: Path) -> str:
    words = (process / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    text = " ".join(words)
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def _held_by(fellows: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The ports on which pods listen, with their names."""
    listening = dict(_listening())
    found: dict[tuple[int, str], None] = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            name = _fellow(process, fellows) if process.name.isdigit() else ""
            for inode in _sockets(process) if name else ():
                if inode in listening:
                    found[listening[inode], name] = None
    return iter(sorted(found))


def _listening() -> Iterator[tuple[str, int]]:
    """The inodes of sockets that listen, with their ports."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    yield fields[9], int(fields[1].rpartition(":")[2], 16)


def _fellow(process: Path, fellows: Mapping[str, str]) -> str:
    for entry in (process / "environ").read_bytes().split(b"\0"):
        name, _, value = entry.decode(errors="replace").partition("=")
        if name == MARKER:
            return fellows.get(value, "")
    return ""


def _sockets(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)  # noqa: PTH115 - no path, but a name
            if target.startswith(_SOCKET):
                yield target[len(_SOCKET) : -1]
