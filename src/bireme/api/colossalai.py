"""ColossalAIJob: torchrun on every worker, started by a launcher over ssh."""

from typing import Annotated, Any, ClassVar

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
from bireme.api.model import Model, Rule, field, immutable, kube

WORKER_CONTAINER = "worker"
LAUNCHER_CONTAINER = "launcher"


class Launcher(Model, frozen=True):
    """The pod that starts torchrun on every worker. Can't change after creation."""

    rules: ClassVar[tuple[Rule, ...]] = (immutable("image"), immutable("workingDir"))

    image: Annotated[
        str, field("Container image with an ssh client; the worker's image when left out.", maxLength=4096)
    ] = ""
    working_dir: Annotated[
        str,
        field(
            "Directory in which torchrun starts on the workers; the worker's own when left out.",
            maxLength=4096,
        ),
    ] = ""
    env: Annotated[
        tuple[dict[str, Any], ...],
        field(
            "Environment of the launcher, added to that of the ranks; the worker's own values win.",
            maxItems=1000,
            items={"x-bireme-kube": "EnvVar"},
        ),
    ] = ()
    resources: Annotated[
        dict[str, Any], kube("ResourceRequirements", "Resources of the launcher's container.")
    ] = {}


class Worker(Model, frozen=True):
    """The workers, and what torchrun starts on them."""

    replicas: Annotated[
        int, field("Number of workers.", minimum=1, maximum=MAX_REPLICAS - 1, format="int32")
    ] = 1
    proc_per_worker: Annotated[
        int, field("Processes on each worker, usually one per GPU.", minimum=1, maximum=1024, format="int32")
    ] = 1
    command: Annotated[
        tuple[str, ...],
        field("The training script and its arguments, one per item.", required=True, minItems=1),
    ] = ()
    torch_args: Annotated[
        tuple[str, ...], field("Arguments of torchrun, one per item, put before the command.")
    ] = ()
    template: Annotated[PodTemplate, TEMPLATE] = {}


class SSHConfig(Model, frozen=True):
    """How launcher and workers talk."""

    auth_mount_path: Annotated[
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


class ColossalAIJobSpec(Model, frozen=True):
    """What a ColossalAIJob runs."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.launcher) == has(oldSelf.launcher)", "launcher can't change after creation"),
        immutable("scheduler"),
        immutable("ssh"),
    )

    launcher: Annotated[Launcher, field("The pod that starts the others.")] = Launcher()
    worker: Annotated[Worker, field("The workers and their program.", required=True)] = Worker()
    ssh: Annotated[SSHConfig, field("How launcher and workers talk.")] = SSHConfig()
    run_policy: Annotated[RunPolicy, RUN_POLICY] = RunPolicy()
    run_mode: Annotated[RunMode | None, RUN_MODE] = None
    scheduler: Annotated[SchedulePolicy | None, SCHEDULER] = None


class ColossalAIJob(Model, frozen=True):
    """Distributed training with torchrun on every worker, as ColossalAI starts it."""

    api_version: str = BATCH_GROUP_VERSION
    kind: str = "ColossalAIJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ColossalAIJobSpec, field("What to run.", required=True)] = ColossalAIJobSpec()
    status: Annotated[JobStatus | None, STATUS] = None


class ColossalAIJobList(Model, frozen=True):
    api_version: str = BATCH_GROUP_VERSION
    kind: str = "ColossalAIJobList"
    metadata: ListMeta = ListMeta()
    items: tuple[ColossalAIJob, ...] = ()
