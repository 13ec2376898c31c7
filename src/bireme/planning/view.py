"""A tensorstack job as one pass sees it: what is observed, by kind, at one time."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from bireme.api.job import JobPhase, JobStatus, ReplicaStatus, RunMode, condition
from bireme.api.meta import Condition
from bireme.planning import conditions as c
from bireme.planning.actions import Manifest
from bireme.planning.conditions import Say
from bireme.planning.crew import Crew
from bireme.planning.identity import replica_name
from bireme.planning.network_policy import build_network_policies
from bireme.planning.observed import BatchJob, Observed
from bireme.planning.replicas import Replica, has_run, is_final, observe
from bireme.planning.status import aggregate, build_tasks, records_of

Records = Mapping[tuple[str, int], ReplicaStatus]

_AT_FIRST = {
    c.INITIALIZED: Say(False, "CreatingChildren"),
    c.RUNNING: Say(False, "WaitingForReplicas"),
    c.REPLICA_FAILURE: Say(False, "NoFailure"),
    c.COMPLETED: Say(False, "NotFinished"),
    c.FAILED: Say(False, "NotFinished"),
    c.PAUSED: Say(False, "NotPaused"),
}


class View(msgspec.Struct, frozen=True):
    """What every policy is given."""

    job: BatchJob
    observed: Observed
    crew: Crew
    now: datetime

    @property
    def status(self) -> JobStatus:
        return self.job.status or JobStatus()

    def with_status(self, status: JobStatus) -> "View":
        """The same job once this status is on record."""
        return msgspec.structs.replace(self, job=msgspec.structs.replace(self.job, status=status))

    @property
    def run_mode(self) -> RunMode:
        return self.job.spec.run_mode or RunMode()

    def children(self) -> list[Manifest]:
        """Every child that the job shall have, beside pods and PodGroup."""
        policies = build_network_policies(self.job, self.observed.settings)
        return [*policies, *self.crew.children(self.observed)]

    def records(self) -> dict[str, ReplicaStatus]:
        """The records of the status, by the name of the pod."""
        return records_of(self.status.tasks)

    def replicas(self, records: Mapping[str, ReplicaStatus]) -> list[Replica]:
        """Every replica that the job shall have, by type and index."""
        pods = {pod.metadata.name: pod for pod in self.observed.pods}
        found = []
        for type_, count in self.crew.types():
            main = self.crew.main(type_)
            for index in range(count):
                name = replica_name(self.job, type_, index)
                found.append(observe(type_, index, name, records.get(name), pods.get(name), main))
        return found

    def conditions(self, says: Mapping[str, Say]) -> tuple[Condition, ...]:
        """All six conditions; those that `says` does not name stay as they were, or begin."""
        first = {type_: say for type_, say in _AT_FIRST.items() if condition(self.status, type_) is None}
        return c.update(self.status.conditions, {**first, **says}, self.now)

    def next_status(self, records: Records, phase: JobPhase, says: Mapping[str, Say]) -> JobStatus:
        """The status that tells of this pass; conditions that `says` does not name stay as they were."""
        old = self.status
        tasks = build_tasks(self.crew.types(), records)
        # A short job may have ended before any pod was seen to run.
        starts = old.start_time is None and any(has_run(each) or is_final(each) for each in records.values())
        return msgspec.structs.replace(
            old,
            phase=phase,
            conditions=self.conditions(says),
            tasks=tasks,
            aggregate=aggregate(tasks),
            observed_generation=self.job.metadata.generation,
            waiting_reported_at=None,
            start_time=self.now if starts else old.start_time,
        )
