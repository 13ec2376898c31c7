"""What a manifest of a cluster names and this machine lacks: what stands in for it, and how that is told."""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from bireme.node.cpus import binding_workers
from bireme.node.seen import Object

WORK_FOLDER: Final = "BIREME_WORKDIR"
"""The variable by which a launcher tells where torchrun starts."""
_USUAL_SSHD: Final = "/usr/sbin/sshd"
_OURS: Final = "bireme-"
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")


class Needs(NamedTuple):
    """What a job expects in its image, beside what its containers say."""

    mpi_home: str = ""
    sshd: str = ""
    services: bool = False
    """Whether its replicas look for one another by the names of services."""
    binding_workers: int = 0
    """How many workers share this machine's CPUs, if mpirun is to bind ranks to them."""


NOTHING: Final = Needs()


def needs_of(job: Object | None) -> Needs:
    """Those of any kind of job. The usual sshd is not worth a word: a job need not have named it."""
    spec = (job or {}).get("spec") or {}
    sshd = (spec.get("ssh") or {}).get("sshdPath") or ""
    services = bool((spec.get("service") or {}).get("ports"))
    home = (spec.get("mpiHome") or "").rstrip("/")
    return Needs(home, "" if sshd == _USUAL_SSHD else sshd, services, binding_workers(job))


def unasked(container: Object) -> list[str]:
    """What to say of probes that can't be made: one that failed would end a healthy container."""
    names = [name for name in _PROBES if "grpc" in (container.get(name) or {})]
    who = container["name"]
    return [
        f"{name} of container {who}: gRPC is not spoken here, the probe counts as passed" for name in names
    ]


class Substitutes:
    """Finds out what of a container's wishes is here; `notices` grows with what is not."""

    def __init__(self, mounted: Sequence[str]) -> None:
        self._mounted = mounted
        self.notices: list[str] = []

    def directory(self, wanted: str, otherwise: str) -> str:
        """Where a container starts."""
        if not wanted or self._has_folder(wanted):
            return wanted or otherwise
        self.notices.append(f"workingDir {wanted} is not on this machine: {otherwise} is used")
        return otherwise

    def words(self, argv: list[str], needs: Needs) -> list[str]:
        """A command, with the mpirun of PATH in the place of one that is not here."""
        program = f"{needs.mpi_home}/bin/mpirun"
        if not needs.mpi_home or program not in argv or self._has_program(program):
            return argv
        self.notices.append(f"mpiHome {needs.mpi_home} has no Open MPI on this machine: that of PATH is used")
        return ["mpirun" if word == program else word for word in argv]

    def variables(self, env: dict[str, str], otherwise: str) -> dict[str, str]:
        """The environment; a launcher's word on where to start is dropped where there is no such place."""
        wanted = env.get(WORK_FOLDER, "")
        if not wanted or self.directory(wanted, otherwise) == wanted:
            return env
        return {name: value for name, value in env.items() if name != WORK_FOLDER}

    def login(self, needs: Needs) -> None:
        """Nothing is put in the place of an sshd: none is needed to reach a worker here."""
        if needs.sshd and not self._has_program(needs.sshd):
            self.notices.append(
                f"sshdPath {needs.sshd} is not on this machine: workers are reached without ssh"
            )

    def services(self, needs: Needs, *, can_mount: bool) -> None:
        """A name needs a file of the pod's own, and a port of the pod's own a network."""
        if needs.services and not can_mount:
            self.notices.append(
                "service.ports: pods get no network of their own on this machine: names of services do not"
                " resolve, and replicas share its ports"
            )

    def limits(self, container: Object, missing: Sequence[str]) -> None:
        """Limits that nothing holds a container to. Those of our own containers are nobody's wish."""
        if missing and not container["name"].startswith(_OURS):
            what = " and ".join(missing)
            self.notices.append(f"limits of {what} are advice on this machine: it has no cgroup for us")

    def binding(self, *, has_cpus: bool) -> None:
        """Warn that workers share CPUs to which their ranks are bound."""
        if not has_cpus:
            self.notices.append(
                "binding of ranks: workers get no CPUs of their own on this machine, so ranks of different"
                " workers are bound to the same CPUs: use one worker (`bireme mpirun`), or --bind-to none"
            )

    def ulimits(self, lowered: Sequence[str]) -> None:
        """Say which limits of the submitter's are higher than the daemon may set."""
        if lowered:
            names = ", ".join(sorted(lowered))
            self.notices.append(
                f"ulimits: {names} can't be as high as in your shell, because the daemon was started with"
                " lower ones: `bireme down`, then start it from this shell"
            )

    def _has_folder(self, path: str) -> bool:
        return (os.path.isdir(path) and os.access(path, os.X_OK)) or self._is_mounted(path)  # noqa: PTH112

    def _has_program(self, path: str) -> bool:
        return os.access(path, os.X_OK) or self._is_mounted(path)

    def _is_mounted(self, path: str) -> bool:
        return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in self._mounted)
