"""The six kinds: names, scope, columns and struct of each."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bireme.api import colossalai, generic, kubeflow, mpi, scheduler
from bireme.api.model import Model
from bireme.api.variables import GUIDE, VariableGuide


class Column(NamedTuple):
    """A column of `kubectl get`; priority 1 shows with `-o wide` only."""

    name: str
    type: str
    json_path: str
    description: str
    priority: int = 0


class Kind(NamedTuple):
    """All that is needed to serve, decode and print one kind."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    struct: type[Model]
    list_struct: type[Model]
    columns: tuple[Column, ...]
    variables: VariableGuide | None = None
    """What users read of the variables in commands; None if the kind has none."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")
_JOB_COLUMNS: Final = (
    Column("Phase", "string", ".status.phase", "The job's life in one word."),
    Column("Running", "integer", ".status.aggregate.running", "Replicas that run."),
    Column("Succeeded", "integer", ".status.aggregate.succeeded", "Replicas that ended well."),
    Column("Failed", "integer", ".status.aggregate.failed", "Replicas that ended with an error."),
    _AGE,
    Column("Queue", "string", ".spec.scheduler.t9kScheduler.queue", "The job's queue.", 1),
    Column("First failure", "string", ".status.firstFailure.replica", "Who failed first.", 1),
)
_KUBEFLOW_COLUMNS: Final = (
    Column("State", "string", ".status.conditions[-1:].type", "The latest condition."),
    Column("Workers", "integer", ".spec.mpiReplicaSpecs.Worker.replicas", "Number of workers."),
    Column("Active", "integer", ".status.replicaStatuses.Worker.active", "Workers that run."),
    _AGE,
)
_QUEUE_COLUMNS: Final = (
    Column("Priority", "integer", ".spec.priority", "Order among queues."),
    Column("Closed", "boolean", ".spec.closed", "Whether it starts nothing new."),
    Column("Groups", "integer", ".status.podGroups.total", "PodGroups in the queue."),
    Column("Running", "integer", ".status.pods.running", "Pods that run."),
    Column("Pending", "integer", ".status.pods.pending", "Pods that wait."),
    _AGE,
    Column("Max duration", "string", ".spec.maxDuration", "The longest that a pod may be bound.", 1),
)
_POD_GROUP_COLUMNS: Final = (
    Column("Queue", "string", ".spec.queue", "The group's queue."),
    Column("Members", "integer", ".spec.minMember", "Pods that must start together."),
    Column("Running", "integer", ".status.running", "Pods that run."),
    Column("Pending", "integer", ".status.pending", "Pods that wait."),
    _AGE,
    Column("Priority", "integer", ".spec.priority", "Order inside the queue.", 1),
)

GENERIC_JOB: Final = Kind(
    "batch.tensorstack.dev", "v1beta1", "GenericJob", "genericjobs", ("gj",), True,
    generic.GenericJob, generic.GenericJobList, _JOB_COLUMNS, GUIDE,
)  # fmt: skip
MPI_JOB: Final = Kind(
    "batch.tensorstack.dev", "v1beta1", "MPIJob", "mpijobs", ("tmpi",), True,
    mpi.MPIJob, mpi.MPIJobList, _JOB_COLUMNS,
)  # fmt: skip
COLOSSALAI_JOB: Final = Kind(
    "batch.tensorstack.dev", "v1beta1", "ColossalAIJob", "colossalaijobs", ("caij",), True,
    colossalai.ColossalAIJob, colossalai.ColossalAIJobList, _JOB_COLUMNS,
)  # fmt: skip
KUBEFLOW_MPI_JOB: Final = Kind(
    "kubeflow.org", "v1alpha2", "MPIJob", "mpijobs", ("mj", "mpij"), True,
    kubeflow.MPIJob, kubeflow.MPIJobList, _KUBEFLOW_COLUMNS,
)  # fmt: skip
QUEUE: Final = Kind(
    "scheduler.tensorstack.dev", "v1beta1", "Queue", "queues", ("q",), False,
    scheduler.Queue, scheduler.QueueList, _QUEUE_COLUMNS,
)  # fmt: skip
POD_GROUP: Final = Kind(
    "scheduler.tensorstack.dev", "v1beta1", "PodGroup", "podgroups", ("pg",), True,
    scheduler.PodGroup, scheduler.PodGroupList, _POD_GROUP_COLUMNS,
)  # fmt: skip

KINDS: Final = (GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB, KUBEFLOW_MPI_JOB, QUEUE, POD_GROUP)
JOB_KINDS: Final = (GENERIC_JOB, MPI_JOB, COLOSSALAI_JOB, KUBEFLOW_MPI_JOB)

_BY_TYPE: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}


def find_kind(api_version: object, kind: object) -> Kind | None:
    """The kind of an object, None if it is not one of ours."""
    if isinstance(api_version, str) and isinstance(kind, str):
        return _BY_TYPE.get((api_version, kind))
    return None


def kinds_named(word: str) -> Iterator[Kind]:
    """Kinds that a user may mean by `mpijob`, `mpijobs`, `tmpi` or `mpijobs.kubeflow.org`."""
    name, _, group = word.lower().partition(".")
    for kind in KINDS:
        if name in {kind.singular, kind.plural, *kind.short_names} and kind.group.startswith(group):
            yield kind
