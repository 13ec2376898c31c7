"""Makes the orders for shims whose containers are podman's."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

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
)
from bireme.node.environment import Sources, build_environment, expand
from bireme.node.folders import ROOT, NodeFolder, PodFolder
from bireme.node.machine import Machine
from bireme.node.podman import attendant
from bireme.node.podman.arguments import Host, Image, Mount, Wanted, build_run, handed_over, runs_as_root
from bireme.node.podman.calls import BELL, VARIABLE
from bireme.node.podman.images import Images, complaint
from bireme.node.seen import Object, Problem
from bireme.node.shims import MARKER
from bireme.node.volumes import is_in_memory, tmpfs_sizes

PODMAN: Final = "podman"
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
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS")
_KEPT_PREFIXES: Final = ("XDG_", "CONTAINER", "STORAGE_", "REGISTRY_", "HTTP", "http", "NO_PROXY", "no_proxy")


class PodmanDriver:
    """Containers by podman. Raises UnstartableError, for good, where there is no podman that can be used."""

    def __init__(self, folder: NodeFolder, machine: Machine, devices: Devices) -> None:
        self._folder, self._machine, self._devices = folder, machine, devices
        self._env = own_environment(os.environ)
        self._podman = shutil.which(PODMAN, path=self._env.get("PATH", os.defpath)) or ""
        self._images = Images(self._podman, self._env)
        self._host: Host | None = None

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
        image = await self._images.find(container, pod["metadata"]["uid"], attempt)
        _check(pod, container, image)
        place = _Place(folder, container, attempt)
        wanted = self._wanted(pod, container, place, volumes, sources, image)
        output = folder.output(container["name"], attempt)
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write(
            {
                "podman": self._podman,
                "podman_env": self._env,
                "name": wanted.name,
                "arguments": build_run(wanted, image, host),
                "env": handed_over(wanted.env),
                "output": str(output),
                "tty": bool(container.get("tty")),
                "stop_signal": _number(image.stop_signal),
                "calls": str(place.calls),
                "pods": str(self._folder.names(pod["metadata"]["namespace"])),
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
            "notices": [],
        }

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
        if self._machine.isolation != "root":
            return (
                "the driver podman needs root on this machine: run the daemon as root, or use driver process"
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
        own = {MARKER: uid, VARIABLE: _CALLS, "BIREME_TERMINATION_LOG": message}
        try:
            seen = self._devices.environment(pod, container)
        except NoDeviceError as error:
            raise UnstartableError(Problem("ContainerCreating", str(error), name)) from error
        built = build_environment(pod, container, sources, {"PATH": image.path})
        if built.problems:
            raise UnstartableError(Problem(CONFIG_ERROR, "; ".join(built.problems), name))
        env = built.values | own | seen
        env["PATH"] = f"{_PROGRAMS}:{env['PATH']}"
        return Wanted(
            name=place.name,
            pod=pod,
            container=container,
            command=expand(container.get("command") or (), built.own),
            args=expand(container.get("args") or (), built.own),
            env=env,
            mounts=self._mounts(pod, container, place, volumes, message),
            pid_file=f"{place.order}.pid",
            gpus=[each for each in seen.get(VISIBLE, "").split(",") if each],
        )

    def _mounts(
        self, pod: Object, container: Object, place: "_Place", volumes: Mapping[str, Path], message: str
    ) -> list[Mount]:
        place.make()
        mounts = [
            Mount(str(place.message), message),
            Mount(str(place.calls), _CALLS),
            Mount(str(place.programs), _PROGRAMS, read_only=True),
        ]
        place.host_name.write_text(f"{hostname(pod)}\n")
        place.host_name.chmod(0o644)
        mounts.append(Mount(str(place.host_name), _HOST_NAME))
        own = len(mounts)
        if (hosts := place.folder.path / "hosts").exists():
            hosts.chmod(0o644)
            mounts.append(Mount(str(hosts), _HOSTS))
        _open_volumes(pod, volumes)
        shared, sizes = shared_tmpfs(pod), tmpfs_sizes(pod, self._machine.allocatable())
        for mount in container.get("volumeMounts") or ():
            target, read_only = mount["mountPath"], bool(mount.get("readOnly"))
            if mount["name"] in sizes and mount["name"] not in shared:
                mounts.append(Mount("", target, read_only, sizes[mount["name"]]))
                continue
            source = volumes[mount["name"]] / sub_path(pod, container, mount)
            if not source.exists():
                source.mkdir(mode=0o777, parents=True)
            mounts.append(Mount(str(source), target, read_only))
        taken = {each.target for each in mounts[own:]}
        return [each for each in mounts if each in mounts[own:] or each.target not in taken]


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
        self.calls = _files(folder) / f"{container['name']}.calls"
        self.message = message_file(folder, container["name"], attempt)
        self.programs = _files(folder) / "bin"
        self.host_name = _files(folder) / "hostname"

    def make(self) -> None:
        """Whoever the container runs as must get at them; the folder around them is closed to others."""
        for folder in (self.calls, self.programs):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.calls.chmod(0o1777)
        bell = self.calls / BELL
        if not bell.exists():
            os.mkfifo(bell)
        bell.chmod(0o666)
        self.message.touch()
        self.message.chmod(0o666)
        agent = self.programs / "bireme-agent"
        agent.write_text((files("bireme.node.podman") / "bireme-agent").read_text())
        agent.chmod(0o755)

    def write(self, order: dict[str, Any]) -> None:
        """It holds what is secret."""
        self.order.unlink(missing_ok=True)
        with os.fdopen(os.open(self.order, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            json.dump(order, file)


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
    if podman and names:
        command = [podman, "rm", "--force", "--ignore", "--volumes", "--time=0", *names]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, env=env, capture_output=True, check=False, timeout=_ASK_SECONDS)  # noqa: S603


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What podman needs of the daemon's environment."""
    return {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def own_limits() -> tuple[str, ...]:
    """This process's own limits: those that podman would set may need a right that is not given."""
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    files_, processes = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_NPROC)
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


def _open_volumes(pod: Object, volumes: Mapping[str, Path]) -> None:
    """As on a cluster: whoever a container runs as writes into an emptyDir, and reads by way of fsGroup."""
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    for volume in pod["spec"].get("volumes") or ():
        place = volumes[volume["name"]]
        if "emptyDir" in volume:
            place.chmod(0o777 if group is None else 0o2777)
        if group is not None and not any(kind in volume for kind in ("hostPath", "persistentVolumeClaim")):
            for path in (place, *place.rglob("*")):
                os.chown(path, -1, group, follow_symlinks=False)
                if path.is_file() and not path.is_symlink():
                    path.chmod(path.stat().st_mode | 0o040)


def _number(name: str) -> int:
    """A signal's number, by any of its names; 0 for none."""
    if name.isdigit():
        return int(name)
    known = signal.Signals.__members__
    return int(known[full]) if (full := f"SIG{name.removeprefix('SIG')}") in known else 0
