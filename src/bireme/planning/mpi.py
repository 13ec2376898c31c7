"""MPIJob of tensorstack: mpirun, started by a launcher made from the worker's own container."""

from collections.abc import Sequence
from typing import Any, Final

from bireme.api.mpi import LAUNCHER_CONTAINER, WORKER_CONTAINER, MPIJob
from bireme.api.mpirun import (
    asks_to_bind,
    chooses_output,
    normalize,
    slots_per_worker,
    split_program,
    stdin_option,
    worker_of,
)
from bireme.api.names import WORKER_TYPE
from bireme.planning.actions import Manifest
from bireme.planning.identity import TAG_ANNOTATION
from bireme.planning.launch import LaunchCrew, launcher_debug, launcher_resume, reads_stdin
from bireme.planning.observed import Observed
from bireme.planning.pods import in_debug
from bireme.planning.replicas import Mode
from bireme.planning.site import (
    Site,
    build_children,
    build_hostfile,
    literal,
    node_affinity,
    small_resources,
    without_init,
)
from bireme.planning.ssh import LAUNCHER_KEYS

_FROM_POD: Final = (
    "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostIPC",
    "hostNetwork", "hostPID", "hostUsers", "imagePullSecrets", "initContainers", "nodeSelector", "os",
    "preemptionPolicy", "priorityClassName", "runtimeClassName", "securityContext", "serviceAccount",
    "serviceAccountName", "shareProcessNamespace", "terminationGracePeriodSeconds", "tolerations",
)  # fmt: skip
_FROM_CONTAINER: Final = (
    "image", "imagePullPolicy", "workingDir", "env", "envFrom", "volumeMounts", "securityContext",
)  # fmt: skip


class MPICrew(LaunchCrew):
    """The launcher and workers of an MPIJob."""

    main_container = WORKER_CONTAINER
    launcher_container = LAUNCHER_CONTAINER

    def __init__(self, job: MPIJob) -> None:
        worker = job.spec.worker
        slots = slots_per_worker(worker.extra_mpi_args, worker.replicas, worker.cmd)
        super().__init__(job, worker.replicas, worker.template, slots)
        self._mpi = job

    def site(self, observed: Observed) -> Site:
        ssh = self._mpi.spec.ssh
        return Site(
            self._mpi,
            observed,
            folder=ssh.ssh_auth_mount_path,
            sshd=ssh.sshd_path,
            main=self.main(WORKER_TYPE),
        )

    def worker_of(self, rank: int) -> int | None:
        return worker_of(self._mpi.spec.worker.extra_mpi_args, rank, self._workers, self._slots)

    def children(self, observed: Observed) -> list[Manifest]:
        files = {"hostfile": build_hostfile(self._mpi, self._workers, self._slots)}
        scripts = ["launch", "supervise", "record", "guard", *(["stdin"] if reads_stdin(self._mpi) else ())]
        return build_children(self.site(observed), observed, files, scripts)

    def launcher_spec(self, observed: Observed, mode: Mode) -> Manifest:
        site = self.site(observed)
        spec: dict[str, Any] = self._template.get("spec") or {}
        skip = False
        # The client that sends standard input does not follow a job that was paused, or that is debugged.
        with_stdin = mode == "run" and reads_stdin(self._mpi)
        command, program = site.sh("launch"), self._mpi.spec.worker.cmd
        resume = launcher_resume(self._mpi.spec.run_mode) if mode == "resume" else None
        if resume is not None:
            skip = resume.skip_init_container
            program = resume.args or program
        arguments = self.mpirun(site, program, with_stdin=with_stdin)
        if resume is not None and resume.command:
            arguments = [*resume.command, *resume.args]
        arguments = literal(arguments)
        debug = launcher_debug(self._mpi.spec.run_mode)
        if mode == "debug":
            skip = debug.skip_init_container
        built = self._launcher(site, without_init(spec, skip=skip), command, arguments, with_stdin=with_stdin)
        return in_debug(built, debug.command, skip_init=False) if mode == "debug" else built

    def mpirun(self, site: Site, command: Sequence[str], *, with_stdin: bool = False) -> list[str]:
        """mpirun's argument list to run a command; nothing in it is ever parsed by a shell."""
        spec = self._mpi.spec
        program = f"{spec.mpi_home.rstrip('/')}/bin/mpirun" if spec.mpi_home else "mpirun"
        mca = [word for key, value in spec.mca.items() for word in ("--mca", key, value)]
        hostfile = ["--hostfile", f"{site.profile.files}/hostfile"]
        arguments = normalize(spec.worker.extra_mpi_args)
        more, program_words = split_program(command)
        # Open MPI 5 gives rank 0 a standard input that never ends, also where mpirun's own is empty.
        no_stdin = ["--stdin", "none"] if stdin_option([*arguments, *more]) is None else []
        start = site.sh("stdin") if with_stdin else []
        return [program, *hostfile, *no_stdin, *mca, *arguments, *more, *start, *program_words]

    def _launcher(
        self, site: Site, spec: Manifest, command: list[str], arguments: list[str], *, with_stdin: bool
    ) -> Manifest:
        main = next(c for c in spec["containers"] if c.get("name") == self.main("worker"))
        lacking = {v["name"] for v in spec.get("volumes") or () if _is_hugepages(v)}
        kept = {key: main[key] for key in _FROM_CONTAINER if key in main}
        mounts = [mount for mount in main.get("volumeMounts") or () if mount["name"] not in lacking]
        container = {
            "name": LAUNCHER_CONTAINER,
            **kept,
            "command": command,
            "args": arguments,
            "env": [*(main.get("env") or ()), *site.env(), *self._switches(with_stdin=with_stdin)],
            "resources": small_resources(main.get("resources") or {}),
            "volumeMounts": [*mounts, *site.mounts(main, server=False)],
            **({"stdin": True, "stdinOnce": True} if with_stdin else {}),
        }
        result: Manifest = {key: spec[key] for key in _FROM_POD if key in spec} | node_affinity(spec)
        volumes = [volume for volume in spec.get("volumes") or () if volume["name"] not in lacking]
        inits = [_light(init, lacking) for init in spec.get("initContainers") or () if not _is_sidecar(init)]
        result["initContainers"] = [*site.init_containers(container), *inits]
        result["containers"] = [container]
        result["volumes"] = [*volumes, *site.volumes(LAUNCHER_KEYS, main, server=False)]
        return result

    def _switches(self, *, with_stdin: bool) -> list[Manifest]:
        """What `launch` must know beside its arguments."""
        spec = self._mpi.spec
        more, _ = split_program(spec.worker.cmd)
        switches = {
            "BIREME_MPI_BINDS": asks_to_bind([*spec.worker.extra_mpi_args, *more], spec.mca),
            "BIREME_STDIN": with_stdin,
            "BIREME_TAG_OUTPUT": self._tags_output([*spec.worker.extra_mpi_args, *more]),
        }
        return [{"name": name, "value": "1"} for name, is_on in switches.items() if is_on]

    def _tags_output(self, arguments: Sequence[str]) -> bool:
        is_asked = self._mpi.metadata.annotations.get(TAG_ANNOTATION) == "true"
        return is_asked and not chooses_output(arguments)


def _is_sidecar(container: Manifest) -> bool:
    return container.get("restartPolicy") == "Always"


def _light(container: Manifest, lacking: set[str]) -> Manifest:
    """An init container that asks for nothing that a launcher does without."""
    resources = container.get("resources") or {}
    kept = {
        group: {name: amount for name, amount in resources[group].items() if name in ("cpu", "memory")}
        for group in ("requests", "limits")
        if resources.get(group)
    }
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in lacking]
    result = {key: value for key, value in container.items() if key not in ("resources", "volumeMounts")}
    return {**result, **({"resources": kept} if kept else {}), **({"volumeMounts": mounts} if mounts else {})}


def _is_hugepages(volume: Manifest) -> bool:
    return str((volume.get("emptyDir") or {}).get("medium", "")).startswith("HugePages")
