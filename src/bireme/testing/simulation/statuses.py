"""What a job's status says, whichever kind it is of; read from plain data, no code of ours is asked."""

from collections.abc import Iterator
from typing import Any, Final

from bireme.apiserver.rules import Object

_SIX: Final = ["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
FINAL: Final = ("Succeeded", "Failed")


def _status(job: Object) -> Object:
    status: Object = job.get("status") or {}
    return status


def conditions(job: Object) -> dict[str, Object]:
    return {each["type"]: each for each in _status(job).get("conditions") or ()}


def phase(job: Object) -> str:
    """The phase, or for a kind without phases the last of its life's conditions that is true."""
    if _is_batch(job):
        return str(_status(job).get("phase") or "")
    true = [name for name, each in conditions(job).items() if each["status"] == "True"]
    return next(
        (name for name in ("Succeeded", "Failed", "Restarting", "Running", "Created") if name in true), ""
    )


def _is_batch(job: Object) -> bool:
    return not job["apiVersion"].startswith("kubeflow.org/")


def is_final(job: Object) -> bool:
    return phase(job) in FINAL


def verdict(job: Object) -> tuple[Any, ...]:
    """What must not change once the job has ended."""
    status = _status(job)
    failure = status.get("firstFailure") or {}
    return phase(job), status.get("completionTime"), failure.get("replica"), failure.get("exitCode")


def is_paused(job: Object) -> bool:
    """Whether the job is to stand still."""
    return bool(((job["spec"].get("runMode") or {}).get("pause") or {}).get("enabled"))


def is_known_paused(job: Object) -> bool:
    """Whether a controller has seen that the job is to stand still, and said so."""
    seen = _status(job).get("observedGeneration") == job["metadata"]["generation"]
    return is_paused(job) and seen and phase(job) == "Paused"


def records(job: Object) -> dict[str, Object]:
    return {each["name"]: each for task in _status(job).get("tasks") or () for each in task["replicas"]}


def restarts_of(job: Object) -> dict[str, int]:
    return {name: record.get("restarts", 0) for name, record in records(job).items()}


def disruptions_of(job: Object) -> int:
    """How often the whole job has started again, as it says itself."""
    return int(_status(job).get("disruptions", 0))


def limit_problems(job: Object) -> Iterator[str]:
    """Restarts beyond what the spec allows."""
    if not _is_batch(job):
        limit = job["spec"].get("backoffLimit", 6)
        if sum(restarts_of(job).values()) > limit:
            yield f"{restarts_of(job)}, and the limit is {limit}"
        return
    limits = {each["type"]: _limit(each) for each in job["spec"].get("replicaSpecs") or ()}
    for task in _status(job).get("tasks") or ():
        for record in task["replicas"]:
            limit = limits.get(task["type"], 0)
            if record.get("restarts", 0) > limit:
                yield f"{record['name']} had {record['restarts']} restarts, and the limit is {limit}"


def _limit(spec: Object) -> int:
    limit: int = (spec.get("restartPolicy") or {}).get("limit", 0)
    return limit


def condition_problems(before: Object, after: Object) -> Iterator[str]:
    """Conditions that are missing or moved without a change, counts that do not add up."""
    old, new = conditions(before), conditions(after)
    for name, each in new.items():
        known = old.get(name)
        if known is None or known["status"] != each["status"]:
            continue
        if known.get("lastTransitionTime") != each.get("lastTransitionTime"):
            yield f"lastTransitionTime of {name} moved, and its status did not"
    if not _is_batch(after):
        return
    if list(new) != _SIX:
        yield f"conditions are {list(new)}"
    total = sum((_status(after).get("aggregate") or {}).values())
    if total != len(records(after)):
        yield f"aggregate counts {total} replicas of {len(records(after))}"
    if _status(after).get("observedGeneration", 0) > after["metadata"]["generation"]:
        yield "observedGeneration is ahead of the generation"
