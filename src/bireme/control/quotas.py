"""Whether a queue could ever hold what somebody wants to put into it, and whether a pod may grow in it.

The pods of one replica type request the same. So one pod of each type is built, whatever the number of
replicas.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bireme.admission import default, is_valid, validate
from bireme.api.kinds import GENERIC_JOB, JOB_KINDS, KUBEFLOW_MPI_JOB, Kind, find_kind
from bireme.api.names import LAUNCHER_TYPE
from bireme.api.quantity import QuantityError
from bireme.planning.identity import REPLICA_TYPE_LABEL
from bireme.planning.offline import objects_of
from bireme.scheduling.requests import Amounts, add, pod_requests, read_asked, read_available, show

Object = Mapping[str, Any]


def quota_warning(obj: Object, queue: Object) -> str | None:
    """A sentence for a job, or a pod, that asks for more than the whole quota of a queue."""
    try:
        most = _quota(queue)
    except QuantityError:
        # Nobody checked the queue; that is no reason to say anything of the job.
        return None
    asked = _requests(obj) if most else {}
    over = [name for name, limit in sorted(most.items()) if asked.get(name, 0) > limit]
    if not over:
        return None
    parts = ", ".join(
        f"{show(name, asked[name])} of {name} (quota {show(name, most[name])})" for name in over
    )
    return f"asks for more than the whole quota of queue {queue['metadata']['name']}, and waits: {parts}"


def has_quota(queue: Object) -> bool:
    return bool(((queue.get("spec") or {}).get("quota") or {}).get("requests"))


def _quota(queue: Object) -> Amounts:
    return read_available(((queue.get("spec") or {}).get("quota") or {}).get("requests") or {})


def growth(old: Object, new: Object) -> Amounts:
    """By how much more a pod requests than before. Raises QuantityError."""
    before, after = pod_requests(old.get("spec") or {}), pod_requests(new.get("spec") or {})
    return {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}


def growth_refusal(
    grown: Mapping[str, int], requests: Mapping[str, int], queue: Object, shape: Amounts | None
) -> str | None:
    """Why a pod that runs may not grow: the queue's quota, or its shape profile; None if it may.

    The scheduler looks at both before a pod starts, and at neither again. `shape` is None where the queue has
    no profile. Raises QuantityError where the queue's quota can't be read.
    """
    name = queue["metadata"]["name"]
    for resource, limit in sorted((shape or {}).items()):
        if resource in grown and requests[resource] > limit:
            allowed = f"{show(resource, limit)} of {resource}"
            return f"asks for more than the shape profile of queue {name} allows: at most {allowed}"
    held = read_asked((queue.get("status") or {}).get("allocated") or {})
    for resource, limit in sorted(_quota(queue).items()):
        if resource in grown and held.get(resource, 0) + grown[resource] > limit:
            parts = f"{show(resource, held.get(resource, 0))} of {show(resource, limit)} {resource} are held"
            return (
                f"grows beyond the quota of queue {name}: {parts}, and it asks for {_more(resource, grown)}"
            )
    return None


def _more(resource: str, grown: Mapping[str, int]) -> str:
    return f"{show(resource, grown[resource])} more"


def _requests(obj: Object) -> Amounts:
    """What a pod, or all pods of a job, ask for; of a job that is not valid, nothing."""
    kind = find_kind(obj.get("apiVersion"), obj.get("kind"))
    if kind is None:
        return pod_requests(obj.get("spec") or {})
    whole: Amounts = {}
    if kind not in JOB_KINDS:
        return whole
    manifest = default(dict(obj))
    if not is_valid(validate(manifest)):
        return whole
    counts = dict(_replicas(kind, manifest))
    for each in objects_of(kind, _with_one_of_each(kind, manifest), "default"):
        if each["kind"] == "Pod":
            replica_type = each["metadata"]["labels"][REPLICA_TYPE_LABEL]
            add(whole, pod_requests(each.get("spec") or {}), counts.get(replica_type, 1))
    return whole


def _replicas(kind: Kind, manifest: Object) -> Iterator[tuple[str, int]]:
    """Replica types with the number of their replicas."""
    spec = manifest["spec"]
    if kind is GENERIC_JOB:
        yield from ((each["type"], each["replicas"]) for each in spec["replicaSpecs"])
        return
    yield LAUNCHER_TYPE, 1
    worker = spec["mpiReplicaSpecs"].get("Worker") if kind is KUBEFLOW_MPI_JOB else spec["worker"]
    if worker is not None:
        yield "worker", worker["replicas"]


def _with_one_of_each(kind: Kind, manifest: Object) -> dict[str, Any]:
    spec = dict(manifest["spec"])
    if kind is GENERIC_JOB:
        spec["replicaSpecs"] = [_with_one(each) for each in spec["replicaSpecs"]]
    elif kind is KUBEFLOW_MPI_JOB:
        spec["mpiReplicaSpecs"] = {name: _with_one(each) for name, each in spec["mpiReplicaSpecs"].items()}
    else:
        spec["worker"] = _with_one(spec["worker"])
    return {**manifest, "spec": spec}


def _with_one(replicas: Object) -> dict[str, Any]:
    return {**replicas, "replicas": min(1, replicas["replicas"])}
