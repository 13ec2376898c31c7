"""Fields of other forms of our kinds that are in use, and the fields that take their place here.

The vendor changed MPIJob and ColossalAIJob inside v1beta1, and an early MPIJob had fields for what mpirun's
options say. Such a manifest is refused like any with unknown fields; a hint says how to write it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from bireme.admission.problems import Problem
from bireme.api.kinds import COLOSSALAI_JOB, MPI_JOB, Kind
from bireme.api.paths import Path

_NEWER: Final = "it is of a newer form of this kind, which is not served here"
_HINTS: Final[Mapping[Kind, Mapping[Path, str]]] = {
    MPI_JOB: {
        ("spec", "mpiConfig"): (
            f"{_NEWER}: write home as `spec.mpiHome`, mca as `spec.mca`, extraArgs as "
            "`spec.worker.extraMPIArgs` and script as `spec.worker.cmd`"
        ),
        ("spec", "replicaSpecs"): (
            f"{_NEWER}: write replicas and template of the type worker as `spec.worker.replicas` and "
            "`spec.worker.template`; the launcher is made from that template"
        ),
        ("spec", "worker", "processesPerWorker"): 'add "-N" and the number to `spec.worker.extraMPIArgs`',
        ("spec", "worker", "processRecovery"): "remove it: a job has failed when one of its ranks has",
    },
    COLOSSALAI_JOB: {
        ("spec", "torchConfig"): (
            f"{_NEWER}: write procPerWorker as `spec.worker.procPerWorker`, extraArgs as "
            "`spec.worker.torchArgs` and script as `spec.worker.command`"
        ),
        ("spec", "replicaSpecs"): (
            f"{_NEWER}: write replicas and template of the type worker as `spec.worker.replicas` and "
            "`spec.worker.template`, and image, workingDir, env and resources of the launcher's container "
            "below `spec.launcher`"
        ),
    },
}


def explain_other_forms(kind: Kind, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems; those of a field of another form have a hint that names the field to use."""
    hints = _HINTS.get(kind, {})
    for problem in problems:
        hint = hints.get(problem.path)
        if hint is not None and problem.rule == "unknown-field" and problem.fix is None:
            yield msgspec.structs.replace(problem, hint=hint)
        else:
            yield problem
