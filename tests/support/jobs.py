"""Small jobs of each kind."""

import copy
from typing import Any

BATCH = "batch.tensorstack.dev/v1beta1"
MAIN = {"name": "main", "image": "registry.example/x:1", "command": ["x"]}
TEMPLATE: dict[str, Any] = {"spec": {"containers": [MAIN]}}
SIDECAR: dict[str, Any] = {"spec": {"containers": [MAIN, {**MAIN, "name": "aside"}]}}


def generic(name: str = "job", *, replicas: int = 2, sidecar: bool = False, **spec: Any) -> dict[str, Any]:
    template = SIDECAR if sidecar else TEMPLATE
    replica = {"type": "worker", "replicas": replicas, "template": template}
    return _job(BATCH, "GenericJob", name, {"replicaSpecs": [replica], **spec})


def mpi(name: str = "job", **spec: Any) -> dict[str, Any]:
    worker = {"replicas": 2, "cmd": ["./x"], "template": TEMPLATE}
    return _job(BATCH, "MPIJob", name, {"worker": worker, **spec})


def colossalai(name: str = "job", **spec: Any) -> dict[str, Any]:
    worker = {"replicas": 1, "command": ["x.py"], "template": TEMPLATE}
    return _job(BATCH, "ColossalAIJob", name, {"worker": worker, **spec})


def kubeflow(name: str = "job", **spec: Any) -> dict[str, Any]:
    specs = {"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}
    return _job("kubeflow.org/v1alpha2", "MPIJob", name, {"mpiReplicaSpecs": specs, **spec})


def _job(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A whole copy, which a test may change."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": copy.deepcopy(spec),
    }
