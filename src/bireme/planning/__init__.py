"""The plan: from a job and what is observed of its children, what to do next."""

from bireme.planning.observed import Observed, Plan, Settings
from bireme.planning.plan import plan

__all__ = ["Observed", "Plan", "Settings", "plan"]
