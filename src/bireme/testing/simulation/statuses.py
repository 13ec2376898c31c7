"""What a job's status says, whichever kind it is of; read from plain data, no code of ours is asked."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from bireme.apiserver.rules import Object

_SIX: Final = ["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
FINAL: Final = ("Succeeded", "Failed")
_LONGEST_BACKOFF_SECONDS: Final = 300.0
_ENDED: Final = (*FINAL, "Deleted")
_BY_A_REPLICA: Final = (
    "ReplicaFailed", "WorkerFailed", "LauncherFailed", "FailureRuleSatisfied", "BackoffLimitExceeded",
)  # fmt: skip
"""Why a job failed, where it failed because a replica did."""


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
    return is_paused(job) and is_up_to_date(job) and phase(job) == "Paused"


def is_up_to_date(job: Object) -> bool:
    """Whether a controller has seen the job as it is, and said so; kinds without phases do not say it."""
    return not _is_batch(job) or _status(job).get("observedGeneration") == job["metadata"]["generation"]


def records(job: Object) -> dict[str, Object]:
    return {each["name"]: each for task in _status(job).get("tasks") or () for each in task["replicas"]}


def restarts_of(job: Object) -> dict[str, int]:
    return {name: record.get("restarts", 0) for name, record in records(job).items()}


def disruptions_of(job: Object) -> int:
    """How often the whole job has started again, as it says itself."""
    return int(_status(job).get("disruptions", 0))


def ready_at(job: Object, name: str, uid: str) -> datetime | None:
    """When the pod of a replica that failed may be replaced; None if it is not on record as one that did."""
    record = records(job).get(name, {})
    restarts = record.get("restarts", 0) if _is_batch(job) else sum(restarts_of(job).values())
    if record.get("uid") != uid or not record.get("replacing") or not restarts or "finishedAt" not in record:
        return None
    seconds = min(_LONGEST_BACKOFF_SECONDS, 2.0 ** (restarts - 1))
    return datetime.fromisoformat(record["finishedAt"]) + timedelta(seconds=seconds)


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
    yield from _time_problems(before, after)
    yield from _count_problems(after)
    if not _is_batch(after):
        if phase(after) == "Running" and (new.get("Restarting") or {}).get("status") == "True":
            yield "Running and Restarting are both true"
        return
    if list(new) != _SIX:
        yield f"conditions are {list(new)}"
    runs = new["Running"]["status"] == "True"
    if runs != (phase(after) == "Running"):
        yield f"Running is {runs} in phase {phase(after)}"
    if runs and (waiting := [name for name, record in records(after).items() if record.get("waiting")]):
        yield f"Running, though {waiting} have not run"
    if _status(after).get("observedGeneration", 0) > after["metadata"]["generation"]:
        yield "observedGeneration is ahead of the generation"


def _time_problems(before: Object, after: Object) -> Iterator[str]:
    old, new = _status(before), _status(after)
    if old.get("startTime") not in (None, new.get("startTime")):
        yield f"startTime was {old['startTime']}, now {new.get('startTime')}"
    if is_final(after) != ("completionTime" in new):
        yield f"{phase(after)}, and completionTime is {new.get('completionTime')}"
    reason = (conditions(after).get("Failed") or {}).get("reason")
    if phase(after) == "Failed" and reason in _BY_A_REPLICA and not new.get("firstFailure"):
        yield "failed, and nobody failed first"


def _count_problems(job: Object) -> Iterator[str]:
    status = _status(job)
    for task in status.get("tasks") or ():
        restarts = sum(record.get("restarts", 0) for record in task["replicas"])
        if task.get("restartCount", 0) != restarts:
            yield f"restartCount of {task['type']} is {task.get('restartCount')}, its replicas had {restarts}"
    if _is_batch(job):
        counted = {key: count for key, count in (status.get("aggregate") or {}).items() if count}
        phases = Counter((record.get("phase") or "Unknown").lower() for record in records(job).values())
        if counted != dict(phases):
            yield f"aggregate counts {counted}, and there are {dict(phases)}"
        return
    for task in status.get("tasks") or ():
        told = (status.get("replicaStatuses") or {}).get(task["type"].capitalize(), {})
        active = sum(record.get("phase") not in _ENDED for record in task["replicas"])
        if told.get("active", 0) != active:
            yield f"{task['type']}: {active} are active, and it tells of {told.get('active', 0)}"


def expires_at(job: Object) -> datetime | None:
    """When the job may be deleted for having ended; None for never."""
    seconds = (job["spec"].get("runPolicy") or {}).get("ttlSecondsAfterFinished")
    ended = _status(job).get("completionTime")
    if seconds is None or ended is None or not is_final(job):
        return None
    return datetime.fromisoformat(ended) + timedelta(seconds=seconds)
