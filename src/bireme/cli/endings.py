"""How a job's end is told: the phase, the root cause, and the exit code."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bireme.api.names import LAUNCHER_TYPE
from bireme.cli.durations import shown
from bireme.planning.identity import REPLICA_TYPE_LABEL
from bireme.run.jobs import finished_at, first_failure, is_condition, phase

Object = dict[str, Any]

_MOST_MESSAGE_LINES = 10


def exit_code(job: Object) -> int:
    """0 for success; else the code of the replica that failed first, 1 if there is none."""
    if phase(job) == "Succeeded":
        return 0
    code = first_failure(job).get("exitCode")
    return code if isinstance(code, int) and 0 < code < 256 else 1


def describe_end(job: Object) -> list[str]:
    """The last lines about a job: how it ended, and who failed first."""
    name = job["metadata"]["name"]
    took = _took(job)
    lines = [f"{name}: {phase(job)}" + (f" after {shown(took)}" if took is not None else "")]
    if phase(job) == "Succeeded":
        return lines
    first = first_failure(job)
    if not first:
        return lines + [f"  {line}" for line in _failed_message(job)]
    lines.append(f"  first failure: {describe_failure(first, name)}")
    message = str(first.get("message") or "").rstrip().splitlines()
    return lines + [f"    {line}" for line in message[-_MOST_MESSAGE_LINES:]]


def describe_failure(first: Object, job: str) -> str:
    """Who failed first and how, in one line."""
    who = short_name(first.get("replica", ""), job)
    if first.get("rank") is not None:
        who = f"rank {first['rank']} on {who}"
    if first.get("isInit"):
        who += f", init container {first.get('container')}"
    if first.get("signal"):
        how = f"signal {first['signal']}"
    elif first.get("exitCode") is not None:
        how = f"exit code {first['exitCode']}"
    else:
        return f"{who}: {first.get('reason') or 'for an unknown reason'}"
    reason = first.get("reason")
    return f"{who}: {how}" + (f" ({reason})" if reason and reason != "Error" else "")


def short_name(pod: str, job: str) -> str:
    """A replica without the name of its job: `worker-1`, `launcher`."""
    return pod.removeprefix(f"{job}-") or pod


def is_launcher(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels is a job's launcher."""
    return labels.get(REPLICA_TYPE_LABEL) == LAUNCHER_TYPE


def _took(job: Object) -> timedelta | None:
    ended, created = finished_at(job), job["metadata"].get("creationTimestamp")
    return ended - datetime.fromisoformat(created) if ended is not None and created else None


def _failed_message(job: Object) -> list[str]:
    conditions = (job.get("status") or {}).get("conditions") or ()
    told = [each.get("message") for each in conditions if each.get("type") == "Failed"]
    return [str(text) for text in told if text and is_condition(job, "Failed")]
