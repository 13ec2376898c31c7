"""The scheduler at work: follow the cluster, decide, carry out, tell."""

from bireme.control.scheduler.loop import Scheduler

__all__ = ["Scheduler"]
