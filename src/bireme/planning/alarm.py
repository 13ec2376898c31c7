"""The timer in a worker that sends a job's stop signal to its ranks before the pod's time is over.

Only a process of the pod can signal the ranks, so each worker does: `stop --then` starts a timer and becomes
the worker's command. The timer knows the end from variables. The end of a queue's maxDuration is an
annotation that the scheduler adds to the binding, so it is there before the container starts.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bireme.api.stop_signal import (
    ENDS_AT_ANNOTATION,
    STOP_SIGNAL_ANNOTATION,
    StopSignal,
    StopSignalError,
    parse_stop_signal,
)
from bireme.planning.actions import Manifest
from bireme.planning.observed import Job

_ENDS_AT: Final = {"fieldRef": {"fieldPath": f"metadata.annotations['{ENDS_AT_ANNOTATION}']"}}


class Alarm:
    """What a worker's main container gets for its job's stop signal; nothing if the job has none."""

    def __init__(self, job: Job, folder: str, pod_spec: Manifest, deadline: datetime | None = None) -> None:
        """`folder` has the scripts; `deadline` is the job's own, if it has one."""
        self._signal = find_stop_signal(job)
        self._folder = folder
        self._deadline = deadline
        self._active_seconds = pod_spec.get("activeDeadlineSeconds")

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts the timer first."""
        if self._signal is None:
            return list(command)
        return ["/bin/sh", f"{self._folder}/stop", "--then", *command]

    def env(self) -> list[Manifest]:
        """Return the variables that the timer reads."""
        if self._signal is None:
            return []
        values = {
            "BIREME_STOP_SIGNAL": str(self._signal.number),
            "BIREME_STOP_LEAD": str(int(self._signal.lead.total_seconds())),
        }
        if self._deadline is not None:
            values["BIREME_DEADLINE"] = str(int(self._deadline.timestamp()))
        if self._active_seconds is not None:
            values["BIREME_ACTIVE_SECONDS"] = str(self._active_seconds)
        plain: list[Manifest] = [{"name": name, "value": value} for name, value in values.items()]
        return [*plain, {"name": "BIREME_ENDS_AT", "valueFrom": _ENDS_AT}]


def find_stop_signal(job: Job) -> StopSignal | None:
    """Return the job's stop signal; None if it has none, or admission did not see that it is wrong."""
    value = job.metadata.annotations.get(STOP_SIGNAL_ANNOTATION)
    if value is None:
        return None
    try:
        return parse_stop_signal(value)
    except StopSignalError:
        return None
