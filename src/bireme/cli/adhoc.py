"""Jobs that are made of a command alone."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from bireme.planning.identity import STDIN_ANNOTATION

Object = dict[str, Any]

_INTERPRETERS = re.compile(
    r"python[0-9.]*|mpi4py|sh|bash|zsh|env|mpirun|mpiexec|torchrun|nice|time|perl|ruby|node|julia"
)
_LONGEST_NAME = 30
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_BATCH = "batch.tensorstack.dev/v1beta1"
LOCAL_IMAGE = "local"
"""An image that nobody looks at: without a cluster the programs of this machine are used."""


def build_mpi_job(
    name: str,
    workers: int,
    arguments: Sequence[str],
    command: Sequence[str],
    image: str = LOCAL_IMAGE,
    env: Mapping[str, str] | None = None,
    *,
    with_stdin: bool = False,
) -> Object:
    """An MPIJob that runs a command with these arguments of mpirun."""
    worker: Object = {
        "replicas": workers,
        "extraMPIArgs": list(arguments),
        "cmd": list(command),
        "template": _template("mpi-worker", image, env or {}),
    }
    spec: Object = {"worker": worker, "runPolicy": {"cleanUpWorkers": "all"}}
    metadata: Object = {"name": name}
    if with_stdin:
        metadata["annotations"] = {STDIN_ANNOTATION: "true"}
    return {"apiVersion": _BATCH, "kind": "MPIJob", "metadata": metadata, "spec": spec}


def build_generic_job(
    name: str,
    replicas: int,
    command: Sequence[str],
    image: str = LOCAL_IMAGE,
    env: Mapping[str, str] | None = None,
    *,
    with_stdin: bool = False,
) -> Object:
    """A GenericJob that runs a command so many times at once; `$(rank)` in it tells them apart."""
    # Kubernetes reads `$$` as one dollar; a command line means what it says.
    words = [word.replace("$$", "$$$$") for word in command]
    reads = {"stdin": True, "stdinOnce": True} if with_stdin else {}
    template = _template("worker", image, env or {}, command=words, **reads)
    spec: Object = {
        # Whoever is told that it failed does not expect the rest of it to go on.
        "cleanUpPolicy": "Unfinished",
        "replicaSpecs": [{"type": "worker", "replicas": replicas, "template": template}],
    }
    return {"apiVersion": _BATCH, "kind": "GenericJob", "metadata": {"name": name}, "spec": spec}


def build_torch_job(
    name: str,
    processes: int,
    arguments: Sequence[str],
    command: Sequence[str],
    image: str = LOCAL_IMAGE,
    env: Mapping[str, str] | None = None,
    gpus: int = 0,
) -> Object:
    """A ColossalAIJob with one worker, on which torchrun runs a script with these arguments."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    worker: Object = {
        "replicas": 1,
        "procPerWorker": processes,
        "torchArgs": list(arguments),
        "command": list(command),
        "template": _template("worker", image, env or {}, **limits),
    }
    spec: Object = {"launcher": {"image": image}, "worker": worker, "runPolicy": {"cleanUpWorkers": "all"}}
    return {"apiVersion": _BATCH, "kind": "ColossalAIJob", "metadata": {"name": name}, "spec": spec}


def mpi_folder(program: str) -> str | None:
    """Where a program of a Python environment has an mpirun beside it: another one may not suit it.

    Elsewhere programs that have nothing to do with each other lie side by side, as in /usr/bin.
    """
    found = shutil.which(program)
    folder = Path(found).absolute().parent if found else None
    if folder is None or not any((folder.parent / mark).exists() for mark in _ENVIRONMENTS):
        return None
    return str(folder) if shutil.which("mpirun", path=str(folder)) else None


def job_name(command: Sequence[str], suffix: str) -> str:
    """A name that tells what runs: that of the program, or of the script that an interpreter runs."""
    words = [word for word in command if re.fullmatch(r"[\w./+][\w./+-]*", word)]
    scripts = [word for word in words if not _INTERPRETERS.fullmatch(PurePath(word).name)]
    word = PurePath((scripts or words or ["job"])[0]).stem
    plain = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    if not plain or not plain[0].isalpha():
        plain = f"job-{plain}".strip("-")
    return f"{plain}-{suffix}"


def _template(container: str, image: str, env: Mapping[str, str], **more: Any) -> Object:
    if env:
        more["env"] = [{"name": name, "value": value.replace("$", "$$")} for name, value in env.items()]
    return {"spec": {"containers": [{"name": container, "image": image, **more}]}}
