"""Jobs for end-to-end tests."""

from collections.abc import Sequence
from typing import Any, Final

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB

Manifest = dict[str, Any]

PRELUDE: Final = "import os, signal, sys, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
SUM: Final = (
    "total = world.allreduce(world.rank)\n"
    "print('sum', total, world.size, MPI.Get_processor_name(), os.getuid(), flush=True)\n"
)
WAIT: Final = "time.sleep(600)\n"


def mpi_job(
    name: str,
    image: str,
    code: str = SUM,
    *,
    workers: int = 2,
    slots: int = 1,
    clean_up: object = "all",
    container: Manifest | None = None,
    pod: Manifest | None = None,
    **spec: object,
) -> Manifest:
    """A job whose ranks run `code` after the prelude."""
    worker = {"name": "mpi-worker", "image": image, **(container or {})}
    return {
        "apiVersion": MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": workers,
                "extraMPIArgs": ["-N", str(slots)],
                "cmd": ["python3", "-c", PRELUDE + code],
                "template": {"spec": _quick(pod) | {"containers": [worker]}},
            },
            # Ranks that spin would keep the node's kubelet from its work: there are more of them than cores.
            "mca": {"mpi_yield_when_idle": "1"},
            "runPolicy": {"cleanUpWorkers": clean_up},
            **spec,
        },
    }


def colossalai_job(name: str, image: str, command: Sequence[str], **worker: object) -> Manifest:
    container = {"name": "worker", "image": image}
    return {
        "apiVersion": COLOSSALAI_JOB.api_version,
        "kind": "ColossalAIJob",
        "metadata": {"name": name},
        "spec": {
            "launcher": {"image": image},
            "worker": {
                "replicas": 2,
                "procPerWorker": 2,
                "command": list(command),
                "template": {"spec": _quick(None) | {"containers": [container]}},
                **worker,
            },
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }


def generic_job(name: str, image: str, scripts: dict[str, str], **spec: object) -> Manifest:
    """One replica of each type, each running its shell script."""
    return {
        "apiVersion": GENERIC_JOB.api_version,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {
            "replicaSpecs": [replica(type_, image, script) for type_, script in scripts.items()],
            **spec,
        },
    }


def replica(type_: str, image: str, script: str, **more: object) -> Manifest:
    container = {"name": "main", "image": image, "command": ["sh", "-c", script]}
    return {"type": type_, "template": {"spec": _quick(None) | {"containers": [container]}}, **more}


def kubeflow_job(name: str, image: str, code: str = SUM, *, workers: int = 2, **spec: object) -> Manifest:
    command = ["mpirun", "-np", str(2 * workers), "python3", "-c", PRELUDE + code]
    launcher = {"name": "launcher", "image": image, "command": command}
    worker = {"name": "worker", "image": image}
    return {
        "apiVersion": KUBEFLOW_MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 2,
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [launcher]}},
                },
                "Worker": {
                    "replicas": workers,
                    "template": {"spec": _quick(None) | {"containers": [worker]}},
                },
            },
            **spec,
        },
    }


def _quick(pod: Manifest | None) -> Manifest:
    """Pods that end when they are told to, not 30 s later."""
    return {"terminationGracePeriodSeconds": 2, **(pod or {})}


def sums(output: str) -> list[tuple[int, int, str, int]]:
    """What ranks that ran SUM have printed: sum, number of ranks, host name, uid."""
    lines = [line.split() for line in output.splitlines() if line.startswith("sum ")]
    return [(int(total), int(size), host, int(uid)) for _, total, size, host, uid in lines]
