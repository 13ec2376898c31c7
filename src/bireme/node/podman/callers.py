"""Who may run commands in whom: a launcher in the workers of its own job, and no other pod in any other.

Pure. The driver writes the answers where no container can change them: the caller's into its attendant's
order, the callee's into its pod's orders (`callable_by`). `calls` compares the two at each call.
"""

from typing import Final

from bireme.api.kinds import COLOSSALAI_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, find_kind
from bireme.api.names import LAUNCHER_TYPE, WORKER_TYPE
from bireme.node.seen import Object
from bireme.planning.identity import JOB_UID_LABEL, REPLICA_TYPE_LABEL

_WITH_LAUNCHER: Final = (MPI_JOB, COLOSSALAI_JOB, KUBEFLOW_MPI_JOB)


def calling_job(pod: Object) -> str:
    """The UID of the job whose workers a pod may call; empty for none."""
    return _job_of(pod, LAUNCHER_TYPE)


def called_job(pod: Object) -> str:
    """The UID of the job whose launcher may call a pod; empty for none."""
    return _job_of(pod, WORKER_TYPE)


def _job_of(pod: Object, replica_type: str) -> str:
    """The UID of the job that controls a pod of this type, by owner reference and labels alike."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(REPLICA_TYPE_LABEL) != replica_type:
        return ""
    for owner in metadata.get("ownerReferences") or ():
        kind = find_kind(owner.get("apiVersion"), owner.get("kind"))
        if (
            owner.get("controller")
            and kind in _WITH_LAUNCHER
            and labels.get(JOB_UID_LABEL) == owner.get("uid")
        ):
            uid: str = owner["uid"]
            return uid
    return ""
