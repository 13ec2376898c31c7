"""When a GenericJob has succeeded or failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from bireme.api.generic import FinishRule, GenericJobSpec, RestartPolicy
from bireme.api.job import ReplicaStatus
from bireme.planning.replicas import is_final

ALL_SUCCEEDED: Final = "AllReplicasSucceeded"
SUCCESS_RULE: Final = "SuccessRuleSatisfied"
REPLICA_FAILED: Final = "ReplicaFailed"
FAILURE_RULE: Final = "FailureRuleSatisfied"
NO_RULE: Final = "NoRuleSatisfied"

Records = Mapping[tuple[str, int], ReplicaStatus]


class Verdict(msgspec.Struct, frozen=True):
    """How a job has ended, and why."""

    end: Literal["Succeeded", "Failed"]
    reason: str
    message: str
    time: datetime | None = None
    culprits: tuple[str, ...] = ()
    """Names of the replicas whose failure decided; the first cause is among them."""


def judge(spec: GenericJobSpec, records: Records) -> Verdict | None:
    """The verdict of the rule whose last replica finished first, failure on a tie; None while none holds.

    Times are those that the kubelets report, in whole seconds. A success that is seen alone stands, also if a
    failure of the same second is reported later: to wait for one would fail jobs whose workers crash because
    their leader has ended well.
    """
    verdicts = [*_successes(spec, records), *_failures(spec, records)]
    if verdicts:
        return min(verdicts, key=lambda verdict: (verdict.time, verdict.end == "Succeeded"))
    if records and all(is_final(record) for record in records.values()):
        failed = tuple(record.name for record in records.values() if record.phase == "Failed")
        return Verdict("Failed", NO_RULE, "all replicas have finished and no rule holds", culprits=failed)
    return None


def _has_restart_left(policy: RestartPolicy, record: ReplicaStatus) -> bool:
    return policy.policy != "Never" and record.restarts < policy.limit


def _successes(spec: GenericJobSpec, records: Records) -> Iterator[Verdict]:
    if not spec.success_rules:
        time = _all_ended(tuple(records), records, "Succeeded") if records else None
        if time is not None:
            yield Verdict("Succeeded", ALL_SUCCEEDED, "every replica succeeded", time)
    for rule in spec.success_rules:
        time = _all_ended(_members(rule), records, "Succeeded")
        if time is not None:
            yield Verdict("Succeeded", SUCCESS_RULE, f"all replicas of {_words(rule)} succeeded", time)


def _failures(spec: GenericJobSpec, records: Records) -> Iterator[Verdict]:
    policies = {each.type: each.restart_policy for each in spec.replica_specs}
    if not spec.failure_rules:
        for (type_, _), record in records.items():
            if record.phase == "Failed" and is_final(record):
                message = f"replica {record.name} failed{_why_final(policies[type_], record)}"
                yield Verdict("Failed", REPLICA_FAILED, message, record.finished_at, (record.name,))
    for rule in spec.failure_rules:
        members = _members(rule)
        time = _all_ended(members, records, "Failed")
        if time is not None:
            names = tuple(records[member].name for member in members)
            yield Verdict("Failed", FAILURE_RULE, f"all replicas of {_words(rule)} failed", time, names)


def _why_final(policy: RestartPolicy, record: ReplicaStatus) -> str:
    """Why a replica that failed is not restarted, as the end of a sentence."""
    if policy.policy == "Never":
        return ", and its restartPolicy is Never"
    if _has_restart_left(policy, record):
        return " for good"
    if policy.limit == 0:
        return ", and its restartPolicy allows no restart"
    return f", and its {policy.limit} {'restart is' if policy.limit == 1 else 'restarts are'} used"


def _all_ended(members: Sequence[tuple[str, int]], records: Records, phase: str) -> datetime | None:
    """When the last of them ended so; None if one of them has not."""
    times: list[datetime] = []
    for member in members:
        record = records.get(member)
        if record is None or record.phase != phase or not is_final(record) or record.finished_at is None:
            return None
        times.append(record.finished_at)
    return max(times, default=None)


def _members(rule: FinishRule) -> list[tuple[str, int]]:
    return [(type_, index) for type_, indices in rule.items() for index in indices]


def _words(rule: FinishRule) -> str:
    return ", ".join(f"{type_}{list(indices)}" for type_, indices in rule.items())
