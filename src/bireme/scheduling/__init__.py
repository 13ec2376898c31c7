"""From a cluster, a policy and the time: what starts, what goes, and why the rest waits."""

from bireme.scheduling.decisions import Backlog, Decisions
from bireme.scheduling.policy import Policy
from bireme.scheduling.round import schedule
from bireme.scheduling.state import State

__all__ = ["Backlog", "Decisions", "Policy", "State", "schedule"]
