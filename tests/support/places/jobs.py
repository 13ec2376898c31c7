"""The same small job of both kinds, for any place."""

from typing import Any, Final

from bireme.api.kinds import KUBEFLOW_MPI_JOB, MPI_JOB
from support.places.place import Object, Place

GATE: Final = "gate"
"""The init container that holds a pod back until it is told to end."""


def kubeflow(place: Place, name: str, *, workers: int = 1, policy: str = "Never", **spec: Any) -> Object:
    """MPIJob of kubeflow.org/v1alpha2; launcher and workers go on until they are told to end."""
    return {
        "apiVersion": KUBEFLOW_MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": _side(place, "launcher", 1, policy),
                "Worker": _side(place, "worker", workers, policy),
            },
            **spec,
        },
    }


def ours(place: Place, name: str, *, workers: int = 1, clean_up: str = "none", **spec: Any) -> Object:
    """MPIJob of batch.tensorstack.dev: mpirun runs one rank, which goes on until it is told to end."""
    container = {"name": "mpi-worker", "image": place.programs.image}
    return {
        "apiVersion": MPI_JOB.api_version,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "worker": {
                "replicas": workers,
                "extraMPIArgs": ["-np", "1"],
                "cmd": place.programs.command(f"{name}-launcher"),
                "template": {"spec": _pod(container)},
            },
            "runPolicy": {"cleanUpWorkers": clean_up},
            **spec,
        },
    }


def gated(place: Place, job: Object) -> Object:
    """The Kubeflow job with an init container in its workers, which holds them back."""
    gate = _container(place, GATE, f"$(POD)-{GATE}")
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["initContainers"] = [gate]
    return job


def _side(place: Place, type_: str, replicas: int, policy: str) -> Object:
    main = _container(place, type_, "$(POD)")
    return {"replicas": replicas, "restartPolicy": policy, "template": {"spec": _pod(main)}}


def _container(place: Place, name: str, told: str) -> Object:
    """A container whose program is told to end by the name of its pod."""
    pod = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return {
        "name": name,
        "image": place.programs.image,
        "command": place.programs.command(told),
        "env": [pod],
    }


def _pod(*containers: Object) -> Object:
    # A shell that is the first process of a container is deaf to TERM.
    return {"terminationGracePeriodSeconds": 1, "containers": list(containers)}
