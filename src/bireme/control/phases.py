"""The phase of a job as it is counted, whatever its kind; read from the status alone."""

import msgspec

from bireme.control.jobs import JobObject


class _OnlyCondition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _OnlyPhase(msgspec.Struct):
    phase: str = ""
    conditions: list[_OnlyCondition] = []


def phase_word(obj: JobObject) -> str:
    status = msgspec.json.decode(obj.status, type=_OnlyPhase | None)
    if status is None:
        return "Pending"
    if status.phase:
        return status.phase
    true = [condition.type for condition in status.conditions if condition.status == "True"]
    return true[-1] if true else "Pending"
