"""What the three tensorstack job kinds share: run modes, scheduling and status."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from bireme.api.meta import Condition
from bireme.api.model import Model, Rule, field, kube

BATCH_GROUP_VERSION = "batch.tensorstack.dev/v1beta1"
MAX_REPLICAS = 5000
"""The most replicas of one job; with more, its status would pass Kubernetes' size limit for an object."""
MAX_REPLICA_TYPES = 64
QUEUE_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""A DNS name; no longer than a label, as the pods of a queue carry it as one."""
PATH_PATTERN = r"^/\S*$"
"""An absolute path; without white space, as configuration files have no quotes for it."""

PodTemplate = dict[str, Any]
"""A pod template stays plain data: no field of it is lost, also one that this version does not know."""

TEMPLATE = kube(
    "PodTemplateSpec",
    "The pod that every replica runs; fields are those of a Kubernetes pod template.",
    required=True,
)


FLAGS_AGREE = Rule(
    "!has(self.enabled) || !has(self.enable) || self.enabled == self.enable",
    "enable contradicts enabled",
    ".enable",
)


class ReplicaDebugSet(Model, frozen=True):
    """How the replicas of one type start in debug mode."""

    type: Annotated[str, field("The replica type that this entry is for.", required=True)] = ""
    skip_init_container: Annotated[bool, field("Leave the init containers out.")] = False
    command: Annotated[
        tuple[str, ...],
        field("What every container runs instead of its own command; `sleep inf` when left out."),
    ] = ()


class DebugMode(Model, frozen=True):
    """Create the pods but let them idle, so that the environment can be tried by hand."""

    rules: ClassVar[tuple[Rule, ...]] = (FLAGS_AGREE,)

    enabled: Annotated[bool | None, field("Switch debug mode on.")] = None
    enable: Annotated[bool | None, field("The older name of `enabled`; both must agree.")] = None
    replica_specs: Annotated[
        tuple[ReplicaDebugSet, ...],
        field(
            "Settings per replica type; a type not named here gets the defaults.", maxItems=MAX_REPLICA_TYPES
        ),
    ] = ()

    @property
    def on(self) -> bool:
        return bool(self.enabled or self.enable)


class ResumeSpec(Model, frozen=True):
    """How the replicas of one type start when the job goes on after a pause."""

    type: Annotated[str, field("The replica type that this entry is for.", required=True)] = ""
    skip_init_container: Annotated[bool, field("Leave the init containers out.")] = False
    command: Annotated[
        tuple[str, ...],
        field(
            "Replaces the container's command; its own is used when left out. A launcher of an MPIJob or "
            "ColossalAIJob runs this and `args` in the place of mpirun or torchrun, once it has reached "
            "every worker."
        ),
    ] = ()
    args: Annotated[
        tuple[str, ...],
        field(
            "Replaces the container's arguments; its own are used when left out. Without a command, those of "
            "a launcher are the program that mpirun or torchrun runs in the place of `worker.cmd` or "
            "`worker.command`, such as one that goes on from a checkpoint."
        ),
    ] = ()


class PauseMode(Model, frozen=True):
    """Delete the pods, gracefully, and keep everything else until the job is resumed."""

    rules: ClassVar[tuple[Rule, ...]] = (FLAGS_AGREE,)

    enabled: Annotated[bool | None, field("Switch pause mode on.")] = None
    enable: Annotated[bool | None, field("The older name of `enabled`; both must agree.")] = None
    resume_specs: Annotated[
        tuple[ResumeSpec, ...],
        field(
            "Commands per replica type for when the job is resumed. Can't change after creation.",
            maxItems=MAX_REPLICA_TYPES,
        ),
    ] = ()

    @property
    def on(self) -> bool:
        return bool(self.enabled or self.enable)


class RunMode(Model, frozen=True):
    """Whether the job runs (the default), idles for debugging, or is paused. Pause wins over debug."""

    debug: Annotated[DebugMode | None, field("Pods are created but idle.")] = None
    pause: Annotated[PauseMode | None, field("Pods are deleted until the job is resumed.")] = None


class T9kScheduler(Model, frozen=True):
    """Queue the job and start all its pods together or none."""

    queue: Annotated[
        str,
        field("Name of the Queue.", required=True, minLength=1, maxLength=63, pattern=QUEUE_PATTERN),
    ] = ""
    priority: Annotated[
        int, field("Order inside the queue, 0 to 100; larger goes first.", minimum=0, maximum=100)
    ] = 0


class SchedulePolicy(Model, frozen=True):
    """Which scheduler places the pods; the cluster's own when nothing is set."""

    t9k_scheduler: Annotated[T9kScheduler | None, field("Use the gang scheduler with queues.")] = None


SCHEDULER = field("Where the job is queued; the cluster's default scheduler when left out.")
RUN_MODE = field("Immediate when left out: the job starts as soon as it is created.")

CleanUp = Literal["none", "unfinished", "all"]


class RunPolicy(Model, frozen=True):
    """What happens when the job ends."""

    clean_up_workers: Annotated[
        bool | str | None,
        field(
            "Which workers are deleted when the job ends: false or none (the default) keeps them, "
            "unfinished deletes those that still run, true or all deletes every one.",
            **{
                "x-bireme-untyped": True,
                "enum": [True, False, "all", "unfinished", "none"],
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
    ] = None

    @property
    def clean_up(self) -> CleanUp:
        match self.clean_up_workers:
            case True | "all":
                return "all"
            case "unfinished":
                return "unfinished"
            case _:
                return "none"


RUN_POLICY = field("What happens when the job ends.")

# ---- status

JobPhase = Literal["Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown"]
ReplicaPhase = Literal["Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted"]
ContainerPhase = Literal["Waiting", "Running", "Terminated", "Unknown"]


class ContainerStatus(Model, frozen=True):
    """A container of a replica that is not plainly running."""

    name: Annotated[str, field("Name of the container.")] = ""
    container_phase: Annotated[ContainerPhase | None, field("What the container does.")] = None
    exit_code: Annotated[int | None, field("How it ended.")] = None
    reason: Annotated[str, field("Why it waits or how it ended, in one word.")] = ""


class ReplicaStatus(Model, frozen=True):
    """One replica and the pod that stands for it now."""

    name: Annotated[str, field("Name of the pod.")] = ""
    uid: Annotated[str, field("UID of the pod.")] = ""
    phase: Annotated[ReplicaPhase | None, field("What the replica does.")] = None
    restarts: Annotated[int, field("How often this replica was restarted after a failure.")] = 0
    finished_at: Annotated[datetime | None, field("When its main container ended.")] = None
    waiting: Annotated[bool, field("It has not run yet since the job's start, or since it was resumed.")] = (
        False
    )
    replacing: Annotated[
        bool, field("The pod of this UID is being replaced: what becomes of it no longer counts.")
    ] = False
    doubted: Annotated[
        bool, field("A worker was replaced while this launcher ran: its success does not count.")
    ] = False
    disruptions: Annotated[int, field("How often its pod was lost through no fault of the program.")] = 0
    disrupted_at: Annotated[datetime | None, field("When that last happened.")] = None
    containers: Annotated[
        tuple[ContainerStatus, ...], field("Its containers; left out while all of them plainly run.")
    ] = ()


class Tasks(Model, frozen=True, omit_defaults=False):
    """The replicas of one type."""

    type: Annotated[str, field("The replica type.")] = ""
    restart_count: Annotated[int, field("Restarts of all its replicas together.")] = 0
    replicas: Annotated[tuple[ReplicaStatus, ...], field("Each replica, by index.")] = ()


class Aggregate(Model, frozen=True, omit_defaults=False):
    """How many replicas are in each phase."""

    creating: Annotated[int, field("Created, not yet given to a node.")] = 0
    pending: Annotated[int, field("On a node, not all containers started.")] = 0
    running: Annotated[int, field("Running.")] = 0
    succeeded: Annotated[int, field("Ended well.")] = 0
    failed: Annotated[int, field("Ended with an error.")] = 0
    unknown: Annotated[int, field("Nothing is heard of them.")] = 0
    deleted: Annotated[int, field("Their pods are gone.")] = 0


class FirstFailure(Model, frozen=True):
    """Who failed first, and how; kept after the pods are gone."""

    replica: Annotated[str, field("Name of the pod that failed first.")] = ""
    rank: Annotated[int | None, field("The rank inside it, where one is known.")] = None
    container: Annotated[str, field("The container that ended.")] = ""
    is_init: Annotated[bool, field("It was an init container: the replica's program never ran.")] = False
    exit_code: Annotated[int | None, field("Its exit code.")] = None
    signal: Annotated[int | None, field("The signal that ended it.")] = None
    reason: Annotated[str, field("Why, in one word, such as OOMKilled.")] = ""
    message: Annotated[str, field("The end of what it printed.")] = ""
    time: Annotated[datetime | None, field("When.")] = None


class JobStatus(Model, frozen=True):
    """What is observed of a job."""

    phase: Annotated[JobPhase | None, field("The job's life in one word.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        field(
            "Initialized, Running, ReplicaFailure, Completed, Failed and Paused.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    tasks: Annotated[tuple[Tasks, ...], field("Every replica, by type and index.")] = ()
    aggregate: Annotated[Aggregate | None, field("How many replicas are in each phase.")] = None
    first_failure: Annotated[FirstFailure | None, field("Who failed first, and how.")] = None
    disruptions: Annotated[
        int, field("How often the whole job had to start again because a pod was lost.")
    ] = 0
    disrupted_at: Annotated[datetime | None, field("When that last happened.")] = None
    waiting_reported_at: Annotated[
        datetime | None,
        field("When the condition Running was last renewed with the reason of a queue or scheduler."),
    ] = None
    observed_generation: Annotated[int, field("The generation of the spec that this status speaks of.")] = 0
    start_time: Annotated[
        datetime | None, field("When the first pod ran; also of a job that ended at once.")
    ] = None
    completion_time: Annotated[datetime | None, field("When the job ended.")] = None


STATUS = field("What is observed; written by the controller alone.")


def condition(status: JobStatus | None, type_: str) -> Condition | None:
    """The condition of that type, if the status has one."""
    return next((c for c in status.conditions if c.type == type_), None) if status else None


def is_stopped(status: JobStatus | None) -> bool:
    """Whether the job is paused and no pod of it is left, so that its templates may change."""
    paused = condition(status, "Paused")
    return paused is not None and paused.status == "True" and paused.reason == "Stopped"
