"""MPIJob of Kubeflow, v1alpha2: mpirun that reaches its workers through pod exec."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from bireme.api.job import MAX_REPLICAS, QUEUE_PATTERN, TEMPLATE, FirstFailure, PodTemplate, Tasks
from bireme.api.meta import Condition, ListMeta, ObjectMeta
from bireme.api.model import Model, Rule, field, immutable

KUBEFLOW_GROUP_VERSION = "kubeflow.org/v1alpha2"
LAUNCHER = "Launcher"
WORKER = "Worker"

CleanPodPolicy = Literal["None", "Running", "All"]
RestartPolicyType = Literal["Always", "OnFailure", "Never", "ExitCode"]

_CLEAN_POD_POLICY = field(
    "Which pods are deleted when the job ends: None (the default) keeps all, Running deletes those that "
    "have not ended, All deletes every one, the launcher too."
)
DEFAULT_BACKOFF_LIMIT = 6
_RETRIES = (
    "How often failed pods are replaced before the job fails, as their restartPolicy says; 6 when left out. "
    "A launcher whose restartPolicy is Never is replaced, too, if this is set."
)
_BACKOFF_LIMIT = {"minimum": 0, "maximum": 2**31 - 1, "format": "int32"}
_DEADLINE = {"minimum": 1, "format": "int64"}
_SPECS = ".mpiReplicaSpecs"


class SchedulingPolicy(Model, frozen=True):
    """How the pods are placed together."""

    min_available: Annotated[
        int | None,
        field(
            "How many pods must fit before any starts, where the job names a queue; all when left out.",
            minimum=1,
            format="int32",
        ),
    ] = None
    queue: Annotated[
        str,
        field(
            "Name of the Queue; the job's label scheduler.tensorstack.dev/queue when left out. Without "
            "either the cluster's own scheduler places each pod by itself.",
            maxLength=63,
            pattern=f"^$|{QUEUE_PATTERN}",
        ),
    ] = ""


class RunPolicy(Model, frozen=True):
    """Policies of the run; a value set here wins over the one of the same name above it."""

    clean_pod_policy: Annotated[CleanPodPolicy | None, _CLEAN_POD_POLICY] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        field(
            "Delete the job so many seconds after it ended; never when left out.",
            minimum=0,
            format="int32",
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None, field("Fail the job when it has been active for so many seconds.", **_DEADLINE)
    ] = None
    backoff_limit: Annotated[int | None, field(_RETRIES, **_BACKOFF_LIMIT)] = None
    scheduling_policy: Annotated[SchedulingPolicy | None, field("How the pods are placed together.")] = None


class ReplicaSpec(Model, frozen=True):
    """The launcher, or the set of workers."""

    replicas: Annotated[
        int,
        field("How many; exactly 1 for the launcher.", minimum=0, maximum=MAX_REPLICAS - 1, format="int32"),
    ] = 1
    restart_policy: Annotated[
        RestartPolicyType,
        field(
            "When a finished pod is replaced. ExitCode: 1 to 127 are permanent, 128 and above are retried. "
            "A worker that exits with 0 before the launcher has ended is replaced with Always alone."
        ),
    ] = "Never"
    template: Annotated[PodTemplate, TEMPLATE] = {}


class MPIJobSpec(Model, frozen=True):
    """What a Kubeflow MPIJob runs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.mpiReplicaSpecs.all(k, k in ['Launcher', 'Worker'])",
            "replica types are Launcher and Worker",
            _SPECS,
        ),
        Rule("'Launcher' in self.mpiReplicaSpecs", "there must be a Launcher", f"{_SPECS}.Launcher"),
        Rule(
            "!('Launcher' in self.mpiReplicaSpecs) || self.mpiReplicaSpecs['Launcher'].replicas == 1",
            "there must be exactly one Launcher",
            f"{_SPECS}.Launcher.replicas",
        ),
        Rule("'Worker' in self.mpiReplicaSpecs", "there must be a Worker", f"{_SPECS}.Worker"),
        Rule(
            "!('Worker' in self.mpiReplicaSpecs) || self.mpiReplicaSpecs['Worker'].replicas >= 1",
            "there must be at least one Worker",
            f"{_SPECS}.Worker.replicas",
        ),
        immutable("slotsPerWorker"),
        immutable("mainContainer"),
    )

    slots_per_worker: Annotated[
        int, field("Slots of each worker in the hostfile.", minimum=1, maximum=4096, format="int32")
    ] = 1
    backoff_limit: Annotated[int | None, field(_RETRIES, **_BACKOFF_LIMIT)] = None
    clean_pod_policy: Annotated[CleanPodPolicy | None, _CLEAN_POD_POLICY] = None
    active_deadline_seconds: Annotated[
        int | None,
        field(
            "Fail the job when it has been active for so many seconds; binds with restartPolicy OnFailure or "
            "Always.",
            **_DEADLINE,
        ),
    ] = None
    main_container: Annotated[
        str, field("The worker's container in which ranks run; the first one when left out.", maxLength=63)
    ] = ""
    run_policy: Annotated[
        RunPolicy | None, field("Policies of the run; a value here wins over the one beside it.")
    ] = None
    mpi_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        field(
            "`Launcher` (exactly one replica) and `Worker`.", required=True, minProperties=1, maxProperties=2
        ),
    ] = {}


JobConditionType = Literal["Created", "Running", "Restarting", "Succeeded", "Failed"]


class JobCondition(Condition, frozen=True, omit_defaults=False):
    """A condition that also says when it was last looked at with another outcome."""

    last_update_time: Annotated[datetime | None, field("When anything of it last changed.")] = None


class ReplicaCounts(Model, frozen=True):
    """How many pods of one type are in which state."""

    active: Annotated[int, field("Pending or running.")] = 0
    succeeded: Annotated[int, field("Ended well.")] = 0
    failed: Annotated[int, field("Ended with an error.")] = 0


class MPIJobStatus(Model, frozen=True):
    """What is observed of a Kubeflow MPIJob."""

    conditions: Annotated[
        tuple[JobCondition, ...],
        field(
            "Created, Running, Restarting, Succeeded and Failed.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    replica_statuses: Annotated[dict[str, ReplicaCounts], field("Counts per replica type.")] = {}
    start_time: Annotated[datetime | None, field("When the job began.")] = None
    completion_time: Annotated[datetime | None, field("When it ended.")] = None
    last_reconcile_time: Annotated[datetime | None, field("When the status last changed.")] = None
    tasks: Annotated[tuple[Tasks, ...], field("Every replica, by type and index.")] = ()
    first_failure: Annotated[FirstFailure | None, field("Who failed first, and how.")] = None
    disruptions: Annotated[
        int, field("How often the whole job had to start again because a pod was lost.")
    ] = 0
    disrupted_at: Annotated[datetime | None, field("When that last happened.")] = None


class MPIJob(Model, frozen=True):
    """An MPI program of the Kubeflow v1alpha2 API; no sshd is needed in its images."""

    api_version: str = KUBEFLOW_GROUP_VERSION
    kind: str = "MPIJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[MPIJobSpec, field("What to run.", required=True)] = MPIJobSpec()
    status: Annotated[MPIJobStatus | None, field("What is observed; written by the controller alone.")] = None


class MPIJobList(Model, frozen=True):
    api_version: str = KUBEFLOW_GROUP_VERSION
    kind: str = "MPIJobList"
    metadata: ListMeta = ListMeta()
    items: tuple[MPIJob, ...] = ()
