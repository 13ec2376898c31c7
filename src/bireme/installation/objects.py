"""All objects of an installation, in the order in which they are applied."""

from collections.abc import Mapping
from typing import Any

from bireme import __version__
from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, KUBEFLOW_MPI_JOB
from bireme.installation.authority import Authority
from bireme.installation.engines import build_engines
from bireme.installation.expressions import World, resolve
from bireme.installation.monitoring import build_monitoring
from bireme.installation.names import DEFAULT_NAMESPACE, OURS
from bireme.installation.parts import Part
from bireme.installation.rbac import build_rbac
from bireme.installation.webhooks import build_webhooks
from bireme.installation.workload import build_scheduler, build_webhook_server, build_workload


def build_parts() -> dict[str, list[Part]]:
    """All but namespace and CRDs, by topic."""
    return {
        "rbac": build_rbac(),
        "webhooks": build_webhooks(),
        "webhook-server": build_webhook_server(),
        "controller": build_workload(),
        "scheduler": build_scheduler(),
        "engines": build_engines(),
        "monitoring": build_monitoring(),
    }


def build_objects(values: Mapping[str, Any], namespace: str, authority: Authority) -> list[dict[str, Any]]:
    """The objects for values that `read_values` has made whole.

    A namespace of ours is among them, one of somebody else's is not: it must be there, and stays as it is.
    The webhooks trust `authority`, unless cert-manager brings another.
    """
    world = World(values, namespace, __version__, authority)
    chosen = [
        resolve(part.object, world)
        for parts in build_parts().values()
        for part in parts
        if all(resolve(condition, world) for condition in part.when)
    ]
    homes = [build_namespace()] if namespace == DEFAULT_NAMESPACE else []
    return [*homes, *build_crds(values), *chosen]


def build_crds(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The CRDs that are wanted; Kubeflow's only where it is asked for, as another operator may own it."""
    if not values["crds"]["install"]:
        return []
    return [
        build_crd(kind) for kind in KINDS if kind is not KUBEFLOW_MPI_JOB or values["kubeflow"]["enabled"]
    ]


def build_namespace(name: str = DEFAULT_NAMESPACE) -> dict[str, Any]:
    """Under Pod Security's strictest level, which our own pods keep."""
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**OURS, **level}},
    }
