"""The inside of the pods of a job with a launcher: files, mounts, host names, and how workers wait."""

from collections.abc import Sequence
from typing import Any, Final

from bireme.api.names import WORKER_TYPE, pod_name, workers_service_name
from bireme.api.quantity import parse_quantity
from bireme.planning.actions import Manifest
from bireme.planning.alarm import Alarm
from bireme.planning.identity import child_metadata
from bireme.planning.observed import BatchJob, Observed, Profile
from bireme.planning.scripts import script
from bireme.planning.services import build_workers_service
from bireme.planning.ssh import WORKER_KEYS, build_secret, build_ssh_config, build_sshd_config, secret_name

_ETC: Final = "/bireme-etc"
_READ_ALL: Final = 0o444
_RUN_ALL: Final = 0o555
_SMALL: Final = {"cpu": "100m", "memory": "128Mi"}
IDLE: Final = ["sleep", "infinity"]
_IN_MEMORY: Final = {"medium": "Memory", "sizeLimit": "16Mi"}
"""The ssh keys and the saved environment are written here: not to the disk of a node."""


class Site:
    """Where a job's files are inside its pods, and how its launcher reaches its workers."""

    def __init__(self, job: BatchJob, observed: Observed, *, folder: str, sshd: str, main: str) -> None:
        self.job = job
        self.settings = observed.settings
        self.profile: Profile = observed.settings.profile
        self.folder = folder
        self.sshd = sshd
        self.main = main

    @property
    def uses_ssh(self) -> bool:
        return self.profile.agent is None

    def sh(self, name: str, *arguments: str) -> list[str]:
        """The command that runs one of the scripts."""
        return ["/bin/sh", f"{self.profile.files}/{name}", *arguments]

    def env(self) -> list[Manifest]:
        """Variables that the scripts read."""
        if self.profile.agent is not None:
            return [
                _variable("BIREME_DIR", self.profile.files),
                _variable("BIREME_AGENT", self.profile.agent),
                _variable("BIREME_MAIN_CONTAINER", self.main),
            ]
        return [_variable("BIREME_SSH_DIR", self.profile.ssh), _variable("BIREME_SSHD", self.sshd)]

    def volumes(self, keys: Sequence[str], container: Manifest, *, server: bool) -> list[Manifest]:
        """The volumes behind `mounts`."""
        config = {"name": config_name(self.job), "defaultMode": _RUN_ALL}
        volumes: list[Manifest] = [{"name": "bireme-config", "configMap": config}]
        if self.uses_ssh:
            items = [{"key": key, "path": key} for key in keys]
            secret = {"secretName": secret_name(self.job), "defaultMode": _READ_ALL, "items": items}
            volumes += [
                {"name": "bireme-keys", "secret": secret},
                {"name": "bireme-ssh", "emptyDir": _IN_MEMORY},
                {"name": "bireme-etc", "emptyDir": {}},
            ]
            if server:
                volumes.append({"name": "bireme-run", "emptyDir": {}})
        if _needs_tmp(container):
            volumes.append({"name": "bireme-tmp", "emptyDir": {}})
        return volumes

    def mounts(self, container: Manifest, *, server: bool) -> list[Manifest]:
        """Our own mounts, beside those that the container has."""
        taken = {mount["mountPath"].rstrip("/") for mount in container.get("volumeMounts") or ()}
        mounts: list[Manifest] = [self._config_mount()]
        if self.uses_ssh:
            mounts += [
                {"name": "bireme-keys", "mountPath": self.profile.keys, "readOnly": True},
                {"name": "bireme-ssh", "mountPath": self.profile.ssh},
                {"name": "bireme-etc", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True},
                {"name": "bireme-etc", "mountPath": "/etc/group", "subPath": "group", "readOnly": True},
            ]
            if self.folder.rstrip("/") not in taken:
                mounts.append({"name": "bireme-ssh", "mountPath": self.folder})
            if server:
                mounts.append({"name": "bireme-run", "mountPath": "/run/sshd"})
        if _needs_tmp(container) and "/tmp" not in taken:  # noqa: S108
            mounts.append({"name": "bireme-tmp", "mountPath": "/tmp"})  # noqa: S108
        return mounts

    def init_containers(self, container: Manifest) -> list[Manifest]:
        """With ssh: one of the same image and user, which writes the passwd file that sshd and ssh need."""
        if not self.uses_ssh:
            return []
        kept: Manifest = {
            key: container[key] for key in ("image", "imagePullPolicy", "securityContext") if key in container
        }
        return [
            {
                "name": "bireme-passwd",
                **kept,
                "command": self.sh("passwd", _ETC),
                **_init_resources(container.get("resources") or {}),
                "volumeMounts": [self._config_mount(), {"name": "bireme-etc", "mountPath": _ETC}],
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ]

    def _config_mount(self) -> Manifest:
        return {"name": "bireme-config", "mountPath": self.profile.files, "readOnly": True}

    def network(self, spec: Manifest, hostname: str) -> Manifest:
        """The spec with a host name of its own, and with the bare names of its fellows resolving."""
        service, namespace = workers_service_name(self.job.metadata.name), self.job.metadata.namespace
        dns = dict(spec.get("dnsConfig") or {})
        search = f"{service}.{namespace}.svc.{self.settings.cluster_domain}"
        dns["searches"] = [search, *(dns.get("searches") or ())]
        result = {**spec, "hostname": hostname, "subdomain": service, "dnsConfig": dns}
        if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
            result["dnsPolicy"] = "ClusterFirstWithHostNet"
        return result


def config_name(job: BatchJob) -> str:
    return f"{job.metadata.name}-config"


def _variable(name: str, value: str) -> Manifest:
    return {"name": name, "value": value}


def build_hostfile(job: BatchJob, workers: int, slots: int) -> str:
    """One line per worker, in the order of their indices."""
    names = (pod_name(job.metadata.name, WORKER_TYPE, index) for index in range(workers))
    return "".join(f"{name} slots={slots}\n" for name in names)


def build_children(
    site: Site, observed: Observed, files: dict[str, str], scripts: Sequence[str]
) -> list[Manifest]:
    """Service, ConfigMap and Secret of a job with a launcher."""
    job = site.job
    data = {**files, **{name: script(name) for name in (*scripts, "stop")}}
    if site.uses_ssh:
        port = observed.settings.ssh_port
        data["sshd_config"] = build_sshd_config(site.profile.ssh, site.profile.files, port)
        data["ssh_config"] = build_ssh_config(job.metadata.uid, site.profile.ssh, port)
        data |= {name: script(name) for name in ("passwd", "worker", "session")}
    config: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(job, config_name(job)),
        "data": dict(sorted(data.items())),
    }
    secret = [build_secret(job, observed.keys)] if site.uses_ssh else []
    return [build_workers_service(job, workers_service_name(job.metadata.name)), config, *secret]


def build_worker_spec(site: Site, spec: Manifest, main: str) -> Manifest:
    """A worker's spec: its main container waits for logins instead of running its own command."""
    alarm = Alarm(site.job, site.profile.files, spec)
    containers = [
        _serving(site, container, alarm, on_host=bool(spec.get("hostNetwork")))
        if container["name"] == main
        else container
        for container in spec["containers"]
    ]
    container = next(container for container in spec["containers"] if container["name"] == main)
    return {
        **spec,
        "initContainers": [*site.init_containers(container), *(spec.get("initContainers") or ())],
        "containers": containers,
        "volumes": [*(spec.get("volumes") or ()), *site.volumes(WORKER_KEYS, container, server=True)],
    }


def _serving(site: Site, container: Manifest, alarm: Alarm, *, on_host: bool) -> Manifest:
    replaced = ("command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
    kept = {key: value for key, value in container.items() if key not in replaced}
    if on_host and site.uses_ssh:
        # So that the scheduler puts no two workers on one node: only one sshd can listen there.
        port = site.settings.ssh_port
        own = {"name": "bireme-ssh", "containerPort": port, "hostPort": port}
        kept["ports"] = [*(container.get("ports") or ()), own]
    return {
        **kept,
        "command": alarm.wrap(site.sh("worker") if site.uses_ssh else list(IDLE)),
        "lifecycle": stop_ranks_first(site.profile.files),
        "env": [*(container.get("env") or ()), *site.env(), *alarm.env()],
        "volumeMounts": [*(container.get("volumeMounts") or ()), *site.mounts(container, server=True)],
    }


def stop_ranks_first(folder: str) -> Manifest:
    """Return the hook that lets the ranks in a worker end before the worker does."""
    script = f'exec /bin/sh "${{BIREME_DIR:-{folder}}}/stop"'
    return {"preStop": {"exec": {"command": ["/bin/sh", "-c", script]}}}


def node_affinity(spec: Manifest) -> Manifest:
    """Where a launcher may be: on the nodes of its workers. Whom it may be beside is not for it to say."""
    wanted = (spec.get("affinity") or {}).get("nodeAffinity")
    return {"affinity": {"nodeAffinity": wanted}} if wanted else {}


def small_resources(resources: dict[str, Any]) -> Manifest:
    """What a launcher asks for: little CPU and memory, and the worker's limits of these two."""
    limits = {name: amount for name, amount in (resources.get("limits") or {}).items() if name in _SMALL}
    requests = {name: _smaller(amount, limits.get(name)) for name, amount in _SMALL.items()}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _init_resources(resources: dict[str, Any]) -> Manifest:
    """Resources of an init container that change neither a pod's requests nor its quality of service.

    A pod requests the larger of its init containers and the sum of its containers: so the init container
    asks for no more than the main one. Where request and limit of the main one are equal, its are too.
    """
    main_requests, main_limits = resources.get("requests") or {}, resources.get("limits") or {}
    requests: Manifest = {}
    limits: Manifest = {}
    for name, amount in _SMALL.items():
        limit = main_limits.get(name)
        # Kubernetes takes a limit for the request that is left out.
        request = main_requests.get(name, limit)
        if request is None:
            continue
        requests[name] = _smaller(amount, request)
        if limit is not None:
            is_fixed = parse_quantity(limit).nanos == parse_quantity(request).nanos
            limits[name] = requests[name] if is_fixed else limit
    chosen = {"requests": requests, "limits": limits}
    given = {field: amounts for field, amounts in chosen.items() if amounts}
    return {"resources": given} if given else {}


def _smaller(amount: str, limit: Any) -> Any:
    if limit is None or parse_quantity(amount).nanos <= parse_quantity(limit).nanos:
        return amount
    return limit


def _needs_tmp(container: Manifest) -> bool:
    """Open MPI keeps its session in /tmp, which a read-only root does not let it."""
    return bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem"))


def without_init(spec: Manifest, *, skip: bool) -> Manifest:
    """The spec without the user's init containers, if they are to be skipped."""
    return {key: value for key, value in spec.items() if key != "initContainers"} if skip else spec


def literal(words: Sequence[str]) -> list[str]:
    """Arguments as a container must be given them, so that they arrive as they are.

    Kubernetes expands `$(NAME)` in arguments, and reads `$$` as one `$`.
    """
    return [word.replace("$", "$$") if "$(" in word or "$$" in word else word for word in words]
