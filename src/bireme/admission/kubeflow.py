"""Rules for the Kubeflow MPIJob, v1alpha2."""

from bireme.admission.metadata import check_derived_names
from bireme.admission.pods import check_template
from bireme.admission.problems import Findings, RenameKey
from bireme.admission.reserved import check_reserved
from bireme.admission.total_size import ReplicaSize, check_total_size
from bireme.admission.words import describe, join
from bireme.api.kubeflow import LAUNCHER, WORKER, MPIJob, MPIJobSpec, ReplicaSpec
from bireme.api.names import KUBEFLOW_PATHS, WORKER_TYPE, launcher_name, pod_name
from bireme.api.paths import Path
from bireme.api.scheduler import QUEUE_LABEL

_REPLICA_SPECS: Path = ("spec", "mpiReplicaSpecs")
_SCHEDULING: Path = ("spec", "runPolicy", "schedulingPolicy")


def check(job: MPIJob, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = job.spec
    queue = _check_queue(job, out)
    _check_types(spec, out)
    workers = spec.mpi_replica_specs.get(WORKER, ReplicaSpec())
    own = job.metadata.name or job.metadata.generate_name
    derived = (launcher_name(own), pod_name(own, WORKER_TYPE, max(workers.replicas - 1, 0)))
    check_derived_names(job.metadata, derived, out)
    for name, replica in spec.mpi_replica_specs.items():
        where = (*_REPLICA_SPECS, name, "template")
        check_template(replica.template, where, out, queued=bool(queue), may_queue=False)
        check_reserved(replica.template, where, out, paths=KUBEFLOW_PATHS)
    check_total_size(
        (
            ReplicaSize((replica.template,), replica.replicas, (*_REPLICA_SPECS, name, "template"))
            for name, replica in spec.mpi_replica_specs.items()
        ),
        out,
    )
    _check_main_container(spec, workers, out)
    _check_policies(spec, out)
    _check_minimum(spec, out, queued=bool(queue))
    _check_clean_up(spec, out)


def _check_queue(job: MPIJob, out: Findings) -> str:
    """Return the queue that the job names, empty if none."""
    policy = job.spec.run_policy.scheduling_policy if job.spec.run_policy else None
    queue, label = policy.queue if policy else "", job.metadata.labels.get(QUEUE_LABEL, "")
    if queue and label and queue != label:
        message = f"{describe(queue)} differs from the job's label {QUEUE_LABEL}, {describe(label)}"
        out.error((*_SCHEDULING, "queue"), "queue", message, value=queue, hint="remove one of the two")
    return queue or label


def _check_types(spec: MPIJobSpec, out: Findings) -> None:
    meant: set[str] = set()
    for name in spec.mpi_replica_specs:
        if name not in (LAUNCHER, WORKER):
            near = out.guess(name, (LAUNCHER, WORKER))
            meant.add(near or "")
            out.error(
                (*_REPLICA_SPECS, name),
                "unknown-type",
                f"{describe(name)} is not a replica type: there are Launcher and Worker",
                value=name,
                hint=f"did you mean `{near}`?" if near else None,
                fix=RenameKey(near) if near and near not in spec.mpi_replica_specs else None,
                at_key=True,
            )
    for name in (LAUNCHER, WORKER):
        if name not in spec.mpi_replica_specs and name not in meant:
            out.error((*_REPLICA_SPECS, name), "required", "required field is missing", hint="a job has both")
    launcher, workers = spec.mpi_replica_specs.get(LAUNCHER), spec.mpi_replica_specs.get(WORKER)
    if launcher is not None and launcher.replicas != 1:
        where = (*_REPLICA_SPECS, LAUNCHER, "replicas")
        out.error(
            where, "range", f"{launcher.replicas} is not 1: there is one launcher", value=launcher.replicas
        )
    if workers is not None and workers.replicas < 1:
        where = (*_REPLICA_SPECS, WORKER, "replicas")
        out.error(where, "range", f"{workers.replicas} is less than 1", value=workers.replicas)


def _check_main_container(spec: MPIJobSpec, workers: ReplicaSpec, out: Findings) -> None:
    containers = (workers.template.get("spec") or {}).get("containers") or ()
    names = [container.get("name", "") for container in containers]
    if spec.main_container and containers and spec.main_container not in names:
        message = f"no container of the workers is named {describe(spec.main_container)}"
        hint = f"use {join(names)}"
        out.error(("spec", "mainContainer"), "main-container", message, value=spec.main_container, hint=hint)


def _check_policies(spec: MPIJobSpec, out: Findings) -> None:
    policy = spec.run_policy
    inner = policy.active_deadline_seconds if policy else None
    launcher = spec.mpi_replica_specs.get(LAUNCHER)
    if (
        (inner or spec.active_deadline_seconds)
        and launcher
        and launcher.restart_policy in ("Never", "ExitCode")
    ):
        where = ("spec", "runPolicy", "activeDeadlineSeconds") if inner else ("spec", "activeDeadlineSeconds")
        out.warn(
            where,
            "deadline-ignored",
            f"has no effect with the launcher's restartPolicy {launcher.restart_policy}",
            hint="set restartPolicy to OnFailure or Always",
            at_key=True,
        )


def _check_clean_up(spec: MPIJobSpec, out: Findings) -> None:
    """Warn where nothing says what happens to the workers: by default they run on, and cost."""
    inner = spec.run_policy.clean_pod_policy if spec.run_policy else None
    if spec.clean_pod_policy is None and inner is None:
        out.warn(
            ("spec", "cleanPodPolicy"),
            "workers-left-running",
            "not set: workers go on running after the job has ended",
            hint="set it to Running or All, or to None to keep them without this warning",
        )


def _check_minimum(spec: MPIJobSpec, out: Findings, *, queued: bool) -> None:
    policy, where = spec.run_policy, (*_SCHEDULING, "minAvailable")
    total = sum(replica.replicas for replica in spec.mpi_replica_specs.values())
    minimum = policy.scheduling_policy.min_available if policy and policy.scheduling_policy else None
    if minimum is not None and minimum <= total and not queued:
        message = "has no effect: the job names no queue"
        hint = f"set `queue` beside it, or the job's label {QUEUE_LABEL}"
        out.warn(where, "ignored", message, hint=hint, at_key=True)
    if minimum is not None and minimum > total:
        message = f"{minimum} pods can never be there: the job has {total}"
        out.error(where, "range", message, value=minimum)
