"""Pods as processes of this machine: what their containers are started with.

An image is not looked at: programs, PATH and HOME are those of whoever started the node.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bireme.api.names import WORKER_TYPE
from bireme.node.cgroups import Limits, Made
from bireme.node.cpus import read_cores, share
from bireme.node.devices import VISIBLE, Devices, NoDeviceError
from bireme.node.environment import Sources, build_environment, expand
from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.ignored_fields import SHARED_MEMORY
from bireme.node.machine import Machine
from bireme.node.remote_shell import ONE_NAME, PODS
from bireme.node.seen import Object, Problem
from bireme.node.shims import MARKER
from bireme.node.submitter import (
    DIRECTORY,
    DRIVER,
    PATH,
    SUBMITTER,
    Submitter,
    load,
    lowered_limits,
    merge_variables,
)
from bireme.node.substitutes import NOTHING, Needs, Substitutes, needs_of
from bireme.node.volumes import VolumeError, find_sub_path, is_in_memory, is_written, tmpfs_sizes
from bireme.planning.identity import REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL

CONFIG_ERROR: Final = "CreateContainerConfigError"
RUN_ERROR: Final = "RunContainerError"
OUTPUT_CAP: Final = 256 << 20
MESSAGE: Final = "/dev/termination-log"
"""Where a container writes why it ends, unless it says otherwise."""
_OURS: Final = "bireme-"
# Workers that share a host name share what Open MPI names after it: shared memory of theirs gets mixed up.
_ONE_NAME: Final = {"OMPI_MCA_btl": "self,tcp", ONE_NAME: "1"}


class Origin(NamedTuple):
    """Where a job comes from, as its annotations say, and what it needs; empty for the node's own."""

    directory: str = ""
    path: str = ""
    needs: Needs = NOTHING
    driver: str = ""
    submitter: str = ""
    """The hash of its submitter's environment, umask and limits."""


_NODE: Final = Origin()


def read_origin(job: Object | None) -> Origin:
    """Read the origin of a job from its annotations; of a pod without a job it is the node."""
    if job is None:
        return _NODE
    annotations = job["metadata"].get("annotations") or {}
    values = [annotations.get(name, "") for name in (DIRECTORY, PATH, DRIVER, SUBMITTER)]
    directory, path, driver, submitter = values
    return Origin(directory, path, needs_of(job), driver, submitter)


class UnstartableError(Exception):
    """A container can't be started now, or, if the problem is fatal, ever."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class ProcessDriver:
    """Makes the orders for shims."""

    def __init__(
        self, folder: NodeFolder, machine: Machine, environment: Mapping[str, str], directory: Path
    ) -> None:
        self._folder, self._machine = folder, machine
        self.limits = Limits()
        self.devices = Devices(machine.gpus)
        self._environment, self._directory = dict(environment), directory
        self._path = self._environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")

    @property
    def can_mount(self) -> bool:
        return self._machine.isolation != "none"

    def pod_orders(self, pod: Object, network: dict[str, Any] | None) -> dict[str, Any]:
        """What the shim of a pod makes before any container."""
        if not self.can_mount:
            return {}
        orders: dict[str, Any] = {"hostname": hostname(pod), "user": self._machine.isolation == "user"}
        orders |= {"ipc": not pod["spec"].get("hostIPC"), "message": MESSAGE}
        if sizes := tmpfs_sizes(pod, self._machine.allocatable()):
            folder = self._folder.pod(pod["metadata"]["uid"]).volumes
            orders["tmpfs"] = {str(folder / name): size for name, size in sizes.items()}
        return orders if network is None else orders | {"network": network}

    def start_order(
        self,
        pod: Object,
        container: Object,
        attempt: int,
        folder: PodFolder,
        volumes: Mapping[str, Path],
        sources: Sources,
        origin: Origin = _NODE,
    ) -> dict[str, Any]:
        """The order that starts a container; its `notices` are not the shim's. Raises UnstartableError."""
        name = container["name"]
        own = self._own_variables(pod, container, attempt, folder)
        own["PATH"] = origin.path or self._path
        try:
            own |= self.devices.environment(pod, container)
        except NoDeviceError as error:
            raise UnstartableError(Problem("ContainerCreating", str(error), name)) from error
        submitter = self._submitter(origin, name)
        base = merge_variables(self._environment, submitter) if submitter else self._environment
        built = build_environment(pod, container, sources, {**base, **own})
        if built.problems:
            raise UnstartableError(Problem(CONFIG_ERROR, "; ".join(built.problems), name))
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        if not container.get("command"):
            message = f"container {name} has no command, and without its image there is none to take"
            raise UnstartableError(Problem(RUN_ERROR, message, name, fatal=True))
        argv, env = expand(words, built.own), built.values | _kept(own)
        env["PATH"] = f"{self._folder.programs}:{env['PATH']}"
        last_words = message_file(folder, name, attempt)
        mounts = self._mounts(pod, container, volumes, folder, last_words, built.own)
        found, here = Substitutes([each["target"] for each in mounts]), self._start_directory(origin)
        directory = found.directory(container.get("workingDir") or "", here)
        argv, env = found.words(argv, origin.needs), found.variables(env, directory)
        found.login(origin.needs)
        if not self.can_mount:
            moved = self._moved(container, volumes)
            argv = [_replaced(word, moved) for word in argv]
            env = {key: _replaced(value, moved) for key, value in env.items()}
        output = folder.output(name, attempt)
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # As with a kubelet, it is there before the container: scripts write to it if they can.
        last_words.touch(mode=0o600)
        scratch = folder.path / "root"
        scratch.mkdir(mode=0o755, exist_ok=True)
        cpus = self._worker_cpus(pod, origin.needs)
        held = self._hold(pod, container, attempt, cpus)
        found.limits(container, held.missing)
        found.binding(has_cpus=held.has_cpus)
        found.services(origin.needs, can_mount=self.can_mount)
        if submitter is not None:
            found.ulimits(lowered_limits(submitter))
        return {
            "do": "start",
            "container": name,
            "attempt": attempt,
            "argv": argv,
            "env": env,
            "directory": directory,
            "output": str(output),
            "cap": OUTPUT_CAP,
            "mounts": mounts,
            "scratch": str(scratch),
            "cgroups": held.folders,
            **_inherited(submitter),
            **console(container),
            "notices": found.notices,
        }

    def _worker_cpus(self, pod: Object, needs: Needs) -> str:
        """The CPUs of a worker whose ranks mpirun binds to CPUs; empty for all there are."""
        labels = pod["metadata"].get("labels") or {}
        index = labels.get(REPLICA_INDEX_LABEL, "")
        if needs.binding_workers < 2 or labels.get(REPLICA_TYPE_LABEL) != WORKER_TYPE or not index.isdigit():
            return ""
        return share(read_cores(os.sched_getaffinity(0)), int(index), needs.binding_workers)

    def _hold(self, pod: Object, container: Object, attempt: int, cpus: str) -> Made:
        """Each attempt has cgroups of its own: what the kernel counts in them is what happened to it."""
        prefix = f"{pod['metadata']['uid']}-{container['name']}"
        self.limits.remove(f"{prefix}-{attempt - 1}")
        return self.limits.make(f"{prefix}-{attempt}", container.get("resources") or {}, cpus)

    def _own_variables(
        self, pod: Object, container: Object, attempt: int, folder: PodFolder
    ) -> dict[str, str]:
        metadata = pod["metadata"]
        temporary = folder.path / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        return (_ONE_NAME if not self.can_mount else {}) | {
            "HOSTNAME": hostname(pod),
            "TMPDIR": str(temporary),
            MARKER: metadata["uid"],
            PODS: str(self._folder.names(metadata["namespace"])),
            "BIREME_TERMINATION_LOG": str(message_file(folder, container["name"], attempt)),
        }

    def _submitter(self, origin: Origin, container: str) -> Submitter | None:
        """The submitter that a job names, None if it names none. Raises UnstartableError if it is gone."""
        if not origin.submitter:
            return None
        submitter = load(self._folder.data, origin.submitter)
        if submitter is None:
            message = f"the environment of the job's submitter ({origin.submitter[:12]}) is not here any more"
            raise UnstartableError(Problem(CONFIG_ERROR, f"{message}: submit the job again", container))
        return submitter

    def _start_directory(self, origin: Origin) -> str:
        """The submitter's, if it is there; else the node's own."""
        there = os.path.isdir(origin.directory)  # noqa: PTH112 - says no where another raises
        return origin.directory if there else str(self._directory)

    def _mounts(
        self,
        pod: Object,
        container: Object,
        volumes: Mapping[str, Path],
        folder: PodFolder,
        last_words: Path,
        values: Mapping[str, str],
    ) -> list[dict[str, Any]]:
        if not self.can_mount:
            self._check_mounts(pod, container, volumes)
            return []
        mounts: list[dict[str, Any]] = [
            {"source": str(source), "target": f"/etc/{source.name}"}
            for source in (folder.path / "hosts", folder.path / "resolv.conf")
            if source.exists()
        ]
        written = written_volumes(pod)
        for mount in container.get("volumeMounts") or ():
            name = mount["name"]
            mounts.append(
                {
                    "source": str(volumes[name]),
                    "sub_path": sub_path(container, mount, volumes[name], values, is_written=name in written),
                    "is_written": name in written,
                    "target": mount["mountPath"],
                    "read_only": mount.get("readOnly", False),
                }
            )
        place = container.get("terminationMessagePath") or MESSAGE
        if place not in [each["target"] for each in mounts]:
            mounts.append({"source": str(last_words), "target": place})
        return mounts

    def _check_mounts(self, pod: Object, container: Object, volumes: Mapping[str, Path]) -> None:
        """Without namespaces only what is there already, or is ours, can be found at its place."""
        in_memory = {each["name"] for each in pod["spec"].get("volumes") or () if is_in_memory(each)}
        for mount in container.get("volumeMounts") or ():
            place, source = Path(mount["mountPath"]), volumes[mount["name"]]
            if str(place) == SHARED_MEMORY and mount["name"] in in_memory:
                continue
            if mount["name"].startswith(_OURS) or (place.exists() and place.samefile(source)):
                continue
            message = (
                f"container {container['name']}: nothing can be mounted at {place}, as this machine lets only"
                " root make mounts: allow user namespaces, or run as root"
            )
            raise UnstartableError(Problem(RUN_ERROR, message, container["name"], fatal=True))

    def _moved(self, container: Object, volumes: Mapping[str, Path]) -> dict[str, str]:
        """Where our own mounts are really, where they can't be made."""
        return {
            mount["mountPath"]: str(volumes[mount["name"]])
            for mount in container.get("volumeMounts") or ()
            if mount["name"].startswith(_OURS)
        }


def _inherited(submitter: Submitter | None) -> dict[str, Any]:
    """What of an order says what processes inherit beside their environment."""
    return {} if submitter is None else {"umask": submitter.umask, "limits": submitter.limits}


def console(container: Object) -> dict[str, Any]:
    """What of an order says what a container reads from."""
    return {key: True for key in ("stdin", "tty") if container.get(key)}


def hostname(pod: Object) -> str:
    name: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return name[:63]


def message_file(folder: PodFolder, container: str, attempt: int) -> Path:
    """Where a container may write why it ends."""
    return folder.messages / f"{container}.{attempt}"


def write_hosts(path: Path, entries: Mapping[str, str], aliases: Sequence[Object] = ()) -> None:
    """A pod's /etc/hosts: itself, its fellows by name, and its hostAliases."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{address} {name}" for name, address in entries.items()]
    lines += [" ".join((alias["ip"], *(alias.get("hostnames") or ()))) for alias in aliases]
    # In place: a mount of the file shows the file that it was made of.
    path.write_text("\n".join(lines) + "\n")


def written_volumes(pod: Object) -> frozenset[str]:
    """The names of a pod's volumes whose content the node agent writes."""
    return frozenset(volume["name"] for volume in pod["spec"].get("volumes") or () if is_written(volume))


def sub_path(
    container: Object,
    mount: Object,
    volume: Path,
    values: Mapping[str, str],
    *,
    is_written: bool,
    mode: int = 0o755,
) -> str:
    """The part of a volume that a mount shows, empty for all of it. Raises UnstartableError."""
    try:
        return find_sub_path(volume, mount, values, is_written=is_written, mode=mode)
    except VolumeError as error:
        name = container["name"]
        message = f"container {name}: {error}"
        raise UnstartableError(Problem(CONFIG_ERROR, message, name, fatal=error.is_fatal)) from error


def _kept(own: Mapping[str, str]) -> dict[str, str]:
    """What no container may change: by it processes are found."""
    kept = (MARKER, PODS, "BIREME_TERMINATION_LOG", VISIBLE)
    return {name: own[name] for name in kept if name in own}


def _replaced(text: str, moved: Mapping[str, str]) -> str:
    for before, after in moved.items():
        if text == before or text.startswith(f"{before}/"):
            return after + text[len(before) :]
    return text
