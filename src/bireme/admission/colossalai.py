"""Rules for ColossalAIJob."""

from bireme.admission import run_mode
from bireme.admission.mpi import (
    LAUNCHER_ALIASES,
    check_clean_up,
    check_program,
    check_worker_names,
    check_worker_template,
)
from bireme.admission.pods import check_env, check_resources
from bireme.admission.problems import Findings
from bireme.admission.queueing import is_queued
from bireme.admission.reserved import check_ssh_folder
from bireme.admission.total_size import ReplicaSize, check_total_size
from bireme.api.colossalai import LAUNCHER_CONTAINER, WORKER_CONTAINER, ColossalAIJob
from bireme.api.names import LAUNCHER_TYPE, WORKER_TYPE
from bireme.api.paths import Path

_LAUNCHER: Path = ("spec", "launcher")
_WORKER: Path = ("spec", "worker")


def check(job: ColossalAIJob, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = job.spec
    check_worker_names(job.metadata, spec.worker.replicas, out)
    check_env(spec.launcher.env, (*_LAUNCHER, "env"), out)
    check_resources(spec.launcher.resources, (*_LAUNCHER, "resources"), out)
    check_worker_template(
        spec.worker.template, WORKER_CONTAINER, (*_WORKER, "template"), out, command="spec.worker.command",
        launcher=LAUNCHER_CONTAINER, queued=is_queued(spec.scheduler),
    )  # fmt: skip
    check_ssh_folder(spec.ssh.auth_mount_path, ("spec", "ssh", "authMountPath"), out)
    if spec.launcher.resources.get("claims"):
        message = "the launcher's pod has no resource claims"
        out.error((*_LAUNCHER, "resources", "claims"), "claims", message, hint="remove them", at_key=True)
    check_program(spec.worker.command, (*_WORKER, "command"), out)
    check_clean_up(spec.run_policy, out)
    worker = ReplicaSize((spec.worker.template, spec.run_mode), spec.worker.replicas, (*_WORKER, "template"))
    check_total_size([worker], out)
    run_mode.check(spec.run_mode, (LAUNCHER_TYPE, WORKER_TYPE), out, aliases=LAUNCHER_ALIASES)
    run_mode.check_launcher_resume(spec.run_mode, "torchrun", "spec.worker.command", LAUNCHER_ALIASES, out)
