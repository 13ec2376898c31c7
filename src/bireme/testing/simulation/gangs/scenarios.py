"""What is run: groups of pods that come to queues, on nodes that hold one pod each."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Group(NamedTuple):
    """Pods that start together, and when they come."""

    name: str
    pods: int
    queue: str = "low"
    at_seconds: float = 0.0
    least: int | None = None
    """How many must start at once, where that is not all."""

    @property
    def min_member(self) -> int:
        return self.pods if self.least is None else self.least


class GangScenario(NamedTuple):
    name: str
    nodes: int
    groups: tuple[Group, ...]
    queues: Mapping[str, int] = {"low": 0}
    """The priority of each queue."""


SCENARIOS: Final = {
    each.name: each
    for each in (
        GangScenario("gang", 3, (Group("gang", 3),)),
        GangScenario("two-gangs", 4, (Group("one", 3), Group("two", 3))),
        GangScenario("surplus", 4, (Group("gang", 4, least=2),)),
        GangScenario(
            "preemption", 3, (Group("victim", 3), Group("winner", 2, "high", 60.0)), {"low": 0, "high": 10}
        ),
    )
}
