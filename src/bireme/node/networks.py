"""Who finds whom: the names of a job's pods, and the networks of jobs.

| job | network of its pods |
|---|---|
| with service ports | each pod has an address of its own in a network of the job |
| MPI, on a machine with no network but loopback | the same: Open MPI refuses loopback |
| MPI, ColossalAI | all pods share a network of the job, if slirp4netns can lead out of it |
| any other, and with `hostNetwork` | the machine's |

mpirun, its daemons, ranks and torchrun's store listen on all addresses, and let in every client that knows a
few words; no setting of theirs makes them listen on loopback alone. So neither other machines nor other users
of this one may reach their ports. A network without a way out would do too, but programs that download
something would fail: without slirp4netns, such jobs stay in the machine's network.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

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
network.hold(sys.argv[2], user=sys.argv[3] == "user", uplink=sys.argv[4])
"""
_UPLINK: Final = "slirp4netns"
_RESOLVER: Final = "10.0.2.3"
"""Where slirp4netns answers for the machine's resolver."""
Sort = Literal["machine", "own", "shared"]
log = logging.getLogger(__name__)


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
        self._sorts: dict[str, Sort] = {}
        self._ended: set[str] = set()

    async def join(
        self, pod: Object, folder: PodFolder, job: Object | None, entry: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Give a pod its address and its name; return what its shim needs, None for the machine's network.

        `entry` is the command that runs another one in the user namespace that the network is to belong to;
        without one the network has its own.
        """
        job_uid = job["metadata"]["uid"] if job is not None else pod["metadata"]["uid"]
        place = await self._place(job_uid, job, folder, tuple(entry)) if job is not None else None
        member = Member(pod, folder, place.get("address", LOOPBACK) if place else LOOPBACK)
        members = self._members.setdefault(job_uid, {})
        members[pod["metadata"]["uid"]] = member
        self._introduce(job_uid, member)
        return place

    async def _place(
        self, job_uid: str, job: Object, folder: PodFolder, entry: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """What the shim of a pod needs to enter its job's network; None for the machine's."""
        async with self._locks.setdefault(job_uid, asyncio.Lock()):
            sort = self._sorts.setdefault(job_uid, self._choose(job, folder, entry))
            if sort == "machine":
                return None
            try:
                holder = await self._holder(job_uid, _uplink() if sort == "shared" else "", entry)
            except NetworkError as error:
                if sort == "own":
                    raise
                log.warning("%s: its pods are in the machine's network", error)
                self._sorts[job_uid] = "machine"
                return None
        user = self._machine.isolation == "user"
        if sort == "shared":
            _write_resolver(folder.path / "resolv.conf")
            return {"holder": holder, "user": user, "shared": True}
        address = self._address(job_uid, folder)
        port = f"v{address.rpartition('10.88.')[2].replace('.', 'x')}"
        return {"holder": holder, "user": user, "mounts": bool(entry), "address": address, "port": port}

    def _choose(self, job: Object, folder: PodFolder, entry: tuple[str, ...]) -> Sort:
        """Choose a job's network; for a pod that was started by an earlier daemon, what it was then."""
        if folder.orders.exists():
            network = shims.read_orders(folder).get("network")
            return "machine" if not network else "shared" if network.get("shared") else "own"
        if self._machine.isolation == "none":
            return "machine"
        # slirp4netns can't enter the user namespace of podman's containers.
        has_uplink = bool(_uplink()) and not entry
        return choose_network(job, is_connected=machine.is_connected(), has_uplink=has_uplink)

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

    def release(self, pod: Object) -> None:
        """End a job's network once all its pods have ended, though they are kept. Idempotent.

        A pod that comes later, as after a restart, gets a new one.
        """
        self._ended.add(pod["metadata"]["uid"])
        for job_uid, members in self._members.items():
            if pod["metadata"]["uid"] in members and self._ended.issuperset(members):
                self._end_holder(job_uid)

    def leave(self, pod: Object) -> None:
        """Forget a pod; the network of a job goes with its last one."""
        uid = pod["metadata"]["uid"]
        self._ended.discard(uid)
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

    async def _holder(self, job_uid: str, uplink: str, entry: tuple[str, ...]) -> int:
        folder = self._folder / job_uid
        if self._entries.setdefault(job_uid, entry) != entry:
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
            uplink,
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

    def _end_holder(self, job_uid: str) -> None:
        folder = self._folder / job_uid
        if (pid := _alive(folder)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in ("holder.json", "holder.json.new", "failed", "log"):
            (folder / name).unlink(missing_ok=True)

    def _end(self, job_uid: str) -> None:
        self._end_holder(job_uid)
        folder = self._folder / job_uid
        for path in folder.glob(f"{_HOSTS}*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        self._locks.pop(job_uid, None)
        self._entries.pop(job_uid, None)
        self._sorts.pop(job_uid, None)


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


def choose_network(job: Object, *, is_connected: bool, has_uplink: bool) -> Sort:
    """Choose the network of a new job; see the table above.

    `is_connected` tells whether the machine has a network beside loopback, `has_uplink` whether slirp4netns
    is installed.
    """
    spec = job.get("spec") or {}
    if job.get("kind") not in ("MPIJob", "ColossalAIJob"):
        return "own" if (spec.get("service") or {}).get("ports") else "machine"
    replicas = [spec.get("worker"), *(spec.get("mpiReplicaSpecs") or {}).values()]
    templates = [(each or {}).get("template") or {} for each in replicas]
    if any((template.get("spec") or {}).get("hostNetwork") for template in templates):
        return "machine"
    if not is_connected:
        return "own" if job.get("kind") == "MPIJob" else "machine"
    return "shared" if has_uplink else "machine"


def _uplink() -> str:
    """The path of slirp4netns; empty if it is not installed."""
    return shutil.which(_UPLINK) or ""


def _write_resolver(path: Path) -> None:
    """Write a pod's resolv.conf, if the machine's names a resolver on loopback: that is another one there."""
    try:
        lines = Path("/etc/resolv.conf").read_text().splitlines()
    except OSError:
        return
    servers = [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1]
    if any(server.startswith("127.") or server == "::1" for server in servers):
        kept = [line for line in lines if not line.startswith("nameserver")]
        path.write_text("\n".join([f"nameserver {_RESOLVER}", *kept]) + "\n")


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
