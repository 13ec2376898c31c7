"""Jobs of every kind whose processes need five seconds to save their state after SIGTERM.

Each process makes the file `ready-NAME` in its working directory when it handles the signal, and `saved-NAME`
when it has saved. NAME is the job's name and the rank. On a cluster the directory is a host path.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB

Object = dict[str, Any]
SECONDS: Final = 5
RANKS: Final = (0, 1)
MPI_KINDS: Final = ("mpi", "kubeflow")
KINDS: Final = ("mpi", "colossalai", "kubeflow", "generic")
_SAVE: Final = f"""
import os, signal, sys, time
def save(*_):
    time.sleep({SECONDS})
    open(f"saved-{{name}}-{{rank}}", "x").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(f"ready-{{name}}-{{rank}}", "x").close()
while True:
    time.sleep(0.1)
"""
MPI_RANK: Final = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"
PLAIN_RANK: Final = "import os\nrank = os.environ['RANK']\n"
TORCHRUN: Final = """#!/bin/sh
# Starts one rank, as torchrun does: a process of its own, whose exit code counts.
for word in "$@"; do case $word in --node_rank=*) RANK=${word#*=}; export RANK ;; esac; done
while [ "$1" != -c ]; do shift; done
"${SAVING_PYTHON:-python3}" "$@" &
trap '' TERM
wait $!
"""
"""A stand-in that outlives TERM as torchrun's agent does not need to: only the ranks get the signal."""


class Place(NamedTuple):
    """What differs between places: the image, Python, and fields of every container and pod."""

    image: str
    python: str
    container: Object
    pod: Object


def build(kind: str, name: str, place: Place, *, queue: str = "", prelude: str = "") -> Object:
    """A job of two ranks; `prelude` is what they do first, with `name` and `rank`."""
    rank = MPI_RANK if kind in MPI_KINDS else PLAIN_RANK
    program = [place.python, "-c", f"name = {name!r}\n{rank}{prelude}{_SAVE}"]
    main = {"image": place.image, **place.container}
    builders = {"mpi": _mpi, "colossalai": _colossalai, "kubeflow": _kubeflow, "generic": _generic}
    job = builders[kind](name, program, main, place.pod)
    if queue and kind == "kubeflow":
        for side in job["spec"]["mpiReplicaSpecs"].values():
            side["template"]["metadata"] = {"labels": {"scheduler.tensorstack.dev/queue": queue}}
            side["template"]["spec"]["schedulerName"] = "t9k-scheduler"
    elif queue:
        job["spec"]["scheduler"] = {"t9kScheduler": {"queue": queue}}
    return job


def files(jobs: Sequence[Object], word: str) -> set[str]:
    """The files of all ranks of these jobs that begin with `ready` or `saved`."""
    return {f"{word}-{job['metadata']['name']}-{rank}" for job in jobs for rank in RANKS}


def _mpi(name: str, program: list[str], main: Object, pod: Object) -> Object:
    template = {"spec": {**pod, "containers": [{"name": "mpi-worker", **main}]}}
    worker = {"replicas": 2, "cmd": program, "template": template}
    return _job(MPI_JOB.api_version, "MPIJob", name, worker=worker, runPolicy={"cleanUpWorkers": "all"})


def _colossalai(name: str, program: list[str], main: Object, pod: Object) -> Object:
    template = {"spec": {**pod, "containers": [{"name": "worker", **main}]}}
    worker = {"replicas": 2, "command": program[1:], "template": template}
    launcher = {"image": main["image"]}
    policy = {"cleanUpWorkers": "all"}
    return _job(
        COLOSSALAI_JOB.api_version, "ColossalAIJob", name, worker=worker, launcher=launcher, runPolicy=policy
    )


def _kubeflow(name: str, program: list[str], main: Object, pod: Object) -> Object:
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "2", "--map-by", "node", *program]
    launcher = {"name": "launcher", **main, "command": mpirun}
    return _job(
        KUBEFLOW_MPI_JOB.api_version,
        "MPIJob",
        name,
        cleanPodPolicy="All",
        mpiReplicaSpecs={
            "Launcher": {"replicas": 1, "template": {"spec": {**pod, "containers": [launcher]}}},
            "Worker": {
                "replicas": 2,
                "template": {"spec": {**pod, "containers": [{"name": "worker", **main}]}},
            },
        },
    )


def _generic(name: str, program: list[str], main: Object, pod: Object) -> Object:
    env = [*main.get("env", ()), {"name": "RANK", "value": "$(rank)"}]
    container = {"name": "main", **main, "command": program, "env": env}
    replicas = {"type": "worker", "replicas": 2, "template": {"spec": {**pod, "containers": [container]}}}
    return _job(GENERIC_JOB.api_version, "GenericJob", name, replicaSpecs=[replicas], cleanUpPolicy="All")


def _job(api_version: str, kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
