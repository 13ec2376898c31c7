"""What a job of any of the four kinds says of itself, read from its plain data."""

from datetime import datetime
from typing import Any, Final

Object = dict[str, Any]

FINISHED: Final = ("Succeeded", "Failed")
# Kubeflow's jobs have no phase: the first of these conditions that is True says it best.
_KUBEFLOW_PHASES: Final = (
    ("Succeeded", "Succeeded"),
    ("Failed", "Failed"),
    ("Restarting", "Pending"),
    ("Running", "Running"),
)


def phase(job: Object) -> str:
    """The job's life in one word, such as `Running`; `Pending` while nobody has said anything."""
    status = job.get("status") or {}
    if told := status.get("phase"):
        return str(told)
    return next((word for type_, word in _KUBEFLOW_PHASES if is_condition(job, type_)), "Pending")


def is_condition(job: Object, type_: str) -> bool:
    """Whether the job says that this is True, whatever the case of the word."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type", "").lower() == type_.lower() and each.get("status") == "True" for each in conditions
    )


def is_stopped(job: Object) -> bool:
    """Whether the job is paused and no pod of it is left."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return phase(job) == "Paused" and any(
        each.get("type") == "Paused" and each.get("reason") == "Stopped" for each in conditions
    )


def is_finished(job: Object) -> bool:
    return phase(job) in FINISHED


def finished_at(job: Object) -> datetime | None:
    """When the job ended; None if it has not."""
    if not is_finished(job):
        return None
    told = (job.get("status") or {}).get("completionTime") or job["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(told)


def first_failure(job: Object) -> Object:
    """Who failed first and how, as the job's status tells it; empty if it tells nothing."""
    told: Object = (job.get("status") or {}).get("firstFailure") or {}
    return told


def replicas(job: Object) -> list[Object]:
    """What the status tells of each replica."""
    tasks = (job.get("status") or {}).get("tasks") or ()
    return [replica for task in tasks for replica in task.get("replicas") or ()]
