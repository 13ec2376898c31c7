"""Whether a queue could ever hold what somebody wants to put into it."""

from collections.abc import Iterator, Mapping
from typing import Any

from bireme.admission import default, is_valid, validate
from bireme.api.kinds import JOB_KINDS, find_kind
from bireme.api.quantity import QuantityError
from bireme.planning.offline import objects_of
from bireme.scheduling.requests import pod_requests, read_available, show, total


def quota_warning(obj: Mapping[str, Any], queue: Mapping[str, Any]) -> str | None:
    """A sentence for a job, or a pod, that asks for more than the whole quota of a queue."""
    try:
        most = read_available(((queue.get("spec") or {}).get("quota") or {}).get("requests") or {})
    except QuantityError:
        # Nobody checked the queue; that is no reason to say anything of the job.
        return None
    asked = total(pod_requests(pod.get("spec") or {}) for pod in _pods_of(obj)) if most else {}
    over = [name for name, limit in sorted(most.items()) if asked.get(name, 0) > limit]
    if not over:
        return None
    parts = ", ".join(
        f"{show(name, asked[name])} of {name} (quota {show(name, most[name])})" for name in over
    )
    return f"asks for more than the whole quota of queue {queue['metadata']['name']}, and waits: {parts}"


def _pods_of(obj: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The pods that a job would have; of a job that is not valid, none."""
    kind = find_kind(obj.get("apiVersion"), obj.get("kind"))
    if kind is None:
        yield obj
    elif kind in JOB_KINDS:
        manifest = default(dict(obj))
        if is_valid(validate(manifest)):
            objects = objects_of(kind, manifest, "default")
            yield from (each for each in objects if each["kind"] == "Pod")
