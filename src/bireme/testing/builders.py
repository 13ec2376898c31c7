"""Jobs in one line each."""

from typing import Any

import msgspec

from bireme.admission import default
from bireme.api.kinds import find_kind
from bireme.planning.observed import Job

BATCH = "batch.tensorstack.dev/v1beta1"
CONTAINER = {"name": "main", "image": "registry.example/main:1", "command": ["main"]}


def template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod template; one plain container unless others are given."""
    return {"spec": {"containers": list(containers) or [CONTAINER], **spec}}


def replicas(type_: str = "worker", count: int = 1, **fields: Any) -> dict[str, Any]:
    """An entry of replicaSpecs."""
    return {"type": type_, "replicas": count, "template": template(), **fields}


def build_job(kind: str, spec: dict[str, Any], *, name: str = "job", api_version: str = BATCH) -> Job:
    """A job as the API server would hand it to a controller: defaulted, with UID and generation."""
    metadata = {"name": name, "namespace": "default", "uid": f"{name}-uid", "generation": 1}
    manifest = default({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    found = find_kind(api_version, kind)
    assert found is not None, f"{kind} of {api_version} is not one of ours"
    job: Job = msgspec.convert(manifest, found.struct)  # type: ignore[assignment]
    return job


def generic_job(*replica_specs: dict[str, Any], **spec: Any) -> Job:
    return build_job("GenericJob", {"replicaSpecs": list(replica_specs) or [replicas()], **spec})


def mpi_job(workers: int = 2, **spec: Any) -> Job:
    worker = {"replicas": workers, "cmd": ["./solver"], "template": template(), **spec.pop("worker", {})}
    return build_job("MPIJob", {"worker": worker, **spec})


def colossalai_job(workers: int = 2, **spec: Any) -> Job:
    worker = {"replicas": workers, "command": ["train.py"], "template": template(), **spec.pop("worker", {})}
    return build_job(
        "ColossalAIJob", {"launcher": {"image": "registry.example/l:1"}, "worker": worker, **spec}
    )


def kubeflow_job(workers: int = 2, *, launcher: dict[str, Any] | None = None, **spec: Any) -> Job:
    specs = {
        "Launcher": {"template": template(), **(launcher or {})},
        "Worker": {"replicas": workers, "template": template()},
    }
    return build_job("MPIJob", {"mpiReplicaSpecs": specs, **spec}, api_version="kubeflow.org/v1alpha2")
