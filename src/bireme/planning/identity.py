"""Who a child belongs to: names, labels, owner references and the mode annotation."""

from typing import Any, Final, NamedTuple

from bireme.api.generic import GenericJob
from bireme.api.kubeflow import KUBEFLOW_GROUP_VERSION, SchedulingPolicy
from bireme.api.kubeflow import MPIJob as KubeflowMPIJob
from bireme.api.names import LAUNCHER_TYPE, launcher_name, pod_name
from bireme.api.scheduler import GROUP_LABEL, QUEUE_LABEL, ROLE_LABEL
from bireme.planning.observed import Job

MODE_ANNOTATION: Final = "bireme.dev/mode"
STDIN_ANNOTATION: Final = "bireme.dev/stdin"
TAG_ANNOTATION: Final = "bireme.dev/tag-output"
"""Set by a client that shows the output of an MPIJob: mpirun puts the rank before each line."""
"""On an MPIJob, `true` says that its client attaches to the launcher and sends standard input for rank 0."""
JOB_UID_LABEL: Final = "bireme.dev/job-uid"
REPLICA_TYPE_LABEL: Final = "bireme.dev/replica-type"
REPLICA_INDEX_LABEL: Final = "bireme.dev/replica-index"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "bireme"}
QUEUE_LABELS: Final = "scheduler.tensorstack.dev"


def replica_name(job: Job, replica_type: str, index: int) -> str:
    """The pod of a replica. A launcher stands alone, so its name has no index."""
    if replica_type == LAUNCHER_TYPE and not isinstance(job, GenericJob):
        return launcher_name(job.metadata.name)
    return pod_name(job.metadata.name, replica_type, index)


def job_labels(job: Job) -> dict[str, str]:
    """Labels of every child."""
    labels = {**MANAGED_BY, JOB_UID_LABEL: job.metadata.uid}
    if isinstance(job, KubeflowMPIJob):
        return {**labels, "group_name": "kubeflow.org", "mpi_job_name": job.metadata.name}
    word = job.kind.lower()
    return {
        word: job.metadata.name,
        "tensorstack.dev/component": word,
        "tensorstack.dev/component-type": "user",
        "tensorstack.dev/owner-name": job.metadata.name,
        **labels,
    }


def replica_labels(job: Job, replica_type: str, index: int) -> dict[str, str]:
    """Labels of a replica's pod, beside those of the job."""
    own = {REPLICA_TYPE_LABEL: replica_type, REPLICA_INDEX_LABEL: str(index)}
    if isinstance(job, KubeflowMPIJob):
        return {**own, "mpi_role_type": replica_type}
    own[f"{job.kind.lower()}-replica"] = replica_name(job, replica_type, index)
    return own


class QueuePlace(NamedTuple):
    """Where a job is queued. `minimum` is how many pods start together, None for all."""

    queue: str
    priority: int = 0
    minimum: int | None = None


def queue_place(job: Job) -> QueuePlace | None:
    """Return where the job is queued; None if the cluster's own scheduler places its pods."""
    if isinstance(job, KubeflowMPIJob):
        run_policy = job.spec.run_policy
        policy = (run_policy.scheduling_policy if run_policy is not None else None) or SchedulingPolicy()
        queue = policy.queue or job.metadata.labels.get(QUEUE_LABEL, "")
        return QueuePlace(queue, minimum=policy.min_available) if queue else None
    gang = job.spec.scheduler.t9k_scheduler if job.spec.scheduler is not None else None
    return QueuePlace(gang.queue, gang.priority) if gang is not None else None


def queue_labels(job: Job, replica_type: str) -> dict[str, str]:
    """Labels by which the gang scheduler knows a pod; none without a queue."""
    place = queue_place(job)
    if place is None:
        return {}
    return {GROUP_LABEL: job.metadata.name, QUEUE_LABEL: place.queue, ROLE_LABEL: replica_type}


def owner_reference(job: Job) -> dict[str, Any]:
    """The reference by which a child is ours, and goes with the job."""
    api_version = job.api_version or KUBEFLOW_GROUP_VERSION
    return {
        "apiVersion": api_version,
        "kind": job.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(job: Job, name: str) -> dict[str, Any]:
    """Metadata of a child that belongs to the job as a whole."""
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
