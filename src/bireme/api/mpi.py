"""MPIJob of tensorstack: mpirun over a set of workers that run sshd."""

from typing import Annotated, ClassVar

import msgspec

from bireme.api.job import (
    BATCH_GROUP_VERSION,
    MAX_REPLICAS,
    PATH_PATTERN,
    RUN_MODE,
    RUN_POLICY,
    SCHEDULER,
    STATUS,
    TEMPLATE,
    JobStatus,
    PodTemplate,
    RunMode,
    RunPolicy,
    SchedulePolicy,
)
from bireme.api.meta import ListMeta, ObjectMeta
from bireme.api.model import Model, Rule, field, immutable

WORKER_CONTAINER = "mpi-worker"
LAUNCHER_CONTAINER = "mpi-launcher"


class WorkerConfig(Model, frozen=True):
    """The workers, and what mpirun starts on them."""

    replicas: Annotated[
        int, field("Number of workers.", minimum=1, maximum=MAX_REPLICAS - 1, format="int32")
    ] = 1
    extra_mpi_args: Annotated[
        tuple[str, ...],
        field("Arguments of mpirun, one per item, put before the command.", maxItems=1000),
    ] = msgspec.field(default=(), name="extraMPIArgs")
    cmd: Annotated[
        tuple[str, ...],
        field(
            "The MPI program and its arguments, one per item. It starts once every worker can be reached.",
            required=True,
            minItems=1,
        ),
    ] = ()
    template: Annotated[PodTemplate, TEMPLATE] = {}


class SSHConfig(Model, frozen=True):
    """How launcher and workers talk."""

    ssh_auth_mount_path: Annotated[
        str,
        field(
            "Folder in launcher and workers where the job's ssh files are put.",
            pattern=PATH_PATTERN,
            maxLength=4096,
        ),
    ] = "/root/.ssh"
    sshd_path: Annotated[
        str, field("The sshd program in the worker's image.", pattern=PATH_PATTERN, maxLength=4096)
    ] = "/usr/sbin/sshd"


class MPIJobSpec(Model, frozen=True):
    """What an MPIJob runs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        immutable("scheduler"),
        immutable("ssh"),
        immutable("mpiHome"),
        immutable("mca"),
    )

    worker: Annotated[WorkerConfig, field("The workers and their program.", required=True)] = WorkerConfig()
    mca: Annotated[
        dict[str, str],
        field(
            "MCA parameters of Open MPI, passed to mpirun as `--mca KEY VALUE`.",
            maxProperties=256,
            additionalProperties={"type": "string", "maxLength": 4096},
        ),
    ] = {}
    mpi_home: Annotated[
        str,
        field(
            "Where Open MPI is installed; `bin/mpirun` below it is used.",
            pattern=PATH_PATTERN,
            maxLength=4096,
        ),
    ] = ""
    ssh: Annotated[SSHConfig, field("How launcher and workers talk.")] = SSHConfig()
    run_policy: Annotated[RunPolicy, RUN_POLICY] = RunPolicy()
    run_mode: Annotated[RunMode | None, RUN_MODE] = None
    scheduler: Annotated[SchedulePolicy | None, SCHEDULER] = None


class MPIJob(Model, frozen=True):
    """An MPI program that mpirun starts over a set of workers."""

    api_version: str = BATCH_GROUP_VERSION
    kind: str = "MPIJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[MPIJobSpec, field("What to run.", required=True)] = MPIJobSpec()
    status: Annotated[JobStatus | None, STATUS] = None


class MPIJobList(Model, frozen=True):
    api_version: str = BATCH_GROUP_VERSION
    kind: str = "MPIJobList"
    metadata: ListMeta = ListMeta()
    items: tuple[MPIJob, ...] = ()
