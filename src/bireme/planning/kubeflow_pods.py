"""The inside of a Kubeflow MPIJob: hostfile, exec agent, and the rights of its launcher."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Final

from bireme.api.kubeflow import LAUNCHER, WORKER, MPIJob, ReplicaSpec
from bireme.api.mpirun import spell_long_options, split_program
from bireme.api.names import LAUNCHER_TYPE, WORKER_TYPE, launcher_name, pod_name
from bireme.planning.actions import CreatePod, Manifest
from bireme.planning.alarm import Alarm
from bireme.planning.identity import child_metadata
from bireme.planning.network_policy import build_network_policies
from bireme.planning.observed import Observed
from bireme.planning.pods import PodBuilder, complete_spec, main_container_name
from bireme.planning.replicas import Replica
from bireme.planning.scripts import script
from bireme.planning.site import stop_ranks_first

FILES: Final = "/etc/mpi"
KUBECTL_FOLDER: Final = "/opt/bireme"
RIGHTS: Final = ("ServiceAccount", "Role", "RoleBinding")
IDLE: Final = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]
"""Sleeps until TERM: `sleep` alone, as the first process of a container, would ignore it."""
NOBODY: Final = 65532
"""The user of the controller's image."""
_DEFAULTS: Final = {
    # A rank that loses its peer waits so long before it aborts, so that mpirun hears of the peer first.
    "OMPI_MCA_mpi_abort_delay": "1",
    # Open MPI takes each worker for a machine: it would bind the first rank of every worker to one core.
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    # PRRTE binds ranks that a rank spawns, unless they inherit from their parent.
    "PRTE_MCA_rmaps_default_inherit": "1",
    # PRRTE takes all nodes for equal to the first, also where each worker has CPUs of its own on one node.
    "PRTE_MCA_prte_hetero_nodes": "1",
    # A worker whose node or network is lost sends no packet: mpirun and its daemons notice after a minute.
    **{
        f"{prefix}_MCA_oob_tcp_keepalive_{name}": value
        for prefix in ("OMPI", "PRTE")
        for name, value in (("time", "30"), ("intvl", "10"), ("probes", "3"))
    },
    # Daemons of Open MPI 5 start ranks in threads, and may miss the end of one that ends at once.
    "PRTE_MCA_odls_base_max_threads": "0",
    # mpirun counts the launcher's cores into MPI_UNIVERSE_SIZE unless nodes without slots have none.
    "OMPI_MCA_orte_set_default_slots": "0",
    "PRTE_MCA_prte_set_default_slots": "0",
}
"""Defaults of Open MPI for workers that may share a machine; the container's own `env` wins."""
_SMALL: Final = {"cpu": "50m", "memory": "64Mi"}


def config_name(job: MPIJob) -> str:
    return f"{job.metadata.name}-config"


def worker_names(job: MPIJob) -> list[str]:
    workers = job.spec.mpi_replica_specs.get(WORKER, ReplicaSpec())
    return [pod_name(job.metadata.name, WORKER_TYPE, index) for index in range(workers.replicas)]


def build_children(job: MPIJob, observed: Observed) -> list[Manifest]:
    """ConfigMap and, where the API server is asked, the launcher's account and its rights."""
    slots = job.spec.slots_per_worker
    data = {name: script(name) for name in ("supervise", "record", "stop")}
    data["hostfile"] = "".join(f"{name} slots={slots}\n" for name in worker_names(job))
    rights: list[Manifest] = []
    if observed.settings.profile.agent is None:
        data |= {name: script(name) for name in ("kubexec", "deliver")}
        rights = _rights(job)
    config: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(job, config_name(job)),
        "data": dict(sorted(data.items())),
    }
    return [*build_network_policies(job, observed.settings), config, *rights]


def _rights(job: MPIJob) -> list[Manifest]:
    """The launcher may see its own workers and run things in them, and nothing else."""
    name, names = launcher_name(job.metadata.name), worker_names(job)
    metadata = child_metadata(job, name)
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": names, "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": names, "verbs": ["get", "create"]},
    ]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": job.metadata.namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [subject],
        },
    ]


def pod_creator(job: MPIJob, observed: Observed, deadline: datetime | None) -> Callable[[Replica], CreatePod]:
    """Return what builds pods of launcher and workers; what the workers share is built once."""
    specs = {
        LAUNCHER_TYPE: job.spec.mpi_replica_specs.get(LAUNCHER, ReplicaSpec()),
        WORKER_TYPE: job.spec.mpi_replica_specs.get(WORKER, ReplicaSpec()),
    }

    @cache
    def builder(replica_type: str) -> PodBuilder:
        template = specs[replica_type].template
        spec = template.get("spec") or {}
        built = (
            _launcher_spec(job, observed, spec)
            if replica_type == LAUNCHER_TYPE
            else _worker_spec(job, spec, Alarm(job, FILES, spec, deadline))
        )
        return PodBuilder(job, replica_type, template, "run", complete_spec(job, built))

    def create(replica: Replica) -> CreatePod:
        return builder(replica.type).create(replica.index, lambda spec: {**spec, "hostname": replica.name})

    return create


def _worker_spec(job: MPIJob, spec: Manifest, alarm: Alarm) -> Manifest:
    """Return a worker's spec: without a command it waits for what its launcher runs in it."""
    main = main_container_name({"spec": spec}, job.spec.main_container)
    containers = [
        _serving(container, alarm) if container.get("name") == main else container
        for container in spec.get("containers") or ()
    ]
    return {**spec, "containers": containers, "volumes": [*(spec.get("volumes") or ()), _files_volume(job)]}


def _serving(container: Manifest, alarm: Alarm) -> Manifest:
    # An image's own entry point is not known here: a worker that has only arguments gets no timer.
    command = container.get("command") or ([] if container.get("args") else IDLE)
    started = {"command": alarm.wrap(command)} if command else {}
    # A preStop hook of the user's own wins: a container has but one.
    lifecycle = stop_ranks_first(FILES) | (container.get("lifecycle") or {})
    mounts = [*(container.get("volumeMounts") or ()), _files_mount()]
    env = [*(container.get("env") or ()), {"name": "BIREME_DIR", "value": FILES}, *alarm.env()]
    return {**container, **started, "env": env, "lifecycle": lifecycle, "volumeMounts": mounts}


def _files_volume(job: MPIJob) -> Manifest:
    return {"name": "bireme-config", "configMap": {"name": config_name(job), "defaultMode": 0o555}}


def _files_mount() -> Manifest:
    return {"name": "bireme-config", "mountPath": FILES, "readOnly": True}


def _launcher_spec(job: MPIJob, observed: Observed, spec: Manifest) -> Manifest:
    """The user's launcher, with hostfile and agent for Open MPI 4 and 5 alike."""
    agent = observed.settings.profile.agent
    main = main_container_name({"spec": spec})
    mounts: list[Manifest] = [_files_mount()]
    volumes: list[Manifest] = [_files_volume(job)]
    result = dict(spec)
    if agent is None:
        mounts.append({"name": "bireme-kubectl", "mountPath": KUBECTL_FOLDER, "readOnly": True})
        volumes.append({"name": "bireme-kubectl", "emptyDir": {}})
        delivery = _delivery(observed)
        result["initContainers"] = [delivery, *(spec.get("initContainers") or ())]
        result["serviceAccountName"] = launcher_name(job.metadata.name)
        result.pop("serviceAccount", None)
        result.pop("automountServiceAccountToken", None)
    env = _launcher_env(job, agent)
    defaults = [{"name": name, "value": value} for name, value in _defaults(job, observed).items()]
    result["containers"] = [
        {
            **container,
            **_supervised(container),
            "env": [*defaults, *(container.get("env") or ()), *env],
            "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts],
        }
        if container.get("name") == main
        else container
        for container in spec.get("containers") or ()
    ]
    result["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    return result


def _supervised(container: Manifest) -> Manifest:
    """Return the launcher's command under `supervise`; an image's own entry point is not known here.

    Open MPI 5 takes long options with two dashes only, and most manifests were written for 4.
    """
    command = container.get("command")
    if not command:
        return {}
    args = container.get("args") or []
    if _is_mpirun(command[0]):
        words = spell_long_options([*command[1:], *args])
        command, args = [command[0], *words[: len(command) - 1]], words[len(command) - 1 :]
    supervised = {"command": ["/bin/sh", f"{FILES}/supervise", *command]}
    return supervised | ({"args": args} if args else {})


def mpirun_options(launcher: ReplicaSpec) -> list[str] | None:
    """Return the options of the mpirun that is the launcher's command; None if it is another program."""
    spec = launcher.template.get("spec") or {}
    main = main_container_name(launcher.template)
    container: Manifest = next((c for c in spec.get("containers") or () if c.get("name") == main), {})
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words or not _is_mpirun(words[0]):
        return None
    return split_program(words[1:])[0]


def _is_mpirun(program: str) -> bool:
    return program.rpartition("/")[2] in ("mpirun", "mpiexec", "orterun", "prterun")


def _defaults(job: MPIJob, observed: Observed) -> dict[str, str]:
    """Defaults of Open MPI; ranks that wait yield if they are known to outnumber the CPUs."""
    ranks = job.spec.slots_per_worker * len(worker_names(job))
    cpus = observed.settings.profile.shared_cpus
    return _DEFAULTS | ({"OMPI_MCA_mpi_yield_when_idle": "1"} if cpus is not None and ranks > cpus else {})


def _launcher_env(job: MPIJob, agent: str | None) -> list[Manifest]:
    # Through sh: Open MPI 4.1 hands the agent to its daemons, where the file is not.
    command, hostfile = agent or f"/bin/sh {FILES}/kubexec", f"{FILES}/hostfile"
    variables = {
        "BIREME_DIR": FILES,
        "BIREME_AGENT_COMMAND": command,
        "OMPI_MCA_plm_rsh_agent": command,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "PRTE_MCA_plm_ssh_agent": command,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    # Nobody else waits for the workers where no init container does.
    variables |= (
        {"BIREME_KUBECTL": f"{KUBECTL_FOLDER}/kubectl"} if agent is None else {"BIREME_AGENT_WAITS": "1"}
    )
    workers = job.spec.mpi_replica_specs.get(WORKER, ReplicaSpec())
    variables["BIREME_MAIN_CONTAINER"] = main_container_name(workers.template, job.spec.main_container)
    return [{"name": name, "value": value} for name, value in variables.items()]


def _delivery(observed: Observed) -> Manifest:
    """Brings kubectl, which the user's image need not have, and waits for the workers."""
    return {
        "name": "bireme-deliver",
        "image": observed.settings.controller_image,
        "command": ["/bin/sh", f"{FILES}/deliver", KUBECTL_FOLDER],
        "resources": {"requests": dict(_SMALL), "limits": dict(_SMALL)},
        "volumeMounts": [
            {"name": "bireme-config", "mountPath": FILES, "readOnly": True},
            {"name": "bireme-kubectl", "mountPath": KUBECTL_FOLDER},
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
