"""What `podman run` is told about a container. Nothing is done here."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bireme.api.quantity import QuantityError, parse_quantity
from bireme.node.podman.variables import hand_over
from bireme.node.seen import Object

LABEL: Final = "bireme.dev/pod-uid"
_NANOS: Final = 10**9
_LEAST_MEMORY: Final = 8 << 20


class Mount(NamedTuple):
    source: str
    target: str
    read_only: bool = False
    tmpfs_bytes: int = 0
    """The size of a new tmpfs, which is mounted instead of the source; 0 for none."""
    volume: str = ""
    sub_path: str = ""
    """The part of the volume that the attendant mounts at `source`, for podman; empty for all of it."""
    is_written: bool = False


class Image(NamedTuple):
    """What matters here of an image that is there."""

    id: str = ""
    user: str = ""
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    has_command: bool = True
    stop_signal: str = ""


class Host(NamedTuple):
    """What this machine lets podman do."""

    controllers: frozenset[str] = frozenset()
    ulimits: tuple[str, ...] = ()
    shm_bytes: int = 1 << 30


class Wanted(NamedTuple):
    """A container that is to run. `command` and `args` have their variables put in."""

    name: str
    pod: Object
    container: Object
    command: Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str]
    mounts: Sequence[Mount]
    pid_file: str
    env_file: str = ""
    """Where the variables are that podman must not see in its own environment."""
    gpus: Sequence[str] = ()


def build_run(wanted: Wanted, image: Image, host: Host) -> list[str]:
    """The arguments of podman; the values of variables come as `variables.hand_over` says."""
    spec = wanted.pod["spec"]
    words = [
        "run",
        f"--name={wanted.name}",
        f"--label={LABEL}={wanted.pod['metadata']['uid']}",
        "--pull=never",
        *_console(wanted.container),
        # The host is the pod's shim here, with a host name and, where the job has one, a network of its own.
        "--network=host",
        "--uts=host",
        "--ipc=host" if spec.get("hostIPC") else "--ipc=private",
        *(["--pid=host"] if spec.get("hostPID") else []),
        "--no-hosts",
        "--http-proxy=false",
        f"--pidfile={wanted.pid_file}",
        *(f"--ulimit={each}" for each in host.ulimits),
        *(f"--mount={_mount(each)}" for each in wanted.mounts),
        *_shared_memory(wanted, host),
        *_resources(wanted.container, host),
        *_security(wanted, image),
        *hand_over(wanted.env).options(wanted.env_file),
        *(f"--device=nvidia.com/gpu={each}" for each in wanted.gpus),
    ]
    if directory := wanted.container.get("workingDir"):
        words.append(f"--workdir={directory}")
    if wanted.command:
        words.append(f"--entrypoint={json.dumps(list(wanted.command))}")
    return [*words, "--", wanted.container["image"], *wanted.args]


def _console(container: Object) -> list[str]:
    """The container reads and writes itself what a process would; podman stands between it and a terminal."""
    reads = ["--interactive"] if container.get("stdin") else []
    if not container.get("tty"):
        return ["--log-driver=passthrough", *reads]
    return ["--log-driver=none", "--detach-keys=", "--tty", *reads]


def _mount(mount: Mount) -> str:
    """One record of CSV."""
    fields = ["type=bind", f"source={mount.source}", f"destination={mount.target}"]
    if mount.tmpfs_bytes:
        size = f"tmpfs-size={mount.tmpfs_bytes}"
        fields = ["type=tmpfs", f"destination={mount.target}", size, "tmpfs-mode=1777", "notmpcopyup"]
    fields += ["ro=true"] if mount.read_only else []
    quoted = (
        '"' + each.replace('"', '""') + '"' if any(letter in each for letter in ',"\n') else each
        for each in fields
    )
    return ",".join(quoted)


def _shared_memory(wanted: Wanted, host: Host) -> list[str]:
    shared = "/dev/shm"  # noqa: S108
    if wanted.pod["spec"].get("hostIPC") or any(each.target == shared for each in wanted.mounts):
        return []
    return [f"--shm-size={host.shm_bytes}"]


def _resources(container: Object, host: Host) -> list[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    words = []
    if "memory" in host.controllers and (memory := _nanos(limits.get("memory")) // _NANOS):
        memory = max(memory, _LEAST_MEMORY)
        words += [f"--memory={memory}", f"--memory-swap={memory}"]
    if "cpu" in host.controllers and (cpus := _nanos(limits.get("cpu"))):
        words.append(f"--cpus={max(cpus / _NANOS, 0.01):.3f}")
    return words


def _nanos(quantity: object) -> int:
    try:
        return int(parse_quantity(str(quantity)).nanos) if quantity is not None else 0
    except QuantityError:
        return 0


def _security(wanted: Wanted, image: Image) -> list[str]:
    own = wanted.container.get("securityContext") or {}
    of_pod = wanted.pod["spec"].get("securityContext") or {}
    both = {**of_pod, **own}
    words = [*_user(both, image), *_groups(of_pod), *_capabilities(own.get("capabilities") or {})]
    if own.get("privileged"):
        words.append("--privileged")
    if own.get("readOnlyRootFilesystem"):
        words += ["--read-only", "--read-only-tmpfs=false"]
    if own.get("allowPrivilegeEscalation") is False:
        words.append("--security-opt=no-new-privileges")
    if (both.get("seccompProfile") or {}).get("type") == "Unconfined":
        words.append("--security-opt=seccomp=unconfined")
    return words


def _user(context: Object, image: Image) -> list[str]:
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if user is None and group is None:
        return []
    name = str(user) if user is not None else image.user.partition(":")[0] or "0"
    # A user whom the image does not know has group 0, as on a cluster.
    return [f"--user={name}:{group if group is not None else 0}"]


def _groups(of_pod: Object) -> list[str]:
    groups = [*(of_pod.get("supplementalGroups") or ())]
    groups += [of_pod["fsGroup"]] if of_pod.get("fsGroup") is not None else []
    return [f"--group-add={each}" for each in groups]


def _capabilities(context: Object) -> list[str]:
    dropped = [f"--cap-drop={each}" for each in context.get("drop") or ()]
    return dropped + [f"--cap-add={each}" for each in context.get("add") or ()]


def runs_as_root(wanted: Object, of_pod: Object, image: Image) -> bool:
    """Whether a container would be root, by its contexts or by its image."""
    user = {**of_pod, **wanted}.get("runAsUser")
    if user is not None:
        return bool(user == 0)
    return image.user.partition(":")[0] in ("", "0", "root")
