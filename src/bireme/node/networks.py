"""Who finds whom: the names of a job's pods, and, for jobs with services, a network of their own.

All pods share the machine's network unless their job has service ports: then replicas that listen on the same
port must not be in each other's way, and each gets an address in a network of the job. So do the pods of an
MPI job where the machine has no network but loopback.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bireme.node import machine, shims
from bireme.node.driver import hostname, write_hosts
from bireme.node.folders import ROOT, PodFolder
from bireme.node.machine import Machine
from bireme.node.ports import explain_taken
from bireme.node.seen import Object
from bireme.node.shim.records import boot_id
from bireme.node.shim.tree import read_process
from bireme.node.shims import ShimError

LOOPBACK: Final = "127.0.0.1"
_HOSTS: Final = "hosts"
_FIRST, _LAST = 2, 65_000
_PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from bireme.node.shim import kernel, network
kernel.detach()
network.hold(sys.argv[2], user=sys.argv[3] == "user")
"""


class NetworkError(Exception):
    """A network can't be made; the message says why."""


class Member(NamedTuple):
    """A pod in its job."""

    pod: Object
    folder: PodFolder
    address: str


class Networks:
    """The names and networks of all jobs on this node."""

    def __init__(self, folder: Path, here: Machine) -> None:
        self._folder, self._machine = folder, here
        self._members: dict[str, dict[str, Member]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._entries: dict[str, tuple[str, ...]] = {}

    async def join(
        self, pod: Object, folder: PodFolder, job: Object | None, entry: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Give a pod its address and its name; return what its shim needs, None for the machine's network.

        `entry` is the command that runs another one in the user namespace that the network is to belong to;
        without one the network has its own.
        """
        job_uid = job["metadata"]["uid"] if job is not None else pod["metadata"]["uid"]
        place: dict[str, Any] | None = None
        if job is not None and self._machine.isolation != "none" and _needs_network(job):
            async with self._locks.setdefault(job_uid, asyncio.Lock()):
                holder = await self._holder(job_uid, entry)
            address = self._address(job_uid, folder)
            port = f"v{address.rpartition('10.88.')[2].replace('.', 'x')}"
            user = self._machine.isolation == "user"
            place = {"holder": holder, "user": user, "mounts": bool(entry), "address": address, "port": port}
        member = Member(pod, folder, place["address"] if place else LOOPBACK)
        members = self._members.setdefault(job_uid, {})
        members[pod["metadata"]["uid"]] = member
        self._introduce(job_uid, member)
        return place

    def address(self, pod: Object) -> str:
        """The address of a pod that has joined."""
        uid = pod["metadata"]["uid"]
        for members in self._members.values():
            if uid in members:
                return members[uid].address
        return LOOPBACK

    def explain(self, pod: Object, said: str) -> str:
        """Why a pod that said this could not listen, where another of its job is in its way; else empty."""
        uid = pod["metadata"]["uid"]
        for members in self._members.values():
            if uid in members and members[uid].address == LOOPBACK:
                names = {other: hostname(member.pod) for other, member in members.items() if other != uid}
                return explain_taken(said, names, pod["spec"], isolated=self._machine.isolation != "none")
        return ""

    def fellows(self, pod: Object) -> list[Member]:
        """The other pods of a pod's job."""
        uid = pod["metadata"]["uid"]
        found = next((members for members in self._members.values() if uid in members), {})
        return [member for other, member in found.items() if other != uid]

    def leave(self, pod: Object) -> None:
        """Forget a pod; the network of a job goes with its last one."""
        uid = pod["metadata"]["uid"]
        for job_uid, members in list(self._members.items()):
            if members.pop(uid, None) is not None:
                self._write_hosts(job_uid)
            if not members:
                del self._members[job_uid]
                self._end(job_uid)

    def clear(self, known_jobs: set[str]) -> None:
        """End the networks of jobs that nobody knows any more."""
        for path in self._folder.glob("*"):
            if path.name not in known_jobs and path.name not in self._members:
                self._end(path.name)

    def _introduce(self, job_uid: str, member: Member) -> None:
        """Let a pod and its fellows find one another.

        They share one file by links, or the names of a large job would be written as often as it has pairs.
        Pods with other hostAliases have another file.
        """
        own = member.folder.path / "hosts"
        with contextlib.suppress(OSError):
            if not _is_named(member):
                write_hosts(own, {hostname(member.pod): LOOPBACK}, _aliases(member.pod))
                return
            shared = self._folder / job_uid / _hosts_name(_aliases(member.pod))
            shared.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if own.exists() and not shared.exists():
                shared.hardlink_to(own)
            self._write_hosts(job_uid)
            if not own.exists():
                _link(own, shared)

    def _write_hosts(self, job_uid: str) -> None:
        members = self._members.get(job_uid, {}).values()
        entries = {hostname(member.pod): member.address for member in members if _is_named(member)}
        aliases = {_hosts_name(each): each for each in (_aliases(member.pod) for member in members)}
        for name, lines in aliases.items() if entries else ():
            with contextlib.suppress(OSError):
                write_hosts(self._folder / job_uid / name, entries, lines)

    def _address(self, job_uid: str, folder: PodFolder) -> str:
        """The one that the pod had, or one that is free."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            had: str = json.loads(folder.orders.read_text())["network"]["address"]
            return had
        taken = {member.address for member in self._members.get(job_uid, {}).values()}
        for number in range(_FIRST, _LAST):
            address = f"10.88.{number // 250}.{number % 250 + 1}"
            if address not in taken:
                return address
        raise NetworkError("the network of the job is full")

    # ---- holders

    async def _holder(self, job_uid: str, entry: Sequence[str]) -> int:
        folder = self._folder / job_uid
        if self._entries.setdefault(job_uid, tuple(entry)) != tuple(entry):
            raise NetworkError(
                "pods of the drivers process and podman can't share the network of a job that an ordinary"
                " user runs: choose one driver for all of its pods"
            )
        if (pid := _alive(folder)) is not None:
            return pid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("holder.json", "failed"):
            (folder / name).unlink(missing_ok=True)
        command = [
            *entry,
            sys.executable,
            "-I",
            "-S",
            "-c",
            _PROGRAM,
            str(ROOT),
            str(folder),
            "podman" if entry else self._machine.isolation,
        ]
        with (folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        await process.wait()
        try:
            await shims.wait_for(folder / "holder.json", folder / "failed")
        except ShimError as error:
            raise NetworkError(f"the network of the job can't be made: {error}") from error
        if (pid := _alive(folder)) is None:
            raise NetworkError("the network of the job is gone at once")
        return pid

    def _end(self, job_uid: str) -> None:
        folder = self._folder / job_uid
        if (pid := _alive(folder)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in ("holder.json", "holder.json.new", "failed", "log"):
            (folder / name).unlink(missing_ok=True)
        for path in folder.glob(f"{_HOSTS}*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        self._locks.pop(job_uid, None)
        self._entries.pop(job_uid, None)


def _aliases(pod: Object) -> list[Object]:
    return pod["spec"].get("hostAliases") or []


def _hosts_name(aliases: list[Object]) -> str:
    """The name of the file that pods with these hostAliases share."""
    if not aliases:
        return _HOSTS
    return f"{_HOSTS}-{hashlib.sha256(json.dumps(aliases, sort_keys=True).encode()).hexdigest()[:16]}"


def _link(place: Path, target: Path) -> None:
    """Some file systems have no links: a pod's names are then those of when it began."""
    try:
        place.hardlink_to(target)
    except OSError:
        place.write_bytes(target.read_bytes())


def _is_named(member: Member) -> bool:
    # mpirun 4.1 takes a worker whose name leads to loopback for itself. It needs no names to reach one.
    return member.address != LOOPBACK or not _is_of_mpi(member.pod)


def _is_of_mpi(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "MPIJob" for owner in owners)


def _needs_network(job: Object) -> bool:
    """Whether a job has services, or is MPI's on a machine without a network: Open MPI shuns loopback."""
    if job.get("kind") == "MPIJob":
        return not machine.is_connected()
    return bool(((job.get("spec") or {}).get("service") or {}).get("ports"))


def _alive(folder: Path) -> int | None:
    """The holder of a network, if it is still the one that wrote itself down."""
    try:
        record = json.loads((folder / "holder.json").read_text())
    except (OSError, ValueError):
        return None
    process = read_process(record["pid"])
    is_same = process is not None and process.start == record["start"] and not process.is_zombie
    pid: int = record["pid"]
    return pid if is_same and record["boot"] == boot_id() else None
