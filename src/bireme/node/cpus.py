"""The CPUs of this machine, and the share of them that a worker of a job gets.

Open MPI takes each worker for a machine of its own. Where a job asks it to bind ranks to CPUs, it would bind
the first rank of every worker to the machine's first core, unless each worker may use other CPUs. So the
cores of the machine are divided among the workers of such a job. Other jobs may use all CPUs.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from bireme.api.mpirun import asks_to_bind, binds_by_variable, split_program

_TOPOLOGY: Final = Path("/sys/devices/system/cpu")

Core = tuple[int, ...]
"""The CPUs of one core: several where it runs several hardware threads."""


def read_cores(cpus: Collection[int], topology: Path = _TOPOLOGY) -> list[Core]:
    """Group CPUs by core, cores of one package side by side. CPUs of unknown cores are cores of their own."""
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in sorted(cpus):
        folder = topology / f"cpu{cpu}" / "topology"
        try:
            package = int((folder / "physical_package_id").read_text())
            key = package, int((folder / "core_id").read_text()), -1
        except (OSError, ValueError):
            key = -1, -1, cpu
        cores.setdefault(key, []).append(cpu)
    return [tuple(cores[key]) for key in sorted(cores)]


def share(cores: Sequence[Core], index: int, workers: int) -> str:
    """Return the CPU list of one of several workers; empty if there are fewer cores than workers."""
    if len(cores) < workers:
        return ""
    begin, end = (len(cores) * number // workers for number in (index, index + 1))
    return ",".join(str(cpu) for core in cores[begin:end] for cpu in core)


def binding_workers(job: dict[str, Any] | None) -> int:
    """Return how many workers a job has if it asks mpirun to bind ranks to CPUs, else 0."""
    spec = (job or {}).get("spec") or {}
    if replica_specs := spec.get("mpiReplicaSpecs"):
        return _kubeflow_workers(replica_specs)
    worker = spec.get("worker") or {}
    command, _ = split_program(worker.get("cmd") or ())
    asks = asks_to_bind([*(worker.get("extraMPIArgs") or ()), *command], spec.get("mca") or {})
    if "cmd" not in worker or not (asks or _binds_by_env([worker])):
        return 0
    return int(worker.get("replicas", 1))


def _kubeflow_workers(replica_specs: dict[str, Any]) -> int:
    launcher, worker = replica_specs.get("Launcher") or {}, replica_specs.get("Worker") or {}
    containers = _containers(launcher)
    commands = [[*(each.get("command") or ()), *(each.get("args") or ())] for each in containers]
    asks = any(asks_to_bind(command[1:]) for command in commands) or _binds_by_env([launcher, worker])
    return int(worker.get("replicas", 1)) if asks else 0


def _binds_by_env(replica_specs: Iterable[dict[str, Any]]) -> bool:
    return any(
        binds_by_variable(variable.get("name", ""), variable.get("value", ""))
        for spec in replica_specs
        for container in _containers(spec)
        for variable in container.get("env") or ()
    )


def _containers(replica_spec: dict[str, Any]) -> list[dict[str, Any]]:
    spec = (replica_spec.get("template") or {}).get("spec") or {}
    return spec.get("containers") or []
