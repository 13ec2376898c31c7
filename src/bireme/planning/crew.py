"""What the life of a job needs to know of its kind."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from bireme.api.job import FirstFailure, ReplicaStatus
from bireme.planning.actions import Action, Manifest
from bireme.planning.observed import Observed
from bireme.planning.replicas import Mode, Replica
from bireme.planning.rules import Verdict


class Advance(msgspec.Struct, frozen=True):
    """One step of a live job."""

    records: dict[tuple[str, int], ReplicaStatus]
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    verdict: Verdict | None = None
    events: tuple[str, ...] = ()
    """Each begins with the name of the replica that it is about."""
    restarting: bool = False
    """The whole crew goes, and comes back together."""
    disrupted: bool = False
    """It goes because a pod was lost, which counts for the back-off."""


class Crew(Protocol):
    """The replicas of a job and what keeps them together."""

    def types(self) -> Sequence[tuple[str, int]]:
        """Replica types in order, each with its number of replicas."""

    def main(self, replica_type: str) -> str:
        """The container whose exit is the replica's."""

    def children(self, observed: Observed) -> list[Manifest]:
        """All that must be there before the pods, in the order of creation."""

    def advance(self, observed: Observed, replicas: Sequence[Replica], mode: Mode, now: datetime) -> Advance:
        """Decide for a live job."""

    def cause(
        self, replicas: Sequence[Replica], verdict: Verdict, now: datetime, *, keep_message: bool
    ) -> FirstFailure | None:
        """Who failed first."""
