"""The six conditions of a tensorstack job: always all of them, in one order."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from bireme.api.meta import Condition

INITIALIZED: Final = "Initialized"
RUNNING: Final = "Running"
REPLICA_FAILURE: Final = "ReplicaFailure"
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
PAUSED: Final = "Paused"
ORDER: Final = (INITIALIZED, RUNNING, REPLICA_FAILURE, COMPLETED, FAILED, PAUSED)


class Say(NamedTuple):
    """What a condition shall say."""

    status: bool
    reason: str
    message: str = ""


def update(old: tuple[Condition, ...], says: Mapping[str, Say], now: datetime) -> tuple[Condition, ...]:
    """The conditions of ORDER with what `says` says; lastTransitionTime moves only with the status."""
    before = {condition.type: condition for condition in old}
    return tuple(_one(type_, before.get(type_), says.get(type_), now) for type_ in ORDER)


def _one(type_: str, old: Condition | None, say: Say | None, now: datetime) -> Condition:
    if say is None:
        return old or Condition(type=type_, status="False", last_transition_time=now)
    status = "True" if say.status else "False"
    if old is None or old.status != status:
        return Condition(
            type=type_, status=status, reason=say.reason, message=say.message, last_transition_time=now
        )
    return msgspec.structs.replace(old, reason=say.reason, message=say.message)
