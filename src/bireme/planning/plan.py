"""The way into planning."""

from datetime import datetime

from bireme.api.colossalai import ColossalAIJob
from bireme.api.generic import GenericJob
from bireme.api.mpi import MPIJob
from bireme.planning.colossalai import ColossalAICrew
from bireme.planning.engines import in_words_of
from bireme.planning.generic import GenericCrew
from bireme.planning.kubeflow import plan_kubeflow
from bireme.planning.life import plan_batch
from bireme.planning.mpi import MPICrew
from bireme.planning.observed import Observed, Plan


def plan(observed: Observed, now: datetime) -> Plan:
    """Decide what the job needs next.

    Pure: the same input gives the same plan, in the same order. Idempotent: once its actions are done
    and its status is written, planning again at the same time gives nothing to do.
    """
    return in_words_of(observed.settings.gang_engine, observed, _plan(observed, now))


def _plan(observed: Observed, now: datetime) -> Plan:
    job = observed.job
    if isinstance(job, GenericJob):
        return plan_batch(job, observed, GenericCrew(job), now)
    if isinstance(job, MPIJob):
        return plan_batch(job, observed, MPICrew(job), now)
    if isinstance(job, ColossalAIJob):
        return plan_batch(job, observed, ColossalAICrew(job), now)
    return plan_kubeflow(job, observed, now)
