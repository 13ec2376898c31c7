"""Rules for the tensorstack MPIJob."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bireme.admission import run_mode
from bireme.admission.metadata import check_derived_names
from bireme.admission.pods import check_template, main_container
from bireme.admission.problems import Findings, SplitItem
from bireme.admission.queueing import is_queued
from bireme.admission.reserved import check_dns_searches, check_reserved, check_ssh_folder
from bireme.admission.total_size import ReplicaSize, check_total_size
from bireme.admission.words import describe
from bireme.api.job import RunPolicy
from bireme.api.meta import ObjectMeta
from bireme.api.mpi import LAUNCHER_CONTAINER, WORKER_CONTAINER, MPIJob, WorkerConfig
from bireme.api.mpirun import (
    DROPPED_OPTIONS,
    HOST_OPTIONS,
    NUMBER_OPTIONS,
    Option,
    missing_values,
    parse_options,
    process_count,
    ranks_per_node,
    slots_per_worker,
)
from bireme.api.names import (
    LAUNCHER_TYPE,
    SSH_JOB_PATHS,
    WORKER_TYPE,
    launcher_name,
    pod_name,
    workers_service_name,
)
from bireme.api.paths import Path

_WORKER: Path = ("spec", "worker")
LAUNCHER_ALIASES: Final = {"master": LAUNCHER_TYPE}
"""`master` is the manual's word for what the pods call `launcher`."""
_TEMPLATE: Path = ("spec", "worker", "template")
_ARGUMENTS: Path = ("spec", "worker", "extraMPIArgs")
_SHELL: Final = re.compile(r"[$`\"'\\\n]")
_MCA_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SSHD_CAPABILITIES: Final = ("SETUID", "SETGID", "SYS_CHROOT")
_REPLACED: Final = ("command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def check(job: MPIJob, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = job.spec
    check_worker_names(job.metadata, spec.worker.replicas, out)
    check_worker_template(
        spec.worker.template, WORKER_CONTAINER, _TEMPLATE, out, command="spec.worker.cmd",
        launcher=LAUNCHER_CONTAINER, queued=is_queued(spec.scheduler),
    )  # fmt: skip
    check_ssh_folder(spec.ssh.ssh_auth_mount_path, ("spec", "ssh", "sshAuthMountPath"), out)
    _check_mca(spec.mca, out)
    _check_arguments(spec.worker, out)
    check_program(spec.worker.cmd, (*_WORKER, "cmd"), out)
    check_clean_up(spec.run_policy, out)
    worker = ReplicaSize((spec.worker.template, spec.run_mode), spec.worker.replicas, (*_WORKER, "template"))
    check_total_size([worker], out)
    run_mode.check(spec.run_mode, (LAUNCHER_TYPE, WORKER_TYPE), out, aliases=LAUNCHER_ALIASES)
    run_mode.check_launcher_resume(spec.run_mode, "mpirun", "spec.worker.cmd", LAUNCHER_ALIASES, out)


def check_worker_names(metadata: ObjectMeta, replicas: int, out: Findings) -> None:
    """Check the names of launcher, workers and their Service."""
    own = metadata.name or metadata.generate_name
    derived = (launcher_name(own), workers_service_name(own), pod_name(own, WORKER_TYPE, replicas - 1))
    check_derived_names(metadata, derived, out)


def check_worker_template(
    template: Mapping[str, Any],
    main: str,
    path: Path,
    out: Findings,
    *,
    command: str,
    launcher: str,
    queued: bool,
) -> None:
    """Check the template of workers that run sshd: what is replaced, and what sshd needs."""
    check_template(template, path, out, queued=queued)
    check_reserved(template, path, out, paths=SSH_JOB_PATHS, names=[launcher])
    check_dns_searches(template, path, out)
    found = main_container(template, main, path, out)
    if found is None:
        return
    container, where = found
    for field in _REPLACED:
        if container.get(field):
            out.warn(
                (*where, field),
                "replaced",
                f"the `{field}` of this container is replaced: it runs sshd",
                hint=f"put the program into `{command}`" if field in ("command", "args") else "remove it",
                at_key=True,
            )
    _check_capabilities(template.get("spec") or {}, container, where, out)


def _check_capabilities(
    spec: Mapping[str, Any], container: Mapping[str, Any], path: Path, out: Findings
) -> None:
    pod_context, own = spec.get("securityContext") or {}, container.get("securityContext") or {}
    context = {**pod_context, **own}
    if context.get("runAsUser") or context.get("runAsNonRoot"):
        return
    capabilities = own.get("capabilities") or {}
    added = {name.upper().removeprefix("CAP_") for name in capabilities.get("add") or ()}
    dropped = {name.upper().removeprefix("CAP_") for name in capabilities.get("drop") or ()}
    if "ALL" in added or not dropped:
        return
    lost = (
        _SSHD_CAPABILITIES if "ALL" in dropped else [name for name in _SSHD_CAPABILITIES if name in dropped]
    )
    missing = [name for name in lost if name not in added]
    if missing:
        out.warn(
            (*path, "securityContext", "capabilities"),
            "sshd-capabilities",
            f"sshd as root needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} dropped",
            hint="add them under `capabilities.add`, or set `runAsUser` to a user other than root",
        )


def _check_mca(mca: Mapping[str, str], out: Findings) -> None:
    for key, value in mca.items():
        if _SHELL.search(value):
            message = (
                f"{describe(value)} can't be passed on: Open MPI 4.1 lets a shell on the workers read it"
            )
            hint = "leave out $, `, quotes, backslashes and line breaks"
            out.error(("spec", "mca", key), "mca-value", message, value=value, hint=hint)
        if not _MCA_KEY.fullmatch(key):
            message = f"{describe(key)} is not the name of an MCA parameter"
            hint = "use letters, digits and `_`, such as btl_tcp_if_include"
            out.error(("spec", "mca", key), "mca-key", message, value=key, hint=hint, at_key=True)


def _check_arguments(worker: WorkerConfig, out: Findings) -> None:
    arguments = worker.extra_mpi_args
    joined = {i for i, argument in enumerate(arguments) if _check_joined(argument, (*_ARGUMENTS, i), out)}
    for option in parse_options(arguments):
        if option.index not in joined:
            _check_option(option, arguments[option.index], out)
    if not joined:
        _check_process_count(worker, out)


def _check_joined(argument: str, path: Path, out: Findings) -> bool:
    """Report an option that has its value in the same item; mpirun would not know it."""
    if not argument.startswith("-") or not re.search(r"\s", argument):
        return False
    parts = tuple(argument.split())
    plain = not re.search(r"[\"'\\]", argument)
    out.error(
        path,
        "joined-arguments",
        f"{describe(argument)} is one argument, and mpirun knows no such option",
        value=argument,
        hint=f"write one argument per item: {', '.join(describe(part) for part in parts)}" if plain else None,
        fix=SplitItem(parts) if plain else None,
    )
    return True


def _check_option(option: Option, text: str, out: Findings) -> None:
    where = (*_ARGUMENTS, option.index)
    if not text.startswith("-"):
        message = f"{describe(text)} is not an option: mpirun would take it for the program"
        out.error(where, "stray-argument", message, value=text, hint="put the program into `spec.worker.cmd`")
    elif option.name in HOST_OPTIONS:
        message = f"{describe(text)} is refused: the hostfile is made from the job's workers"
        out.error(
            where,
            "host-option",
            message,
            value=text,
            hint="remove it and its value; set `spec.worker.replicas`",
        )
    elif lacking := missing_values(option):
        values = "a value" if lacking == 1 else f"{lacking} values"
        hint = f"put {values} after it, or remove it"
        out.error(
            where,
            "option-value",
            f"{describe(text)} lacks {values}: mpirun refuses it",
            value=text,
            hint=hint,
        )
    elif option.name in NUMBER_OPTIONS and not _is_number(option.value):
        message = f"{describe(option.value)} is not a number of ranks, which {describe(text)} takes"
        out.error(
            (*_ARGUMENTS, option.index + len(option.values)),
            "option-value",
            message,
            value=option.value,
            hint="use a whole number, such as 4",
        )
    elif option.name in DROPPED_OPTIONS:
        message = f"{describe(text)} is dropped: with it, mpirun hides the failure of a rank"
        out.warn(where, "dropped-option", message, value=text, hint="remove it")


def _is_number(value: str) -> bool:
    """Whether a value is a whole number, or may become one: Kubernetes puts variables in."""
    return value.isascii() and (value.isdecimal() or "$(" in value)


def _check_process_count(worker: WorkerConfig, out: Findings) -> None:
    ranks = process_count(worker.extra_mpi_args)
    if ranks is None:
        return
    per_node = ranks_per_node(worker.extra_mpi_args)
    slots = worker.replicas * slots_per_worker(worker.extra_mpi_args, worker.replicas)
    if (per_node is not None and ranks != slots) or ranks < worker.replicas:
        index = max(o.index for o in parse_options(worker.extra_mpi_args) if o.name in ("np", "n", "c"))
        each = slots // worker.replicas
        out.warn(
            (*_ARGUMENTS, index + 1),
            "process-count",
            f"{ranks} processes do not fit {worker.replicas} workers × {each} slots = {slots}",
            value=ranks,
            hint=f"ask for {slots}, or change the number of workers",
        )


def check_program(command: Sequence[str], path: Path, out: Findings) -> None:
    """Warn of a command line written as one string: no shell is there to split it."""
    if len(command) == 1 and re.search(r"\s", command[0].strip()):
        message = f"{describe(command[0])} is taken as the name of one program; no shell splits it"
        out.warn((*path, 0), "one-string", message, value=command[0], hint="write one argument per item")


def check_clean_up(policy: RunPolicy, out: Findings) -> None:
    """Warn where nothing says what happens to the workers: by default they run on, and cost."""
    if policy.clean_up_workers is None:
        out.warn(
            ("spec", "runPolicy", "cleanUpWorkers"),
            "workers-left-running",
            "not set: workers go on running after the job has ended",
            hint="set it to unfinished or all, or to none to keep them without this warning",
        )
