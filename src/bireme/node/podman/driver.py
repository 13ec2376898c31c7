"""Makes the orders for shims whose containers are podman's."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from bireme.api.names import RESERVED_PREFIX
from bireme.node.devices import VISIBLE, Devices, NoDeviceError
from bireme.node.driver import (
    CONFIG_ERROR,
    MESSAGE,
    OUTPUT_CAP,
    RUN_ERROR,
    UnstartableError,
    console,
    hostname,
    message_file,
    sub_path,
    written_volumes,
)
from bireme.node.environment import Sources, build_environment, expand
from bireme.node.folders import ROOT, NodeFolder, PodFolder
from bireme.node.machine import Machine
from bireme.node.open_files import caller_limit
from bireme.node.podman import attendant
from bireme.node.podman.arguments import Host, Image, Mount, Wanted, build_run, runs_as_root
from bireme.node.podman.callers import called_job, calling_job
from bireme.node.podman.images import Images, complaint
from bireme.node.podman.user_namespace import UserNamespace
from bireme.node.podman.variables import describe_refused, hand_over
from bireme.node.seen import Object, Problem
from bireme.node.shims import MARKER
from bireme.node.volumes import is_in_memory, tmpfs_sizes

PODMAN: Final = "podman"
AS_ROOT: Final = (
    "driver podman as root: a container that breaks out of podman is root on this machine; as an ordinary"
    " user, rootless podman is used"
)
_PROGRAMS: Final = "/bireme/bin"
_CALLS: Final = "/bireme/calls"
_HOSTS: Final = "/etc/hosts"
_HOST_NAME: Final = "/etc/hostname"
_PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from bireme.node.podman.attendant import main
main(sys.argv[2:])
"""
_ASK_SECONDS: Final = 60
_REMOVALS: Final = 10
_REMOVAL_SECONDS: Final = 0.5
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS")
_KEPT_PREFIXES: Final = ("XDG_", "CONTAINER", "STORAGE_", "REGISTRY_", "HTTP", "http", "NO_PROXY", "no_proxy")


class PodmanDriver:
    """Containers by podman. Raises UnstartableError, for good, where there is no podman that can be used."""

    def __init__(self, folder: NodeFolder, machine: Machine, devices: Devices) -> None:
        self._folder, self._machine, self._devices = folder, machine, devices
        self._env = own_environment(os.environ)
        self._podman = shutil.which(PODMAN, path=self._env.get("PATH", os.defpath)) or ""
        self._images = Images(self._podman, self._env)
        self._namespace = UserNamespace(self._podman, self._env, folder)
        self._holder = 0
        self._host: Host | None = None

    @property
    def is_rootless(self) -> bool:
        return self._machine.isolation == "user"

    @property
    def entry(self) -> tuple[str, ...]:
        """The command that runs another one in the namespaces of rootless podman; empty for root."""
        return (self._podman, "unshare") if self.is_rootless and self._podman else ()

    def pod_orders(self, pod: Object) -> dict[str, Any]:
        """What differs in the orders of a pod's shim if its containers are podman's.

        podman mounts for all pods, and gives each container what it shares with no other.
        """
        orders: dict[str, Any] = {"ipc": False, "tmpfs": {}, "user": False}
        if self.is_rootless:
            orders["joins"] = self._holder
        job = called_job(pod)
        return orders | ({"callable_by": job} if job else {})

    async def start_order(
        self,
        pod: Object,
        container: Object,
        attempt: int,
        folder: PodFolder,
        volumes: Mapping[str, Path],
        sources: Sources,
    ) -> dict[str, Any]:
        """The order that starts a container, once its image is there. Raises UnstartableError."""
        host = await self._find_host(container["name"])
        if self.is_rootless:
            self._holder = await self._namespace.holder(container["name"])
        image = await self._images.find(container, pod["metadata"]["uid"], attempt)
        _check(pod, container, image)
        place = _Place(folder, container, attempt)
        wanted = self._wanted(pod, container, place, volumes, sources, image)
        output = folder.output(container["name"], attempt)
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write(
            {
                "podman": self._podman,
                "podman_env": self._inner_env(),
                "name": wanted.name,
                "arguments": build_run(wanted, image, host),
                "env": hand_over(wanted.env).environment,
                "output": str(output),
                "tty": bool(container.get("tty")),
                "stop_signal": _number(image.stop_signal),
                "volumes": _volume_rights(pod, volumes),
                "sub_paths": [
                    {
                        "source": each.volume,
                        "sub_path": each.sub_path,
                        "is_written": each.is_written,
                        "place": each.source,
                    }
                    for each in wanted.mounts
                    if each.sub_path
                ],
                "calls": self._calls(pod, place),
            }
        )
        program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(ROOT)]
        return {
            "do": "start",
            "container": container["name"],
            "attempt": attempt,
            "argv": [*program, "run", str(place.order)],
            "env": self._env | {MARKER: pod["metadata"]["uid"]},
            "directory": "/",
            "output": str(output),
            "cap": OUTPUT_CAP,
            **console(container),
            "enter": [*program, "exec", str(place.order)],
            "kill": int(attendant.KILL),
            "notices": self._notices(container, host),
        }

    def _inner_env(self) -> dict[str, str]:
        """podman's environment below a shim: one that is in podman's namespaces already says so."""
        if not self.is_rootless:
            return self._env
        return self._env | {
            "_CONTAINERS_USERNS_CONFIGURED": "done",
            "_CONTAINERS_ROOTLESS_UID": str(os.getuid()),
            "_CONTAINERS_ROOTLESS_GID": str(os.getgid()),
        }

    def _calls(self, pod: Object, place: "_Place") -> dict[str, str] | None:
        """What the attendant of a launcher needs to serve calls; None for a pod that may call no other."""
        job = calling_job(pod)
        if not job:
            return None
        names = self._folder.names(pod["metadata"]["namespace"])
        return {
            "folder": str(place.calls),
            "job": job,
            "names": str(names),
            "pods": str(self._folder.path / "pods"),
        }

    def _notices(self, container: Object, host: Host) -> list[str]:
        limits = (container.get("resources") or {}).get("limits") or {}
        missing = [name for name in ("memory", "cpu") if name in limits and name not in host.controllers]
        notices = []
        if missing and not container["name"].startswith(RESERVED_PREFIX):
            what = " and ".join(missing)
            notices.append(f"limits of {what} are not applied: podman has no cgroup controller for them here")
        return notices if self.is_rootless else [*notices, AS_ROOT]

    async def _find_host(self, container: str) -> Host:
        if self._host is None:
            why = await self._look()
            if why:
                raise UnstartableError(Problem(RUN_ERROR, why, container, fatal=True))
        assert self._host is not None
        return self._host

    async def _look(self) -> str:
        """Find out what podman can do here; return why it can do nothing."""
        if not self._podman:
            return "the driver podman needs podman, which is not installed: install it, or use driver process"
        if self._machine.isolation == "none":
            return (
                "the driver podman needs user namespaces, which this machine does not allow: allow them, run"
                " the daemon as root, or use driver process"
            )
        told = await self._images.ask("info", "--format=json")
        if told.code != 0:
            return f"podman can't be used here: {complaint(told.error)}"
        info = json.loads(told.output)["host"]
        controllers = frozenset(info.get("cgroupControllers") or ())
        self._host = Host(controllers, own_limits(), max(64 << 20, self._machine.memory_bytes // 2))
        return ""

    def _wanted(
        self,
        pod: Object,
        container: Object,
        place: "_Place",
        volumes: Mapping[str, Path],
        sources: Sources,
        image: Image,
    ) -> Wanted:
        name, uid = container["name"], pod["metadata"]["uid"]
        message = container.get("terminationMessagePath") or MESSAGE
        own = {MARKER: uid, "BIREME_TERMINATION_LOG": message}
        try:
            seen = self._devices.environment(pod, container)
        except NoDeviceError as error:
            raise UnstartableError(Problem("ContainerCreating", str(error), name)) from error
        built = build_environment(pod, container, sources, {"PATH": image.path})
        if built.problems:
            raise UnstartableError(Problem(CONFIG_ERROR, "; ".join(built.problems), name))
        env = built.values | own | seen
        env["PATH"] = f"{_PROGRAMS}:{env['PATH']}"
        if refused := describe_refused(env):
            raise UnstartableError(Problem(CONFIG_ERROR, "; ".join(refused), name, fatal=True))
        mounts = self._mounts(pod, container, place, volumes, message, built.own)
        place.write_env(hand_over(env).render())
        return Wanted(
            name=place.name,
            pod=pod,
            container=container,
            command=expand(container.get("command") or (), built.own),
            args=expand(container.get("args") or (), built.own),
            env=env,
            mounts=mounts,
            pid_file=f"{place.order}.pid",
            env_file=str(place.env),
            gpus=[each for each in seen.get(VISIBLE, "").split(",") if each],
        )

    def _mounts(
        self,
        pod: Object,
        container: Object,
        place: "_Place",
        volumes: Mapping[str, Path],
        message: str,
        values: Mapping[str, str],
    ) -> list[Mount]:
        """Our own mounts, and those of the manifest.

        A container shares with us only files that are mount points, which it can't replace, and directories
        that it can't write to. The termination message is the one file of ours that it writes.
        """
        _check_target(container, "terminationMessagePath", message)
        place.make()
        place.host_name.write_text(f"{hostname(pod)}\n")
        place.host_name.chmod(0o644)
        ours = [
            Mount(str(place.message), message),
            Mount(str(place.programs), _PROGRAMS, read_only=True),
            Mount(str(place.host_name), _HOST_NAME, read_only=True),
        ]
        if calling_job(pod):
            ours.append(Mount(str(place.calls), _CALLS, read_only=True))
        if (hosts := place.folder.path / "hosts").exists():
            hosts.chmod(0o644)
            ours.append(Mount(str(hosts), _HOSTS, read_only=True))
        if (resolver := place.folder.path / "resolv.conf").exists():
            resolver.chmod(0o644)
            ours.append(Mount(str(resolver), "/etc/resolv.conf", read_only=True))
        theirs = [*self._volume_mounts(pod, container, place, volumes, values)]
        taken = {each.target for each in theirs}
        return [*(each for each in ours if each.target not in taken), *theirs]

    def _volume_mounts(
        self,
        pod: Object,
        container: Object,
        place: "_Place",
        volumes: Mapping[str, Path],
        values: Mapping[str, str],
    ) -> Iterator[Mount]:
        shared, sizes = shared_tmpfs(pod), tmpfs_sizes(pod, self._machine.allocatable())
        written = written_volumes(pod)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            name, target = mount["name"], mount["mountPath"]
            _check_target(container, "mountPath", target)
            # As on a cluster, nothing that the node agent writes can be written to.
            read_only = bool(mount.get("readOnly")) or name in written
            if name in sizes and name not in shared:
                yield Mount("", target, read_only, sizes[name])
                continue
            volume = volumes[name]
            part = sub_path(container, mount, volume, values, is_written=name in written, mode=0o777)
            source = str(place.part(number)) if part else str(volume)
            yield Mount(source, target, read_only, 0, str(volume), part, name in written)


def shared_tmpfs(pod: Object) -> list[str]:
    """The emptyDirs with `medium: Memory` that can't be a tmpfs of podman's: it belongs to one mount."""
    spec = pod["spec"]
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    mounts = [mount for container in every for mount in container.get("volumeMounts") or ()]
    mounted = [mount["name"] for mount in mounts]
    parts = {mount["name"] for mount in mounts if mount.get("subPath") or mount.get("subPathExpr")}
    names = [volume["name"] for volume in spec.get("volumes") or () if is_in_memory(volume)]
    return [name for name in names if mounted.count(name) > 1 or name in parts]


def describe_shared_tmpfs(pod: Object) -> list[str]:
    """What to say of emptyDirs that are not memory as the pod says."""
    return [
        f"emptyDir {name}: several mounts share it, so with podman it is a folder on disk, without sizeLimit"
        for name in shared_tmpfs(pod)
    ]


class _Place:
    """The files of one attempt at a container."""

    def __init__(self, folder: PodFolder, container: Object, attempt: int) -> None:
        self.folder = folder
        self.name = f"bireme-{folder.path.name}-{container['name']}-{attempt}"
        self.order = _files(folder) / f"{container['name']}.{attempt}"
        self.calls = _files(folder) / f"{container['name']}.{attempt}.calls"
        self.env = _files(folder) / f"{container['name']}.{attempt}.env"
        self.message = message_file(folder, container["name"], attempt)
        self.programs = _files(folder) / "bin"
        self.host_name = _files(folder) / "hostname"

    def part(self, number: int) -> Path:
        """Where the attendant mounts the subPath of a container's mount."""
        return _files(self.folder) / f"{self.order.name}.parts" / str(number)

    def make(self) -> None:
        """Whoever the container runs as must get at them; the folder around them is closed to others."""
        self.programs.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.message.touch()
        self.message.chmod(0o666)
        agent = self.programs / "bireme-agent"
        agent.write_text((files("bireme.node.podman") / "bireme-agent").read_text())
        agent.chmod(0o755)

    def write_env(self, text: str) -> None:
        _write_private(self.env, text)

    def write(self, order: dict[str, Any]) -> None:
        """It holds what is secret."""
        _write_private(self.order, json.dumps(order))


def _write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone; all at once, as an attendant may be reading it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", errors="surrogateescape") as file:
        file.write(text)
    new.replace(path)


def _files(folder: PodFolder) -> Path:
    return folder.path / PODMAN


def is_used(folder: PodFolder) -> bool:
    """Whether podman has, or had, containers of a pod."""
    return _files(folder).is_dir()


def read_result(folder: PodFolder, container: str, attempt: int) -> dict[str, Any]:
    """What an attendant learnt at the end of its container: `oom`, `error`."""
    try:
        result: dict[str, Any] = json.loads((_files(folder) / f"{container}.{attempt}.result").read_text())
    except (OSError, ValueError):
        return {}
    return result


def containers(folder: PodFolder) -> list[str]:
    """The names of the containers that a pod has, or had, at podman."""
    orders = [path for path in _files(folder).glob("*.*") if path.suffix[1:].isdigit()]
    return [f"bireme-{folder.path.name}-{path.stem}-{path.suffix[1:]}" for path in orders]


def remove(names: Sequence[str]) -> None:
    """Take these containers away, if they are there."""
    env = own_environment(os.environ)
    podman = shutil.which(PODMAN, path=env.get("PATH", os.defpath))
    if not podman or not names:
        return
    command = [podman, "rm", "--force", "--ignore", "--volumes", "--time=0", *names]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        # podman fails on a container whose monitor was just killed, until it has seen that.
        for _ in range(_REMOVALS):
            done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=_ASK_SECONDS)  # noqa: S603
            if done.returncode == 0:
                return
            time.sleep(_REMOVAL_SECONDS)


def remove_folder(folder: PodFolder) -> None:
    """Remove a pod's folder. Idempotent.

    Containers of rootless podman leave files of users that only podman's user namespace knows.
    """
    had_podman = is_used(folder)
    folder.remove()
    env = own_environment(os.environ)
    podman = shutil.which(PODMAN, path=env.get("PATH", os.defpath))
    if podman and had_podman and os.getuid() != 0 and folder.path.exists():
        command = [podman, "unshare", "rm", "-rf", "--", str(folder.path)]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, env=env, capture_output=True, check=False, timeout=_ASK_SECONDS)  # noqa: S603


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What podman needs of the daemon's environment."""
    return {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def own_limits() -> tuple[str, ...]:
    """The limits that this process was started with.

    Those that podman would set by itself may need a right that is not given.
    """
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    files_, processes = caller_limit(), resource.getrlimit(resource.RLIMIT_NPROC)
    return (_limit("nofile", files_, 1 << 20), _limit("nproc", processes, most))


def _limit(name: str, pair: Sequence[int], most: int) -> str:
    soft, hard = (most if each < 0 else min(each, most) for each in pair)
    return f"{name}={soft}:{hard}"


def _check(pod: Object, container: Object, image: Image) -> None:
    name, own = container["name"], container.get("securityContext") or {}
    of_pod = pod["spec"].get("securityContext") or {}
    if {**of_pod, **own}.get("runAsNonRoot") and runs_as_root(own, of_pod, image):
        message = "container has runAsNonRoot and would run as root: set runAsUser, or use another image"
        raise UnstartableError(Problem(CONFIG_ERROR, message, name))
    if not container.get("command") and not (image.has_command or container.get("args")):
        message = f"container {name} has no command, and its image {container['image']} has none either"
        raise UnstartableError(Problem(RUN_ERROR, message, name, fatal=True))


def _check_target(container: Object, field: str, target: str) -> None:
    """As on a cluster; podman would read more into such a path."""
    if not target.startswith("/") or ":" in target or "\n" in target:
        message = f"container {container['name']}: {field} {target!r} must be an absolute path without ':'"
        raise UnstartableError(Problem(CONFIG_ERROR, message, container["name"], fatal=True))


def _volume_rights(pod: Object, volumes: Mapping[str, Path]) -> list[dict[str, Any]]:
    """As on a cluster: whoever a container runs as writes into an emptyDir, and reads by way of fsGroup."""
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    rights = []
    for volume in pod["spec"].get("volumes") or ():
        is_of_others = any(kind in volume for kind in ("hostPath", "persistentVolumeClaim"))
        mode = (0o777 if group is None else 0o2777) if "emptyDir" in volume else None
        shared = None if is_of_others else group
        if mode is not None or shared is not None:
            rights.append({"path": str(volumes[volume["name"]]), "mode": mode, "group": shared})
    return rights


def _number(name: str) -> int:
    """A signal's number, by any of its names; 0 for none."""
    if name.isdigit():
        return int(name)
    known = signal.Signals.__members__
    return int(known[full]) if (full := f"SIG{name.removeprefix('SIG')}") in known else 0
