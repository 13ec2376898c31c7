"""Whether a queue could ever hold what somebody wants to put into it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bireme.admission import default, is_valid, validate
from bireme.api.kinds import JOB_KINDS, find_kind
from bireme.planning import Observed, plan
from bireme.planning.actions import Create
from bireme.scheduling.requests import pod_requests, read_available, show, total

_THEN: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"


def quota_warning(obj: Mapping[str, Any], queue: Mapping[str, Any]) -> str | None:
    """A sentence for a job, or a pod, that asks for more than the whole quota of a queue."""
    most = read_available(((queue.get("spec") or {}).get("quota") or {}).get("requests") or {})
    if not most:
        return None
    asked = total(pod_requests(pod.get("spec") or {}) for pod in _pods_of(obj))
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
        if not is_valid(validate(manifest)):
            return
        metadata = {"name": "job", **manifest["metadata"], "uid": _NOBODY}
        job: Any = msgspec.convert({**manifest, "metadata": metadata, "status": None}, kind.struct)
        for action in plan(Observed(job), _THEN).actions:
            if isinstance(action, Create) and action.object["kind"] == "Pod":
                yield action.object
